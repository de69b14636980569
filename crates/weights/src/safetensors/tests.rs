//! Folders in memory: what is read of a good one, and what is refused.

use serde_json::{Value, json};

use crate::{ByteSource, BytesSource, Gguf, TensorConvention, WeightsError};

/// Files by name, one after another.
struct MemoryFolder {
    names: Vec<String>,
    lengths: Vec<u64>,
    bytes: BytesSource<Vec<u8>>,
}

impl MemoryFolder {
    fn new(files: &[(&str, Vec<u8>)]) -> Self {
        Self {
            names: files.iter().map(|(name, _)| (*name).to_owned()).collect(),
            lengths: files.iter().map(|(_, bytes)| bytes.len() as u64).collect(),
            bytes: BytesSource(files.iter().flat_map(|(_, bytes)| bytes.clone()).collect()),
        }
    }
}

impl ByteSource for MemoryFolder {
    fn name(&self) -> &str {
        "folder"
    }
    fn len(&self) -> u64 {
        self.bytes.len()
    }
    fn parts(&self) -> Vec<u64> {
        self.lengths.clone()
    }
    fn file_names(&self) -> Vec<String> {
        self.names.clone()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        self.bytes.read(offset, into).await
    }
}

fn read(files: &[(&str, Vec<u8>)]) -> Result<Gguf, WeightsError> {
    pollster::block_on(Gguf::read(&MemoryFolder::new(files)))
}

/// A weight file: its header as it is given, then `data` zeros.
fn weights(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A weight file with these tensors (name, shape), in F16.
fn halves(tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let mut at = 0;
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().product::<u64>();
        header.insert(
            (*name).to_owned(),
            json!({ "dtype": "F16", "shape": shape, "data_offsets": [at, end] }),
        );
        at = end;
    }
    weights(&Value::Object(header).to_string(), at as usize)
}

/// The configuration of a small llama, changed by `with`.
fn config(with: Value) -> Vec<u8> {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true, "vocab_size": 8, "transformers_version": "5.0", "architectures": ["X"],
    });
    for (key, value) in with.as_object().unwrap() {
        config[key] = value.clone();
    }
    config.to_string().into_bytes()
}

/// The metadata of a folder with this configuration and an embedding.
fn configured(with: Value) -> Result<Gguf, WeightsError> {
    let embedding = halves(&[("model.embed_tokens.weight", &[8, 64])]);
    read(&[
        ("config.json", config(with)),
        ("model.safetensors", embedding),
    ])
}

fn refused(result: Result<Gguf, WeightsError>, parts: &[&str]) {
    let message = result.expect_err("must be refused").to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    assert!(!message.contains('\n'), "{message:?}");
}

