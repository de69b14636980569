//! What `load_model` takes and what it refuses, on forged files and `CpuOps`.

use foretoken_core::{Chosen, LanguageModel, Ops, Phase, Row};
use foretoken_models::{LoadOptions, ModelsError, architectures, load_model};
use foretoken_reference::CpuOps;
use foretoken_weights::forge::{Forge, ForgeValue};
use foretoken_weights::{BytesSource, Gguf};

const F32: u32 = 0;
const F16: u32 = 1;
/// F32 of 1.
const ONES: u32 = u32::MAX;
const Q4_0: u32 = 2;
/// A type of real files that this build does not read.
const IQ2_XXS: u32 = 16;

/// A model that can still be broken: hidden 32, 2 heads over 1, feed-forward 64, vocabulary 8, 2 layers.
#[derive(Clone)]
struct Draft {
    metadata: Vec<(String, ForgeValue)>,
    tensors: Vec<(String, Vec<u64>, u32)>,
}

impl Draft {
    fn new() -> Self {
        let mut draft = Self {
            metadata: Vec::new(),
            tensors: Vec::new(),
        };
        draft.set("general.architecture", "llama");
        for (key, value) in [
            ("embedding_length", 32u32),
            ("feed_forward_length", 64),
            ("block_count", 2),
            ("context_length", 16),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
            ("rope.dimension_count", 16),
            ("vocab_size", 8),
        ] {
            draft.set(&format!("llama.{key}"), value);
        }
        draft.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
        draft.set("llama.rope.freq_base", 10_000f32);
        draft.tensor("token_embd.weight", &[32, 8], F32);
        for layer in 0..2 {
            for (name, shape) in [
                ("attn_norm", &[32u64][..]),
                ("attn_q", &[32, 32]),
                ("attn_k", &[32, 16]),
                ("attn_v", &[32, 16]),
                ("attn_output", &[32, 32]),
                ("ffn_norm", &[32]),
                ("ffn_gate", &[32, 64]),
                ("ffn_up", &[32, 64]),
                ("ffn_down", &[64, 32]),
            ] {
                draft.tensor(&format!("blk.{layer}.{name}.weight"), shape, F32);
            }
        }
        draft.tensor("output_norm.weight", &[32], F32);
        draft
    }

    fn set(&mut self, key: &str, value: impl Into<ForgeValue>) {
        self.metadata.retain(|(other, _)| other != key);
        self.metadata.push((key.to_owned(), value.into()));
    }

    fn tensor(&mut self, name: &str, shape: &[u64], ggml_type: u32) {
        self.remove(name);
        self.tensors
            .push((name.to_owned(), shape.to_vec(), ggml_type));
    }

    /// Removes a key or a tensor.
    fn remove(&mut self, name: &str) {
        self.metadata.retain(|(key, _)| key != name);
        self.tensors.retain(|(other, ..)| other != name);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut forge = Forge::new();
        for (key, value) in &self.metadata {
            forge = forge.metadata(key, value.clone());
        }
        for (name, shape, ggml_type) in &self.tensors {
            let weights: u64 = shape.iter().product();
            // Values that depend on the name and the place.
            let seed: u32 = name
                .bytes()
                .fold(7, |seed, byte| seed.wrapping_mul(31) ^ u32::from(byte));
            let value = |i: u64| {
                ((seed.wrapping_add((i as u32).wrapping_mul(2_654_435_761)) >> 16) as f32)
                    / 65_536.0
                    - 0.5
            };
            let bytes: Vec<u8> = match *ggml_type {
                F32 => (0..weights).flat_map(|i| value(i).to_le_bytes()).collect(),
                ONES => (0..weights).flat_map(|_| 1f32.to_le_bytes()).collect(),
                F16 => vec![0; weights as usize * 2],
                Q4_0 => vec![0; weights as usize / 32 * 18],
                IQ2_XXS => vec![0; weights as usize / 256 * 66],
                other => panic!("no bytes for type {other}"),
            };
            let stored = if *ggml_type == ONES { F32 } else { *ggml_type };
            forge = forge.tensor(name, shape, stored, &bytes);
        }
        forge.build().bytes
    }

