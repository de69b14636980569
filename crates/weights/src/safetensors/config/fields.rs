//! [`Fields`]: an object of `config.json`, from which what is understood is taken out; what stays behind is judged last.

use serde_json::{Map, Value};

use crate::WeightsError;
use crate::error::{QUOTED_CHARS, quoted};
use crate::safetensors::header::json_problem;

/// Keys that change nothing of what the model computes from tokens: training, bookkeeping, the defaults of a request (which are
/// OpenAI's here), and the parts of a model that see. A key that begins with `_` is bookkeeping too.
const WITHOUT_EFFECT: [&str; 49] = [
    "architectures",
    "attention_dropout",
    "boi_token_index",
    "bos_token_id",
    "cache_implementation",
    "diversity_penalty",
    "dtype",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eoi_token_index",
    "eos_token_id",
    "hidden_dropout",
    "id2label",
    "image_token_index",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_window_layers",
    "min_length",
    "mm_tokens_per_image",
    "model_max_length",
    "model_name",
    "name_or_path",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
    "vision_config",
];

/// An object, and where it is.
#[derive(Debug)]
pub(in crate::safetensors) struct Fields {
    file: String,
    /// The keys above it, each with a dot.
    above: String,
    map: Map<String, Value>,
}

// Out of line: what is called from many places, where speed does not matter.
impl Fields {
    pub(super) fn parse(file: &str, json: &[u8]) -> Result<Self, WeightsError> {
        let map = serde_json::from_slice(json).map_err(|error| WeightsError::Malformed {
            file: file.to_owned(),
            place: "the file".to_owned(),
            problem: json_problem(&error),
        })?;
        Ok(Self {
            file: file.to_owned(),
            above: String::new(),
            map,
        })
    }

    /// Whether there is a key, null or not, that was not taken yet.
    pub(in crate::safetensors) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Takes a whole number; `None` where there is none, as in all of these.
    #[inline(never)]
    pub(in crate::safetensors) fn u32(&mut self, key: &str) -> Result<Option<u32>, WeightsError> {
        self.take(key, "a whole number of 32 bits", |value| {
            value.as_u64().and_then(|value| value.try_into().ok())
        })
    }

    pub(in crate::safetensors) fn required_u32(&mut self, key: &str) -> Result<u32, WeightsError> {
        let value = self.u32(key)?;
        value.ok_or_else(|| self.malformed(key, "is missing"))
    }

    /// Takes a number, which JSON has finite ones of only. It must be finite in single precision too.
    #[inline(never)]
    pub(in crate::safetensors) fn f64(&mut self, key: &str) -> Result<Option<f64>, WeightsError> {
        self.take(key, "a number", float)
    }

    #[inline(never)]
    pub(in crate::safetensors) fn bool(&mut self, key: &str) -> Result<Option<bool>, WeightsError> {
        self.take(key, "true or false", Value::as_bool)
    }

    #[inline(never)]
    pub(in crate::safetensors) fn text(
        &mut self,
        key: &str,
    ) -> Result<Option<String>, WeightsError> {
        self.take(key, "text", text)
    }

    pub(in crate::safetensors) fn texts(
        &mut self,
        key: &str,
    ) -> Result<Option<Vec<String>>, WeightsError> {
        self.take(key, "an array of text", |value| {
            value.as_array()?.iter().map(text).collect()
        })
    }

    pub(in crate::safetensors) fn u32s(
        &mut self,
        key: &str,
    ) -> Result<Option<Vec<u32>>, WeightsError> {
        self.take(key, "an array of whole numbers", |value| {
            let number = |value: &Value| value.as_u64()?.try_into().ok();
            value.as_array()?.iter().map(number).collect()
        })
    }

    pub(in crate::safetensors) fn f32s(
        &mut self,
        key: &str,
    ) -> Result<Option<Vec<f32>>, WeightsError> {
        self.take(key, "an array of numbers", |value| {
            let number = |value: &Value| float(value).map(|value| value as f32);
            value.as_array()?.iter().map(number).collect()
        })
    }

    #[inline(never)]
    pub(in crate::safetensors) fn object(
        &mut self,
        key: &str,
    ) -> Result<Option<Self>, WeightsError> {
        let map = self.take(key, "an object", |value| value.as_object().cloned())?;
        Ok(map.map(|map| Self {
            file: self.file.clone(),
            above: format!("{}{key}.", self.above),
            map,
        }))
    }

    /// Fails by name on what is left over, unless it changes nothing or asks for nothing.
    pub(in crate::safetensors) fn refuse_rest(&self) -> Result<(), WeightsError> {
        for (key, value) in &self.map {
            let asks_for_nothing = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            let has_no_effect = key.starts_with('_') || WITHOUT_EFFECT.contains(&key.as_str());
            if !asks_for_nothing && !has_no_effect {
                let value = quoted(&value.to_string(), QUOTED_CHARS);
                return Err(self.unsupported(key, &value, "nothing of that name"));
            }
        }
        Ok(())
    }

    /// `problem` completes "`key` …".
    #[cold]
    #[inline(never)]
    pub(in crate::safetensors) fn malformed(&self, key: &str, problem: &str) -> WeightsError {
        WeightsError::Malformed {
            file: self.file.clone(),
            place: format!("`{}{key}`", self.above),
            problem: problem.to_owned(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(in crate::safetensors) fn unsupported(
        &self,
        key: &str,
        value: &str,
        supported: &str,
    ) -> WeightsError {
        WeightsError::UnsupportedConfig {
            file: self.file.clone(),
            key: format!("{}{}", self.above, quoted(key, QUOTED_CHARS)),
            value: value.to_owned(),
            supported: format!("supported: {supported}"),
        }
    }

    fn take<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, WeightsError> {
        let Some(value) = self.taken(key) else {
            return Ok(None);
        };
        match read(&value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(key, expected, &value)),
        }
    }

    #[inline(never)]
    fn taken(&mut self, key: &str) -> Option<Value> {
        let value = self.map.swap_remove(key);
        value.filter(|value| !value.is_null())
    }

    #[cold]
    #[inline(never)]
    fn wrong(&self, key: &str, expected: &str, found: &Value) -> WeightsError {
        let found = quoted(&found.to_string(), QUOTED_CHARS);
        self.malformed(key, &format!("is {found}, but must be {expected}"))
    }
}

fn float(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| (*value as f32).is_finite())
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