#[test]
fn names_shapes_and_offsets_become_ggufs() {
    let one = halves(&[
        ("model.embed_tokens.weight", &[8, 64]),
        ("model.layers.0.input_layernorm.weight", &[64]),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", &[8]),
        ("model.layers.0.post_attention_layernorm.weight", &[64]),
    ]);
    let two = halves(&[
        ("model.norm.weight", &[64]),
        ("lm_head.weight", &[8, 64]),
        ("model.layers.1.mlp.down_proj.weight", &[64, 96]),
        ("model.layers.1.self_attn.q_proj.bias", &[64]),
        ("score.weight", &[2, 64]),
    ]);
    let place = |file: &[u8]| 8 + u64::from_le_bytes(*file.first_chunk().unwrap());
    let index = json!({ "metadata": { "total_size": 1 }, "weight_map": {
        "model.embed_tokens.weight": "a.safetensors",
        "model.norm.weight": "b.safetensors", "lm_head.weight": "b.safetensors", "score.weight": "b.safetensors",
         "model.layers.0.input_layernorm.weight": "a.safetensors",
        "model.layers.0.self_attn.rotary_emb.inv_freq": "a.safetensors",
        "model.layers.0.post_attention_layernorm.weight": "a.safetensors",
        "model.layers.1.mlp.down_proj.weight": "b.safetensors",
        "model.layers.1.self_attn.q_proj.bias": "b.safetensors",
    }});
    let configuration = config(json!({ "model_type": "qwen2" }));
    let begin = configuration.len() as u64;
    let files = [
        ("config.json", configuration),
        ("b.safetensors", two.clone()),
        ("a.safetensors", one.clone()),
        ("other.safetensors", vec![1, 2, 3]),
        (
            "model.safetensors.index.json",
            index.to_string().into_bytes(),
        ),
    ];
    let gguf = read(&files).unwrap();
    assert_eq!(gguf.convention, TensorConvention::HuggingFace);
    let b = begin + place(&two);
    let a = begin + two.len() as u64 + place(&one);
    let found: Vec<_> = gguf
        .tensors
        .iter()
        .map(|tensor| {
            (
                &*tensor.name,
                tensor.shape.to_vec(),
                tensor.offset,
                tensor.bytes,
            )
        })
        .collect();
    let expected = [
        ("token_embd.weight", vec![64, 8], a, 1024),
        ("blk.0.attn_norm.weight", vec![64], a + 1024, 128),
        ("blk.0.ffn_norm.weight", vec![64], a + 1024 + 128 + 16, 128),
        ("output_norm.weight", vec![64], b, 128),
        ("output.weight", vec![64, 8], b + 128, 1024),
        ("blk.1.ffn_down.weight", vec![96, 64], b + 1152, 12288),
        ("blk.1.attn_q.bias", vec![64], b + 1152 + 12288, 128),
        ("score.weight", vec![64, 2], b + 1152 + 12288 + 128, 256),
    ];
    assert_eq!(found, expected);
    for (name, ..) in expected {
        assert_eq!(&*gguf.required_tensor(name).unwrap().name, name);
    }
}

#[test]
fn a_header_reads_as_the_safetensors_crate_reads_it() {
    let header = json!({
        "__metadata__": { "format": "pt" },
        "b": { "dtype": "BF16", "shape": [3, 5], "data_offsets": [8, 38] },
        "a": { "dtype": "F32", "shape": [2], "data_offsets": [0, 8] },
        "empty": { "dtype": "I64", "shape": [0], "data_offsets": [38, 38] },
    })
    .to_string();
    let ours = super::header::parse("x", header.as_bytes(), 38).unwrap();
    let theirs: safetensors::tensor::Metadata = serde_json::from_str(&header).unwrap();
    assert_eq!(ours.len(), theirs.tensors().len());
    for tensor in &ours {
        let other = theirs.info(&tensor.name).unwrap();
        let shape: Vec<u64> = other.shape.iter().map(|dim| *dim as u64).collect();
        assert_eq!(tensor.shape, shape);
        assert_eq!(
            (tensor.begin as usize, tensor.end as usize),
            other.data_offsets
        );
        assert_eq!(tensor.dtype, other.dtype.to_string());
    }
    // What the crate refuses of offsets is refused here.
    for (from, to) in [
        ("[8, 38]", "[9, 39]"),
        ("[8, 38]", "[38, 8]"),
        ("[0, 8]", "[0, 9]"),
    ] {
        let from = from.replace(' ', "");
        let damaged = header.replace(&from, &to.replace(' ', ""));
        assert_ne!(damaged, header);
        assert!(
            super::header::parse("x", damaged.as_bytes(), 38).is_err(),
            "{to}"
        );
        assert!(
            serde_json::from_str::<safetensors::tensor::Metadata>(&damaged).is_err(),
            "{to}"
        );
    }
}

