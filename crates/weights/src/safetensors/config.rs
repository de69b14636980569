//! `config.json`: what it says of the model, as GGUF's metadata.

mod family;
mod fields;

use crate::error::{QUOTED_CHARS, quoted};
use crate::gguf::{Gguf, Metadata, NewValue, limits};
use crate::{WeightsError, safetensors::rope};
use family::{Family, Windows};
pub(super) use fields::Fields;

/// A model's configuration.
#[derive(Debug)]
pub(super) struct Config {
    file: String,
    family: Option<&'static Family>,
    /// Whether the language model is a part of one that also sees.
    sees: bool,
    tied: bool,
    layers: u32,
    /// Whether attention's projections have biases, and the feed-forward part's; `None` where the family has no choice.
    biases: [Option<bool>; 2],
    entries: Vec<(String, NewValue)>,
}

impl Config {
    /// Reads `config.json`. Whatever in it changes the model and is not understood is refused by name; of a model type that is not
    /// known nothing is read but that, so that whoever loads it can say what is known.
    pub(super) fn parse(file: &str, json: &[u8]) -> Result<Self, WeightsError> {
        let mut outer = Fields::parse(file, json)?;
        let model_type = outer.text("model_type")?;
        let Some(model_type) = model_type else {
            return Err(outer.malformed("model_type", "is missing"));
        };
        let mut config = Self {
            file: file.to_owned(),
            family: Family::named(&model_type),
            sees: false,
            tied: false,
            layers: 0,
            biases: [None; 2],
            entries: Vec::new(),
        };
        let Some(family) = config.family else {
            config.push("general.architecture", NewValue::Text(model_type));
            return Ok(config);
        };
        config.push(
            "general.architecture",
            NewValue::Text(family.architecture.to_owned()),
        );
        let tied = outer.bool("tie_word_embeddings")?;
        let mut own = match outer.object("text_config")? {
            None => outer,
            Some(mut text) => {
                config.sees = true;
                outer.refuse_rest()?;
                text.text("model_type")?;
                text
            }
        };
        config.tied = match own.bool("tie_word_embeddings")?.or(tied) {
            Some(tied) => tied,
            None => family.ties,
        };
        config.read(family, &mut own)?;
        own.refuse_rest()?;
        Ok(config)
    }