    fn load_with(
        &self,
        ops: &mut CpuOps,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn LanguageModel<CpuOps>>, ModelsError> {
        pollster::block_on(async {
            let source = BytesSource(self.bytes());
            let gguf = Gguf::read(&source).await?;
            load_model(ops, &gguf, &source, options, progress).await
        })
    }

    fn load(&self, ops: &mut CpuOps) -> Result<Box<dyn LanguageModel<CpuOps>>, ModelsError> {
        self.load_with(ops, LoadOptions::default(), &mut |_, _| {})
    }

    /// The logits of token 5 at position 1, behind token 3.
    fn second_logits(&self) -> Vec<f32> {
        let mut ops = CpuOps::new();
        let model = self.load(&mut ops).unwrap();
        let row = |token, position| Row {
            token,
            position,
            sequence: 0,
        };
        ops.begin(Phase::Rows, &[row(3, 0), row(5, 1)], 1);
        let logits = model.forward(&mut ops);
        ops.choose(logits);
        ops.submit().unwrap();
        pollster::block_on(ops.read_chosen()).unwrap();
        pollster::block_on(ops.read_activation(logits)).unwrap()
    }

    /// The logits of token 3 at position 0, by `forward` or by `forward_probe`.
    fn logits(&self, probe: bool) -> Vec<f32> {
        let mut ops = CpuOps::new();
        let model = self.load(&mut ops).unwrap();
        ops.begin(
            Phase::Rows,
            &[Row {
                token: 3,
                position: 0,
                sequence: 0,
            }],
            1,
        );
        let logits = if probe {
            model.forward_probe(&mut ops)
        } else {
            model.forward(&mut ops)
        };
        ops.choose(logits);
        ops.submit().unwrap();
        let chosen = pollster::block_on(ops.read_chosen()).unwrap();
        assert!(matches!(chosen[..], [Chosen::Token(_)]), "{chosen:?}");
        pollster::block_on(ops.read_activation(logits)).unwrap()
    }
}

/// A draft with one change.
fn with(change: impl FnOnce(&mut Draft)) -> Draft {
    let mut draft = Draft::new();
    change(&mut draft);
    draft
}

#[test]
fn the_draft_loads_and_its_config_is_what_it_says() {
    let mut reports = Vec::new();
    let mut ops = CpuOps::new();
    let model = Draft::new()
        .load_with(&mut ops, LoadOptions::default(), &mut |loaded, total| {
            reports.push((loaded, total))
        })
        .unwrap();
    let config = model.config();
    assert_eq!(config.model_type, "llama");
    assert_eq!(
        (
            config.vocab_size,
            config.hidden_size,
            config.intermediate_size
        ),
        (8, 32, 64)
    );
    assert_eq!(
        (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim
        ),
        (2, 1, 16)
    );
    assert_eq!(
        (config.num_hidden_layers, config.max_position_embeddings),
        (2, 16)
    );
    assert!(config.tie_word_embeddings);
    assert_eq!(model.context_length(), 16);

    // 4 bytes a weight; every tensor of the draft is used.
    let weights = 8 * 32 + 32 + 2 * (32 + 32 * 32 + 2 * 32 * 16 + 32 * 32 + 32 + 3 * 32 * 64);
    assert_eq!(reports.first(), Some(&(0, 4 * weights)));
    assert_eq!(reports.last(), Some(&(4 * weights, 4 * weights)));
    // All of it was counted before the last report says so.
    assert_eq!(reports.get(reports.len() - 2), reports.last());
    assert!(reports.is_sorted(), "{reports:?}");
}

fn yarn(draft: &mut Draft) {
    draft.set("llama.rope.scaling.type", "yarn");
    draft.set("llama.rope.scaling.factor", 4f32);
}

/// Divisors of RoPE's frequencies, all above 0.
fn factors(draft: &mut Draft, name: &str) {
    draft.tensor(&format!("{name}.weight"), &[8], ONES);
}

#[test]
fn broken_files_are_refused_by_name() {
    type Case = (&'static str, fn(&mut Draft), &'static [&'static str]);
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("architecture", |d| d.set("general.architecture", "gpt2"), &["`gpt2`", "llama"]),
        ("no architecture", |d| d.remove("general.architecture"), &["general.architecture", "missing"]),
        ("no layers key", |d| d.remove("llama.block_count"), &["llama.block_count", "missing"]),
        ("0 layers", |d| d.set("llama.block_count", 0u32), &["llama.block_count", "is 0"]),
        ("too many layers", |d| d.set("llama.block_count", u32::MAX), &["llama.block_count", "4294967295", "20 tensors"]),
        ("more layers than there are", |d| d.set("llama.block_count", 3u32), &["blk.2.attn_q.weight", "missing"]),
        ("0 heads", |d| d.set("llama.attention.head_count", 0u32), &["llama.attention.head_count", "is 0"]),
        ("0 kv heads", |d| d.set("llama.attention.head_count_kv", 0u32), &["head_count_kv", "is 0"]),
        ("3 kv heads", |d| d.set("llama.attention.head_count_kv", 3u32), &["head_count_kv", "is 3", "2 query heads"]),
        ("7 heads", |d| d.set("llama.attention.head_count", 7u32), &["head_count", "is 7", "32"]),
        ("many heads", |d| { d.set("llama.attention.head_count", 1u32 << 31); d.set("llama.attention.key_length", 32u32); }, &["head_count", "2147483648"]),
        ("wide heads", |d| d.set("llama.attention.key_length", 512u32), &["llama.attention.key_length", "512", "256"]),
        ("0 hidden", |d| d.set("llama.embedding_length", 0u32), &["llama.embedding_length", "is 0"]),
        ("hidden 48", |d| d.set("llama.embedding_length", 48u32), &["llama.embedding_length", "is 48", "multiples of 32"]),
        ("hidden 64", |d| { d.set("llama.embedding_length", 64u32); d.remove("llama.rope.dimension_count"); }, &["token_embd.weight", "64 x 8", "32 x 8"]),
        ("ffn 0", |d| d.set("llama.feed_forward_length", 0u32), &["llama.feed_forward_length", "is 0"]),
        ("ffn 96", |d| d.set("llama.feed_forward_length", 96u32), &["blk.0.ffn_gate.weight", "32 x 96", "32 x 64"]),
        ("context 0", |d| d.set("llama.context_length", 0u32), &["llama.context_length", "is 0"]),
        ("epsilon", |d| d.set("llama.attention.layer_norm_rms_epsilon", -1f32), &["epsilon", "-1"]),
        ("theta 0", |d| d.set("llama.rope.freq_base", 0f32), &["llama.rope.freq_base", "is 0"]),
        ("partial rope", |d| d.set("llama.rope.dimension_count", 8u32), &["llama.rope.dimension_count", "is 8", "16"]),
        ("values", |d| d.set("llama.attention.value_length", 8u32), &["llama.attention.value_length", "is 8", "16"]),
        ("scaling unknown", |d| d.set("llama.rope.scaling.type", "ntk"), &["llama.rope.scaling.type", "`ntk`", "linear"]),
        ("yarn without a factor", |d| d.set("llama.rope.scaling.type", "yarn"), &["llama.rope.scaling.factor", "missing"]),
        ("a window of 0", |d| d.set("llama.attention.sliding_window", 0u32), &["llama.attention.sliding_window", "is 0"]),
        ("scaling", |d| d.set("llama.rope.scaling.factor", 0f32), &["llama.rope.scaling.factor", "is 0"]),
        ("capped logits", |d| d.set("llama.final_logit_softcapping", 30f32), &["llama.final_logit_softcapping", "is 30"]),
        ("capped scores", |d| d.set("llama.attn_logit_softcapping", 50f32), &["llama.attn_logit_softcapping", "is 50"]),
        ("a scale", |d| d.set("llama.residual_scale", 0.22f32), &["llama.residual_scale", "is 0.22", "supported: 1"]),
        ("another scale", |d| d.set("llama.attention.scale", 0.0078125f32), &["llama.attention.scale", "supported: 0"]),
        ("an encoder", |d| d.set("llama.attention.causal", false), &["llama.attention.causal", "is false"]),
        ("a pattern", |d| d.set("llama.attention.sliding_window_pattern", &[1u32; 3][..]), &["sliding_window_pattern", "2 layers"]),
        ("experts", |d| d.set("llama.expert_count", 8u32), &["llama.expert_count", "is 8"]),
        ("vocabulary", |d| d.set("llama.vocab_size", 9u32), &["llama.vocab_size", "is 9", "the 8 rows"]),
        ("tokens", |d| d.set("tokenizer.ggml.tokens", &["t"; 9][..]), &["tokenizer.ggml.tokens", "9 tokens", "8 rows"]),
        ("no table", |d| d.remove("token_embd.weight"), &["token_embd.weight", "missing"]),
        ("no norm", |d| d.remove("output_norm.weight"), &["output_norm.weight", "missing"]),
        ("no layer norm", |d| d.remove("blk.1.ffn_norm.weight"), &["blk.1.ffn_norm.weight", "missing"]),
        ("norm", |d| d.tensor("blk.1.attn_norm.weight", &[64], F32), &["blk.1.attn_norm.weight", "32", "64"]),
        ("k", |d| d.tensor("blk.1.attn_k.weight", &[32, 32], F32), &["blk.1.attn_k.weight", "32 x 16", "32 x 32"]),
        ("transposed", |d| d.tensor("blk.0.ffn_down.weight", &[32, 64], F32), &["blk.0.ffn_down.weight", "64 x 32", "32 x 64"]),
        ("cube", |d| d.tensor("blk.0.ffn_up.weight", &[32, 8, 8], F32), &["blk.0.ffn_up.weight", "32 x 64", "32 x 8 x 8"]),
        ("head", |d| d.tensor("output.weight", &[32, 4], F32), &["output.weight", "32 x 8", "32 x 4"]),
        ("one bias", |d| d.tensor("blk.0.attn_q.bias", &[32], F32), &["blk.0.attn_k.bias", "missing"]),
        ("format", |d| d.tensor("token_embd.weight", &[256, 8], IQ2_XXS), &["token_embd.weight", "IQ2_XXS"]),
        ("factors", |d| d.tensor("rope_freqs.weight", &[4], F32), &["rope_freqs.weight", "8", "4"]),
        ("factor 0", |d| d.tensor("rope_freqs.weight", &[8], F16), &["rope_freqs.weight", "holds 0"]),
        ("factors beside yarn", |d| { yarn(d); factors(d, "rope_freqs"); }, &["rope.scaling.type", "yarn beside", "`rope_freqs.weight`"]),
        ("factors beside longrope", |d| { factors(d, "rope_freqs"); factors(d, "rope_factors_long"); factors(d, "rope_factors_short"); }, &["longrope beside", "`rope_freqs.weight`"]),
        ("long factors beside none", |d| { d.set("llama.rope.scaling.type", "none"); factors(d, "rope_factors_long"); }, &["none beside", "`rope_factors_long.weight`"]),
        ("long factors beside yarn", |d| { yarn(d); factors(d, "rope_factors_long"); }, &["yarn beside", "`rope_factors_long.weight`"]),
        ("short factors alone", |d| factors(d, "rope_factors_short"), &["beside", "`rope_factors_short.weight`"]),
        ("a part of yarn", |d| { yarn(d); d.set("llama.rope.scaling.yarn_ext_factor", 0.5f32); }, &["llama.rope.scaling.yarn_ext_factor", "is 0.5", "yarn", "supported: 1"]),
        ("a part of yarn without yarn", |d| d.set("llama.rope.scaling.yarn_ext_factor", 1f32), &["llama.rope.scaling.yarn_ext_factor", "is 1", "supported: 0"]),
        ("DeepSeek's yarn", |d| { yarn(d); d.set("llama.rope.scaling.yarn_log_multiplier", 0.1f32); }, &["llama.rope.scaling.yarn_log_multiplier", "is 0.1", "supported: 0"]),
        ("growth without yarn", |d| d.set("llama.rope.scaling.attn_factor", 2f32), &["llama.rope.scaling.attn_factor", "is 2", "supported: 1"]),
    ];
    for (name, change, words) in cases {
        let message = match with(*change).load(&mut CpuOps::new()) {
            Ok(_) => panic!("{name}: loaded"),
            Err(error) => error.to_string(),
        };
        for word in *words {
            assert!(
                message.contains(word),
                "{name}: `{word}` is not in: {message}"
            );
        }
        assert!(!message.contains('\n'), "{name}: {message}");
    }
}

#[test]
fn what_may_vary_loads() {
    type Case = (&'static str, fn(&mut Draft));
    let cases: &[Case] = &[
        ("no kv heads key", |d| {
            d.remove("llama.attention.head_count_kv");
            for layer in 0..2 {
                d.tensor(&format!("blk.{layer}.attn_k.weight"), &[32, 32], F32);
                d.tensor(&format!("blk.{layer}.attn_v.weight"), &[32, 32], F32);
            }
        }),
        ("no vocabulary key", |d| d.remove("llama.vocab_size")),
        ("no RoPE keys", |d| {
            d.remove("llama.rope.freq_base");
            d.remove("llama.rope.dimension_count");
        }),
        ("scaling none", |d| d.set("llama.rope.scaling.type", "none")),
        ("divisors, and a factor for all", |d| {
            factors(d, "rope_freqs");
            d.set("llama.rope.scaling.type", "linear");
            d.set("llama.rope.scaling.factor", 2f32);
        }),
        ("the usual, stated", |d| {
            yarn(d);
            d.set("llama.rope.scaling.yarn_ext_factor", -1f32);
            d.set("llama.rope.scaling.yarn_log_multiplier", 0f32);
            d.set("llama.rope.scaling.yarn_attn_factor", 1.5f32);
        }),
        ("fewer tokens than rows", |d| {
            d.set("tokenizer.ggml.tokens", &["t"; 5][..])
        }),
        ("heads wider than the hidden width", |d| {
            d.set("llama.attention.key_length", 32u32);
            d.set("llama.attention.value_length", 32u32);
            d.set("llama.rope.dimension_count", 32u32);
            for layer in 0..2 {
                d.tensor(&format!("blk.{layer}.attn_q.weight"), &[32, 64], F32);
                d.tensor(&format!("blk.{layer}.attn_k.weight"), &[32, 32], F32);
                d.tensor(&format!("blk.{layer}.attn_v.weight"), &[32, 32], F32);
                d.tensor(&format!("blk.{layer}.attn_output.weight"), &[64, 32], F32);
            }
        }),
        // Nor need anybody read their format.
        ("tensors that are not for text", |d| {
            d.tensor("v.patch_embd.weight", &[256, 8], IQ2_XXS);
            d.tensor("mm.input_projection.weight", &[32, 8], F32);
            d.tensor("blk.0.attn_rot_embd.weight", &[8], F32);
        }),
    ];
    for (name, change) in cases {
        let logits = with(*change).logits(false);
        assert!(
            logits.len() == 8 && logits.iter().any(|&logit| logit != 0.0),
            "{name}: {logits:?}"
        );
    }
}

/// What other engines compute with, and this one would leave out.
#[test]
fn a_tensor_without_a_use_is_refused_by_name() {
    for name in [
        "blk.1.attn_output.bias",
        "blk.0.ffn_down.bias",
        "blk.0.ffn_norm.bias",
        "blk.0.attn_q_norm.weight",
        "blk.0.attn_q.scale",
        "blk.0.post_attention_norm.weight",
        "blk.2.attn_norm.weight",
        "output.bias",
        "output_norm.bias",
        "token_embd_norm.weight",
        "position_embd.weight",
        "cls.weight",
        "attn_rot_embd.weight",
        "vision.weight",
    ] {
        let draft = with(|d| d.tensor(name, &[32], F32));
        let error = draft.load(&mut CpuOps::new()).err().expect(name);
        assert!(
            matches!(&error, ModelsError::UnusedTensor { tensor, architecture } if tensor == name && architecture == "llama"),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_probe_runs_one_layer_of_each_kind() {
    // Both layers alike: the probe is the model with its first layer only.
    let alike = Draft::new();
    let first_only = with(|d| {
        d.set("llama.block_count", 1u32);
        d.tensors.retain(|(name, ..)| !name.starts_with("blk.1."));
    });
    assert_eq!(alike.logits(true), first_only.logits(false));
    assert_ne!(alike.logits(true), alike.logits(false));
    // The second stores one matrix otherwise: the probe needs both.
    let mixed = with(|d| d.tensor("blk.1.ffn_up.weight", &[32, 64], Q4_0));
    assert_eq!(mixed.logits(true), mixed.logits(false));
    assert_ne!(mixed.logits(true), first_only.logits(false));
}

/// The first layer sees everything, the second its own position only.
#[test]
fn a_llama_has_windows_in_the_layers_that_the_file_says() {
    let windowed = |pattern: &[u32]| {
        let draft = with(|d| {
            d.set("llama.attention.sliding_window", 1u32);
            d.set("llama.attention.sliding_window_pattern", pattern);
        });
        draft.second_logits()
    };
    let [none, second, first, both] = [[0, 0], [0, 1], [1, 0], [1, 1]].map(|p| windowed(&p));
    assert_eq!(none, Draft::new().second_logits());
    let stated_for_all = with(|d| d.set("llama.attention.sliding_window", 1u32));
    assert_eq!(both, stated_for_all.second_logits());
    assert!(none != second && none != first && second != first && second != both && first != both);
}

#[test]
fn the_context_is_the_models_unless_less_is_asked_for() {
    let load = |context_length| {
        let options = LoadOptions {
            context_length,
            ..LoadOptions::default()
        };
        Draft::new()
            .load_with(&mut CpuOps::new(), options, &mut |_, _| {})
            .map(|model| model.context_length())
    };
    assert_eq!(load(None).unwrap(), 16);
    assert_eq!(load(Some(16)).unwrap(), 16);
    assert_eq!(load(Some(1)).unwrap(), 1);
    assert!(load(Some(17)).unwrap_err().to_string().contains("17"));
    assert!(load(Some(0)).unwrap_err().to_string().contains("1 to 16"));
    // A file that promises a long context does not cost one.
    let mut ops = CpuOps::new();
    let long = with(|d| d.set("llama.context_length", u32::MAX));
    assert_eq!(long.load(&mut ops).unwrap().context_length(), 4096);
}

#[test]
fn every_architecture_is_named_once() {
    let mut names: Vec<_> = architectures().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(
        names.contains(&"llama") && names.len() == count,
        "{names:?}"
    );
}