#[test]
fn configurations_become_metadata() {
    let llama = configured(json!({ "rope_theta": 500_000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }}));
    let metadata = llama.unwrap().metadata;
    assert_eq!(
        metadata.required_str("general.architecture").unwrap(),
        "llama"
    );
    for (key, value) in [
        ("vocab_size", 8),
        ("embedding_length", 64),
        ("feed_forward_length", 96),
        ("block_count", 2),
        ("context_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("rope.scaling.original_context_length", 8192),
    ] {
        let key = format!("llama.{key}");
        assert_eq!(metadata.required_u32(&key).unwrap(), value, "{key}");
    }
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", 1e-5),
        ("rope.freq_base", 500_000.0),
        ("rope.scaling.factor", 32.0),
        ("rope.scaling.low_freq_factor", 1.0),
        ("rope.scaling.high_freq_factor", 4.0),
    ] {
        let key = format!("llama.{key}");
        assert_eq!(metadata.required_f32(&key).unwrap(), value, "{key}");
    }
    assert_eq!(
        metadata.required_str("llama.rope.scaling.type").unwrap(),
        "llama3"
    );
    assert!(metadata.get("llama.attention.sliding_window").is_none());

    // A window for all layers, by default.
    let mistral = configured(json!({ "model_type": "mistral" }))
        .unwrap()
        .metadata;
    assert_eq!(
        mistral
            .required_u32("llama.attention.sliding_window")
            .unwrap(),
        4096
    );
    let without = configured(json!({ "model_type": "mistral", "sliding_window": null }));
    assert!(
        without
            .unwrap()
            .metadata
            .get("llama.attention.sliding_window")
            .is_none()
    );

    // Windows only where asked for.
    let qwen = json!({ "model_type": "qwen2", "sliding_window": 64, "max_window_layers": 1 });
    assert!(
        configured(qwen.clone())
            .unwrap()
            .metadata
            .get("qwen2.attention.sliding_window")
            .is_none()
    );
    // transformers' default, where they are asked for and no number is stated.
    let unstated =
        json!({ "model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 0 });
    let unstated = configured(unstated).unwrap().metadata;
    let window = unstated.required_u32("qwen2.attention.sliding_window");
    assert_eq!(window.unwrap(), 4096);
    // By its default of 28 layers before the first none of these two slides.
    let none = json!({ "model_type": "qwen3", "use_sliding_window": true, "is_causal": true });
    let none = configured(none).unwrap().metadata;
    assert!(none.get("qwen3.attention.sliding_window").is_none());
    let mut asked = qwen;
    asked["use_sliding_window"] = true.into();
    let asked = configured(asked).unwrap().metadata;
    assert_eq!(
        asked
            .required_u32_array("qwen2.attention.sliding_window_pattern")
            .unwrap(),
        [0, 1]
    );

    let smollm = configured(
        json!({ "model_type": "smollm3", "num_hidden_layers": 5, "layer_types": ["full_attention"] }),
    );
    let smollm = smollm.unwrap().metadata;
    assert_eq!(
        smollm.required_u32_array("smollm3.no_rope_layers").unwrap(),
        [1, 1, 1, 0, 1]
    );
    assert_eq!(smollm.required_f32("smollm3.rope.freq_base").unwrap(), 2e6);
}

#[test]
fn gemma_is_the_same_in_both_of_transformers_ways_to_write_it() {
    let old = json!({
        "model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 32, "query_pre_attn_scalar": 168,
        "sliding_window": 512, "sliding_window_pattern": 3, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "rope_scaling": { "rope_type": "linear", "factor": 8.0 }, "hidden_activation": "gelu_pytorch_tanh",
        "final_logit_softcapping": null, "attn_logit_softcapping": null, "attention_bias": false,
    });
    let new = json!({
        "model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 32, "query_pre_attn_scalar": 168,
        "sliding_window": 512, "_sliding_window_pattern": 3, "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": { "rope_type": "linear", "factor": 8.0, "rope_theta": 1e6 },
            "sliding_attention": { "rope_type": "default", "rope_theta": 1e4 },
        },
    });
    let text = |gguf: Gguf| -> Vec<String> {
        let shown = |entry: crate::Entry<'_>| format!("{} = {}", entry.key, entry.value);
        gguf.metadata.iter().map(shown).collect()
    };
    let read = text(configured(old).unwrap());
    assert_eq!(read, text(configured(new.clone()).unwrap()));
    for line in [
        "general.architecture = \"gemma3\"",
        "gemma3.attention.key_length = 32",
        "gemma3.attention.query_pre_attn_scalar = 168",
        "gemma3.attention.sliding_window = 512",
        "gemma3.attention.sliding_window_pattern = [1, 1, 0, 1, …]",
        "gemma3.rope.freq_base = 1000000",
        "gemma3.rope.freq_base_swa = 10000",
        "gemma3.rope.scaling.type = \"linear\"",
        "gemma3.rope.scaling.factor = 8",
    ] {
        assert!(read.iter().any(|found| found == line), "{line} in {read:?}");
    }

    // The text part of a model that also sees, whose vision is left out.
    let mut inner: Value = serde_json::from_slice(&config(new)).unwrap();
    inner["model_type"] = "gemma3_text".into();
    let outer = json!({ "model_type": "gemma3", "text_config": inner, "vision_config": { "hidden_size": 9 },
        "mm_tokens_per_image": 256, "eos_token_id": [1, 106] });
    let file = halves(&[
        ("language_model.model.embed_tokens.weight", &[8, 64]),
        (
            "language_model.model.layers.0.pre_feedforward_layernorm.weight",
            &[64],
        ),
        (
            "language_model.model.layers.0.post_feedforward_layernorm.weight",
            &[64],
        ),
        (
            "language_model.model.layers.0.post_attention_layernorm.weight",
            &[64],
        ),
        (
            "vision_tower.vision_model.embeddings.patch_embedding.weight",
            &[2, 3, 2, 2],
        ),
        ("multi_modal_projector.mm_input_projection_weight", &[4, 4]),
    ]);
    let files = [
        ("config.json", outer.to_string().into_bytes()),
        ("model.safetensors", file),
    ];
    let gguf = super::tests::read(&files).unwrap();
    let names: Vec<&str> = gguf.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(
        names,
        [
            "token_embd.weight",
            "blk.0.ffn_norm.weight",
            "blk.0.post_ffw_norm.weight",
            "blk.0.post_attention_norm.weight",
        ]
    );
    assert_eq!(text(gguf), read);
}