    pub(super) fn family(&self) -> Option<&'static Family> {
        self.family
    }

    pub(super) fn sees(&self) -> bool {
        self.sees
    }

    pub(super) fn metadata(&self) -> Metadata {
        Metadata::from_entries(&self.entries)
    }

    /// Fails where `gguf` lacks a tensor that the configuration speaks of, or has one that it says is not there: transformers
    /// would make up the one and leave out the other.
    pub(super) fn check(&self, gguf: &Gguf) -> Result<(), WeightsError> {
        if self.family.is_none() {
            return Ok(());
        }
        let missing = |tensor: String| Err(WeightsError::MissingTensor { tensor });
        if !self.tied && gguf.tensor("output.weight").is_none() {
            return missing("lm_head.weight".to_owned());
        }
        let parts: [(&str, &[&str]); 2] = [
            (
                "attention_bias",
                &["attn_q", "attn_k", "attn_v", "attn_output"],
            ),
            ("mlp_bias", &["ffn_gate", "ffn_up", "ffn_down"]),
        ];
        for ((key, modules), stated) in parts.into_iter().zip(self.biases) {
            let Some(stated) = stated else {
                continue;
            };
            for (layer, module) in
                (0..self.layers).flat_map(|layer| modules.iter().map(move |m| (layer, m)))
            {
                let name = format!("blk.{layer}.{module}.bias");
                match (stated, gguf.tensor(&name)) {
                    (true, None) => return missing(name),
                    (false, Some(_)) => {
                        return Err(WeightsError::Malformed {
                            file: self.file.clone(),
                            place: format!("`{key}`"),
                            problem: format!("is false, but there is a tensor for `{name}`"),
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, family: &'static Family, own: &mut Fields) -> Result<(), WeightsError> {
        let hidden = own.required_u32("hidden_size")?;
        let layers = own.required_u32("num_hidden_layers")?;
        if u64::from(layers) > limits::TENSORS {
            let most = limits::TENSORS;
            return Err(own.malformed("num_hidden_layers", &format!("is {layers}, above {most}")));
        }
        self.layers = layers;
        let heads = match own.u32("num_attention_heads")? {
            Some(heads) => heads,
            None if family.heads > 0 => family.heads,
            None => return Err(own.malformed("num_attention_heads", "is missing")),
        };
        if heads == 0 {
            return Err(own.malformed("num_attention_heads", "is 0"));
        }
        let kv_heads = match own.has("num_key_value_heads") {
            // Null says the same as the number of heads.
            true => own.u32("num_key_value_heads")?.unwrap_or(heads),
            false if family.kv_heads > 0 => family.kv_heads,
            false => heads,
        };
        let head_dim = match own.u32("head_dim")? {
            Some(head_dim) => head_dim,
            None if family.head_dim > 0 => family.head_dim,
            None => hidden / heads,
        };
        let positions = own.u32("max_position_embeddings")?;
        let positions = positions.unwrap_or(family.positions);
        if let Some(vocab) = own.u32("vocab_size")? {
            self.set("vocab_size", NewValue::U32(vocab));
        }
        let feed_forward = own.required_u32("intermediate_size")?;
        for (key, value) in [
            ("embedding_length", hidden),
            ("feed_forward_length", feed_forward),
            ("block_count", layers),
            ("context_length", positions),
            ("attention.head_count", heads),
            ("attention.head_count_kv", kv_heads),
            ("attention.key_length", head_dim),
            ("attention.value_length", head_dim),
        ] {
            self.set(key, NewValue::U32(value));
        }
        let eps = own.f64("rms_norm_eps")?.unwrap_or(1e-6);
        self.set(
            "attention.layer_norm_rms_epsilon",
            NewValue::F32(eps as f32),
        );

        let activation = own.text("hidden_activation")?;
        let activation = match activation.is_some() {
            true => activation,
            false => own.text("hidden_act")?,
        };
        if let Some(found) = activation.filter(|found| found != family.activation) {
            return Err(own.unsupported(
                "hidden_act",
                &quoted(&found, QUOTED_CHARS),
                family.activation,
            ));
        }
        // The one key of which false asks for something.
        if own.bool("is_causal")? == Some(false) {
            return Err(own.unsupported("is_causal", "false", "attention to what came before"));
        }
        let rope = rope::entries(own, family.has_local_rope(), family.theta, positions)?;
        for (key, value) in rope {
            self.set(key, value);
        }
        self.biases = match family.has_bias_keys {
            true => [own.bool("attention_bias")?, own.bool("mlp_bias")?]
                .map(|stated| Some(stated.unwrap_or(false))),
            false => [None; 2],
        };
        self.read_windows(family, own)?;
        if family.skips_rope {
            self.read_no_rope(own)?;
        }
        if family.is_sandwich() {
            let scalar = own.f64("query_pre_attn_scalar")?.unwrap_or(256.0);
            self.set(
                "attention.query_pre_attn_scalar",
                NewValue::F32(scalar as f32),
            );
        }
        for key in ["final_logit_softcapping", "attn_logit_softcapping"] {
            if let Some(cap) = own.f64(key)? {
                self.set(key, NewValue::F32(cap as f32));
            }
        }
        Ok(())
    }

    /// Which layers see how far.
    fn read_windows(&mut self, family: &Family, own: &mut Fields) -> Result<(), WeightsError> {
        const SLIDING: &str = "sliding_attention";
        let stated = own.has("sliding_window");
        let mut window = match family.windows {
            // As any other key that the family does not have.
            Windows::None => return Ok(()),
            _ => own.u32("sliding_window")?,
        };
        // SmolLM3's class alone has no default.
        if !stated && !family.skips_rope {
            window = Some(4096);
        }
        let layer_types = own.texts("layer_types")?;
        let last = own.u32("sliding_window_pattern")?;
        let last = last.or(own.u32("_sliding_window_pattern")?).unwrap_or(6);
        let first_sliding = own.u32("max_window_layers")?.unwrap_or(28);
        if family.windows == Windows::IfAsked && own.bool("use_sliding_window")? != Some(true) {
            window = None;
        }
        let Some(window) = window else {
            return Ok(());
        };
        if let Some(types) = &layer_types
            && types.len() != self.layers as usize
        {
            let problem = format!("has {} types for {} layers", types.len(), self.layers);
            return Err(own.malformed("layer_types", &problem));
        }
        let pattern: Vec<u32> = match (layer_types, family.windows) {
            (Some(types), Windows::AllLayers) if types.iter().any(|name| name != SLIDING) => {
                // transformers takes no notice of them in this family.
                let known = "one window for all layers";
                return Err(own.unsupported("layer_types", "of several kinds", known));
            }
            (Some(types), _) => {
                let other = |name: &&String| !matches!(name.as_str(), SLIDING | "full_attention");
                if let Some(name) = types.iter().find(other) {
                    let known = "sliding_attention and full_attention";
                    return Err(own.unsupported("layer_types", &quoted(name, QUOTED_CHARS), known));
                }
                types
                    .iter()
                    .map(|name| u32::from(name == SLIDING))
                    .collect()
            }
            (None, Windows::EveryNth) if last == 0 => {
                return Err(own.malformed("sliding_window_pattern", "is 0"));
            }
            (None, Windows::EveryNth) => (1..=self.layers)
                .map(|layer| u32::from(layer % last != 0))
                .collect(),
            (None, Windows::IfAsked) if family.skips_rope => {
                return Err(own.unsupported(
                    "use_sliding_window",
                    "true",
                    "layers that all see all",
                ));
            }
            (None, Windows::IfAsked) => (0..self.layers)
                .map(|layer| u32::from(layer >= first_sliding))
                .collect(),
            // All of them.
            (None, _) => vec![1; self.layers as usize],
        };
        if pattern.contains(&1) {
            self.set("attention.sliding_window", NewValue::U32(window));
            self.set("attention.sliding_window_pattern", NewValue::U32s(pattern));
        }
        Ok(())
    }

    /// Which layers turn nothing: 1 where one does.
    fn read_no_rope(&mut self, own: &mut Fields) -> Result<(), WeightsError> {
        let key = "no_rope_layers";
        let interval = own.u32("no_rope_layer_interval")?.unwrap_or(4);
        let layers = match own.u32s(key)? {
            Some(mut stated) if stated.len() >= self.layers as usize => {
                stated.truncate(self.layers as usize);
                stated
            }
            Some(stated) => {
                let problem = format!("has {} entries for {} layers", stated.len(), self.layers);
                return Err(own.malformed(key, &problem));
            }
            None if interval == 0 => {
                return Err(own.malformed("no_rope_layer_interval", "is 0"));
            }
            None => (1..=self.layers)
                .map(|layer| u32::from(layer % interval != 0))
                .collect(),
        };
        self.set(key, NewValue::U32s(layers));
        Ok(())
    }

    /// Adds a key below the architecture's name.
    fn set(&mut self, key: &str, value: NewValue) {
        let architecture = self.family.map_or("", |family| family.architecture);
        self.entries.push((format!("{architecture}.{key}"), value));
    }

    fn push(&mut self, key: &str, value: NewValue) {
        self.entries.push((key.to_owned(), value));
    }
}