#[test]
fn yarn_and_longrope_have_ggufs_factors() {
    let scaled = |scaling: Value| {
        let gguf =
            configured(json!({ "rope_parameters": scaling, "max_position_embeddings": 4096 }));
        gguf.map(|gguf| gguf.metadata)
    };
    let number = |metadata: &crate::Metadata, key: &str| {
        metadata.f32(&format!("llama.rope.scaling.{key}")).unwrap()
    };
    let yarn = scaled(
        json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
        "beta_fast": 16.0, "attention_factor": 2.0 }),
    )
    .unwrap();
    assert_eq!(number(&yarn, "factor"), Some(4.0));
    assert_eq!(number(&yarn, "yarn_beta_fast"), Some(16.0));
    assert_eq!(number(&yarn, "yarn_beta_slow"), None);
    // Of the usual 1 + 0.1 ln 4.
    assert_eq!(
        number(&yarn, "attn_factor"),
        Some((2.0 / (1.0 + 0.1 * 4f64.ln())) as f32)
    );
    let usual = scaled(json!({ "type": "yarn", "factor": 4.0, "rope_theta": 5.0 })).unwrap();
    assert_eq!(number(&usual, "attn_factor"), None);
    assert_eq!(usual.required_f32("llama.rope.freq_base").unwrap(), 5.0);
    assert_eq!(
        usual
            .required_u32("llama.rope.scaling.original_context_length")
            .unwrap(),
        4096
    );

    let long = scaled(
        json!({ "rope_type": "longrope", "original_max_position_embeddings": 1024,
        "long_factor": [1.5, 2], "short_factor": [1, 1.25] }),
    )
    .unwrap();
    assert_eq!(number(&long, "factor"), Some(4.0));
    assert_eq!(
        number(&long, "attn_factor"),
        Some((1.0 + 4f64.ln() / 1024f64.ln()).sqrt() as f32)
    );
    let factors = long
        .required_f32_array("llama.rope.scaling.long_factor")
        .unwrap();
    assert_eq!(factors, [1.5, 2.0]);

    refused(
        scaled(json!({ "rope_type": "dynamic", "factor": 2.0 })).map(|_| unreachable!()),
        &["rope_type", "dynamic"],
    );
    refused(
        scaled(json!({ "rope_type": "linear" })).map(|_| unreachable!()),
        &["`rope_parameters.factor`", "missing"],
    );
    let more = json!({ "rope_type": "linear", "factor": 2.0, "power": 3 });
    refused(
        scaled(more).map(|_| unreachable!()),
        &["rope_parameters.power", "3"],
    );
}

#[test]
fn what_a_configuration_asks_for_and_is_not_known_is_refused_by_name() {
    for (with, parts) in [
        (
            json!({ "quantization_config": { "quant_method": "gptq" } }),
            &["quantization_config", "gptq"][..],
        ),
        (
            json!({ "auto_map": { "AutoModel": "x.Y" } }),
            &["auto_map", "x.Y"],
        ),
        (
            json!({ "num_local_experts": 8 }),
            &["num_local_experts", "8"],
        ),
        (
            json!({ "hidden_act": "gelu" }),
            &["hidden_act", "gelu", "silu"],
        ),
        (
            json!({ "partial_rotary_factor": 0.5 }),
            &["partial_rotary_factor", "0.5"],
        ),
        (json!({ "logit_scale": 0.06 }), &["logit_scale", "0.06"]),
        (json!({ "sliding_window": 512 }), &["sliding_window", "512"]),
        (json!({ "is_causal": false }), &["is_causal", "false"]),
        (
            json!({ "layer_types": ["full_attention", "sliding_attention"] }),
            &["layer_types", "sliding_attention"],
        ),
        (
            json!({ "model_type": "mistral", "layer_types": ["full_attention", "sliding_attention"] }),
            &["layer_types", "one window"],
        ),
        (json!({ "hidden_size": "wide" }), &["hidden_size", "wide"]),
        (json!({ "hidden_size": null }), &["hidden_size", "missing"]),
        (
            json!({ "num_attention_heads": 0 }),
            &["num_attention_heads", "is 0"],
        ),
        (
            json!({ "num_hidden_layers": 4_000_000_000_u64 }),
            &["num_hidden_layers", "4000000000"],
        ),
        (
            json!({ "num_hidden_layers": -1 }),
            &["num_hidden_layers", "-1"],
        ),
        (
            json!({ "rms_norm_eps": 1e300 }),
            &["rms_norm_eps", "1e+300"],
        ),
        (
            json!({ "attention_bias": true }),
            &["blk.0.attn_q.bias", "missing"],
        ),
        (
            json!({ "tie_word_embeddings": false }),
            &["lm_head.weight", "missing"],
        ),
        (json!({ "model_type": 3 }), &["model_type", "3"]),
        (
            json!({ "model_type": "gemma3_text", "use_bidirectional_attention": true, "hidden_act": "gelu_pytorch_tanh" }),
            &["use_bidirectional_attention", "true"],
        ),
        (
            json!({ "model_type": "gemma3_text", "layer_types": ["full_attention"] }),
            &["layer_types", "1 types for 2"],
        ),
    ] {
        refused(configured(with), parts);
    }
    // transformers ties what is alike, and what is not it leaves as it is stored: the stored head is right in both cases.
    let tied = halves(&[
        ("model.embed_tokens.weight", &[8, 64]),
        ("lm_head.weight", &[8, 64]),
    ]);
    let files = [
        (
            "config.json",
            config(json!({ "tie_word_embeddings": true })),
        ),
        ("model.safetensors", tied),
    ];
    assert!(read(&files).unwrap().tensor("output.weight").is_some());
    // What asks for nothing, and what changes nothing.
    let nothing = json!({ "pretraining_tp": 1, "rope_scaling": null, "num_experts": 0, "is_decoder": false,
        "sliding_window": null, "_attn_implementation_autoset": true, "torch_dtype": "bfloat16", "eos_token_id": [1, 2], "bad_words": [] });
    configured(nothing).unwrap();
    // Of a model type that is not known all that is said is its name.
    let other = configured(json!({ "model_type": "phi3", "anything": 1 })).unwrap();
    assert_eq!(
        other.metadata.required_str("general.architecture").unwrap(),
        "phi3"
    );
    let biased = halves(&[
        ("model.embed_tokens.weight", &[8, 64]),
        ("model.layers.1.self_attn.v_proj.bias", &[32]),
    ]);
    let files = [
        ("config.json", config(json!({}))),
        ("model.safetensors", biased),
    ];
    refused(read(&files), &["attention_bias", "blk.1.attn_v.bias"]);
}

#[test]
fn hostile_headers_are_refused() {
    let with = |file: Vec<u8>| {
        read(&[
            ("config.json", config(json!({}))),
            ("model.safetensors", file),
        ])
    };
    let entry = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let good = entry("F32", "[2,2]", 0, 16);
    let name = "model.norm.weight";
    with(weights(&format!(r#"{{"{name}":{good}}}   "#), 16)).unwrap();

    for (header, data, parts) in [
        (String::new(), 0, &["the header", "cannot be read"][..]),
        ("[]".to_owned(), 0, &["the header"]),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[2,2]", 0, 17)),
            17,
            &[name, "17 bytes", "2 x 2", "F32"],
        ),
        (
            format!(r#"{{"{name}":{good}}}"#),
            15,
            &[name, "to 16", "15 bytes"],
        ),
        (
            format!(r#"{{"{name}":{good}}}"#),
            17,
            &["describes 16", "17 follow"],
        ),
        (
            format!(r#"{{"{name}":{good},"b":{good}}}"#),
            16,
            &["begins at byte 0", "ends at 16"],
        ),
        (
            format!(r#"{{"{name}":{good},"b":{}}}"#, entry("F32", "[2]", 8, 16)),
            16,
            &["side by side"],
        ),
        (
            format!(r#"{{"{name}":{good},"b":{}}}"#, entry("F32", "[2]", 24, 32)),
            32,
            &["begins at byte 24"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[2,2]", 16, 0)),
            16,
            &["from byte 16 to 0"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[]", 0, 4)),
            4,
            &[name, "no dimension"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[0]", 0, 0)),
            0,
            &[name, "size 0"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[1,1,1,1,1]", 0, 4)),
            4,
            &["more than 4 dimensions"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F32", "[-1]", 0, 4)),
            4,
            &["the header"],
        ),
        (
            format!(
                r#"{{"{name}":{}}}"#,
                entry("F32", "[4294967296,4294967296]", 0, 4)
            ),
            4,
            &[name, "4 bytes"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("F8_E4M3", "[4]", 0, 4)),
            4,
            &[name, "F8_E4M3", "F32, F16, BF16"],
        ),
        (
            format!(r#"{{"{name}":{}}}"#, entry("I64", "[1]", 0, 8)),
            8,
            &[name, "I64"],
        ),
        (
            format!(
                r#"{{"{name}":{good},"{name}":{}}}"#,
                entry("F32", "[1]", 16, 20)
            ),
            20,
            &["output_norm.weight", "twice"],
        ),
        (
            r#"{"a":{"dtype":"F32","dtype":"F32"}}"#.to_owned(),
            0,
            &["duplicate field"],
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}}"#.to_owned(),
            4,
            &["extra"],
        ),
    ] {
        refused(with(weights(&header, data)), parts);
    }
    // Metadata that nobody needs may nest as it likes.
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    let nested = format!(r#"{{"__metadata__":{open}1{close}}}"#);
    assert!(with(weights(&nested, 0)).unwrap().tensors.is_empty());
    // Lengths that the file does not back.
    for (length, parts) in [
        (9_u64, &["truncated", "9 bytes", "2 are left"][..]),
        (100_000_000, &["truncated", "100000000 bytes"]),
        (100_000_001, &["100000001", "the limit is 100000000"]),
        (u64::MAX, &["18446744073709551615"]),
    ] {
        let mut file = length.to_le_bytes().to_vec();
        file.extend(b"{}");
        refused(with(file), parts);
    }
    refused(with(vec![1, 2, 3]), &["truncated", "8 bytes", "3 are left"]);
    let many: Vec<String> = (0..=65_536)
        .map(|i| format!(r#""{i}":{}"#, entry("F16", "[0]", 0, 0)))
        .collect();
    refused(
        with(weights(&format!("{{{}}}", many.join(",")), 0)),
        &["more than 65536 tensors"],
    );
}

#[test]
fn hostile_folders_are_refused() {
    let good = || halves(&[("model.norm.weight", &[64])]);
    let indexed = |weight_map: Value| {
        let index = json!({ "weight_map": weight_map }).to_string().into_bytes();
        read(&[
            ("config.json", config(json!({}))),
            ("a.safetensors", good()),
            ("b.safetensors", good()),
            ("model.safetensors.index.json", index),
        ])
    };
    indexed(json!({ "model.norm.weight": "a.safetensors" })).expect("an index that is right");
    for shard in [
        "../a.safetensors",
        "..",
        "/etc/a.safetensors",
        "sub/a.safetensors",
        "..\\a.safetensors",
        "a.safetensors\0",
        "a.bin",
        "",
    ] {
        let shown: String = shard.escape_debug().collect();
        refused(
            indexed(json!({ "model.norm.weight": shard })),
            &[&shown, "the folder itself"],
        );
    }
    refused(
        indexed(json!({ "model.norm.weight": "c.safetensors" })),
        &["c.safetensors", "not in the folder"],
    );
    refused(indexed(json!({})), &["weight_map", "no tensor"]);
    refused(indexed(json!([])), &["weight_map"]);
    refused(indexed(json!({ "model.norm.weight": 1 })), &["weight_map"]);
    let two = json!({ "model.norm.weight": "a.safetensors", "lm_head.weight": "a.safetensors" });
    refused(indexed(two), &["a.safetensors", "has 1 tensors", "lists 2"]);
    refused(
        indexed(json!({ "lm_head.weight": "a.safetensors" })),
        &["model.norm.weight", "index says otherwise"],
    );
    // The same tensor from two files.
    let both = r#"{"weight_map":{"model.norm.weight":"a.safetensors","model.norm.weight":"b.safetensors"}}"#;
    let files = [
        ("config.json", config(json!({}))),
        ("a.safetensors", good()),
        ("b.safetensors", good()),
        ("model.safetensors.index.json", both.as_bytes().to_vec()),
    ];
    refused(read(&files), &["output_norm.weight", "twice"]);
    refused(read(&files[..3]), &["2 .safetensors files", "index.json"]);
    refused(
        read(&files[..1]),
        &["folder/model.safetensors", "no such file"],
    );
    refused(read(&files[1..2]), &["folder/config.json", "no such file"]);
    let twice = [files[0].clone(), files[0].clone()];
    refused(read(&twice), &["two files", "config.json"]);
    let adapter = [
        files[0].clone(),
        files[1].clone(),
        ("adapter_config.json", b"{}".to_vec()),
    ];
    refused(read(&adapter), &["adapter_config.json", "merge"]);
    let long = [("config.json", vec![b' '; (1 << 20) + 1])];
    refused(read(&long), &["config.json", "1048577", "1048576"]);
    let nested = [(
        "config.json",
        [vec![b'['; 100_000], vec![b']'; 100_000]].concat(),
    )];
    refused(read(&nested), &["config.json", "cannot be read"]);
}

#[test]
fn damaged_folders_neither_panic_nor_hang() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/folder_shards/"
    );
    let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), bytes)
        })
        .collect();
    let as_files = |files: &[(String, Vec<u8>)]| {
        let files: Vec<_> = files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.clone()))
            .collect();
        read(&files)
    };
    as_files(&files).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut refused = 0;
    for round in 0..1500 {
        let mut damaged = files.clone();
        let file = random(files.len());
        let bytes = &mut damaged[file].1;
        // Where headers and configurations are.
        let at = random(bytes.len().min(2000));
        match round % 3 {
            0 => bytes[at] ^= 1 << random(8),
            1 => bytes.truncate(at),
            _ => bytes[at] = b"0123456789{}[],:\"-"[random(18)],
        }
        if let Err(error) = as_files(&damaged) {
            assert!(!error.to_string().contains('\n'), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 500, "only {refused} of 1500 were refused");
}
