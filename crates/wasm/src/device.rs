//! An open device, and loading onto it.

use foretoken_engine::{
    DeviceCounts, DraftSource, EngineOptions, Error, LoadPhase, Quantization, SpeculativeConfig,
    parse_body, parse_metrics_level,
};
use foretoken_gpu::{GpuOps, GpuOptions, Tier};
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::prelude::*;

use crate::Engine;
use crate::failure::thrown;
use crate::source::{ByteRanges, JsSource};

/// A WebGPU device that holds nothing yet.
#[wasm_bindgen]
pub struct Device {
    pub(crate) ops: GpuOps,
    adapter: Adapter,
    pub(crate) options: EngineOptions,
    /// What the draft model is called, where there is to be one.
    draft_name: Option<String>,
}

/// What the device computes on.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Adapter {
    name: String,
    tier: &'static str,
    software: bool,
    shader_f16: bool,
    max_binding_bytes: u64,
    max_buffer_bytes: u64,
}

#[wasm_bindgen]
impl Device {
    /// Opens the browser's device for an engine with `options`, which are JSON and are looked at first. `name` is what to call the
    /// adapter, of which wgpu does not learn a browser's name; `tier` the features to use, all there are if absent.
    pub async fn open(
        name: String,
        tier: Option<String>,
        options: String,
    ) -> Result<Device, JsValue> {
        let options = self::options(&options).map_err(|error| thrown(&error))?;
        let (mut options, draft_name) = options;
        let tier = tier.map(|name| Tier::parse(&name)).transpose();
        let gpu = GpuOptions {
            tier: tier.map_err(|error| thrown(&error.into()))?,
            ..GpuOptions::default()
        };
        let ops = GpuOps::new(gpu).await;
        let ops = ops.map_err(|error| thrown(&error.into()))?;
        let report = ops.adapter();
        let adapter = Adapter {
            name,
            tier: ops.tier().name(),
            software: report.software,
            shader_f16: report.shader_f16,
            max_binding_bytes: report.max_binding_bytes,
            max_buffer_bytes: report.max_buffer_bytes,
        };
        options.device = format!("{} {}", adapter.name, adapter.tier);
        Ok(Device {
            ops,
            adapter,
            options,
            draft_name,
        })
    }

    /// Loads a GGUF file or a folder. `progress` is called with a phase (`upload`, `compile`, `tune`), how much of it is done, and how much there
    /// is (0: not counted). Of a draft model there is a file, or `draft_problem`, why there is none: the engine is loaded without it.
    /// The device is used up, whatever comes of it.
    pub async fn load(
        self,
        file: ByteRanges,
        draft: Option<ByteRanges>,
        draft_problem: Option<String>,
        progress: js_sys::Function,
    ) -> Result<Engine, JsValue> {
        let source = JsSource::new(file);
        let draft = draft.map(JsSource::new);
        let draft = self.draft_source(draft.as_ref(), draft_problem);
        let Device {
            ops,
            adapter,
            options,
            ..
        } = self;
        let mut report = |state: foretoken_engine::LoadProgress| {
            let phase = match state.phase {
                LoadPhase::Upload => "upload",
                LoadPhase::Tune => "tune",
                _ => "compile",
            };
            let _ = progress.call3(
                &JsValue::NULL,
                &phase.into(),
                &(state.loaded as f64).into(),
                &(state.total as f64).into(),
            );
        };
        let engine =
            foretoken_engine::Engine::load_with_draft(ops, &source, draft, options, &mut report)
                .await
                .map_err(|error| thrown(&error))?;
        engine.count_with(|ops| {
            let counters = ops.counters();
            DeviceCounts {
                dispatches: counters.dispatches,
                submits: counters.submits,
                readbacks: counters.syncs,
            }
        });
        let device_bytes = engine.with_ops(|ops| ops.counters().device_bytes);
        Ok(Engine::new(
            engine,
            adapter,
            device_bytes.unwrap_or_default(),
        ))
    }
}

#[cfg(target_arch = "wasm32")]
#[wasm_bindgen]
impl Device {
    /// The browser's device. Destroying it gives back all of its memory at once, also after a panic, and whatever still waits.
    #[wasm_bindgen(getter)]
    pub fn gpu(&self) -> js_sys::Object {
        self.ops.browser_device()
    }
}

impl Device {
    /// The draft model as the engine takes it.
    pub(crate) fn draft_source<'a>(
        &self,
        file: Option<&'a JsSource>,
        problem: Option<String>,
    ) -> Option<DraftSource<'a, JsSource>> {
        let problem = problem.unwrap_or_else(|| "its file was not given".to_owned());
        Some(DraftSource {
            name: self.draft_name.clone()?,
            file: file.ok_or(problem),
        })
    }

    pub(crate) fn into_parts(self) -> (GpuOps, Adapter) {
        (self.ops, self.adapter)
    }
}

/// Reads `{ modelName, draftModelName?, contextLength?, quantize?, speculativeConfig?, perRequestSpecDecodeMetrics?, enablePerRequestMetrics?,
/// enableForceIncludeUsage? }`, and returns the draft model's name beside the rest. `null` means absent; an unknown key is refused.
fn options(json: &str) -> Result<(EngineOptions, Option<String>), Error> {
    let Value::Object(fields) = parse_body(json.as_bytes())? else {
        return Err(refused("options", "must be an object"));
    };
    let mut options = EngineOptions {
        check_row_invariance: true,
        ..EngineOptions::new("", "")
    };
    let mut draft_name = None;
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let flag = || {
            value
                .as_bool()
                .ok_or_else(|| refused(name, "must be true or false"))
        };
        let text = || {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| refused(name, "must be a string"))
        };
        match name.as_str() {
            "modelName" => options.model_name = text()?,
            "draftModelName" => draft_name = Some(text()?),
            "contextLength" => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                let number = number.filter(|number| *number > 0);
                let needed = "must be a whole number from 1 on";
                options.context_length = Some(number.ok_or_else(|| refused(name, needed))?);
            }
            "quantize" => {
                let choice = value.as_str().and_then(Quantization::parse);
                let needed = "must be \"q8_0\" or \"q4_0\"";
                options.quantize = Some(choice.ok_or_else(|| refused(name, needed))?);
            }
            "speculativeConfig" => {
                options.speculative_config = Some(SpeculativeConfig::parse(value)?);
            }
            "perRequestSpecDecodeMetrics" => {
                let level = value.as_str().and_then(parse_metrics_level);
                let needed = "must be \"none\", \"summary\" or \"detailed\"";
                let level = level.ok_or_else(|| refused(name, needed))?;
                options.per_request_spec_decode_metrics = level;
            }
            "enablePerRequestMetrics" => options.enable_per_request_metrics = flag()?,
            "enableForceIncludeUsage" => options.enable_force_include_usage = flag()?,
            _ => return Err(refused(name, "is not an option")),
        }
    }
    options.check_draft(draft_name.is_some())?;
    Ok((options, draft_name))
}

fn refused(name: &str, problem: &str) -> Error {
    Error::InvalidRequest {
        param: Some(name.to_owned()),
        message: format!("`{name}` {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_null_is_absent() {
        let read = options(
            r#"{"modelName": "m", "contextLength": 99, "quantize": "q4_0", "speculativeConfig": null, "enablePerRequestMetrics": true}"#,
        );
        let (read, draft_name) = read.unwrap();
        assert_eq!(draft_name, None);
        assert_eq!(read.model_name, "m");
        assert_eq!(read.context_length, Some(99));
        assert_eq!(read.quantize, Some(Quantization::Q4_0));
        assert_eq!(read.speculative_config, None);
        assert!(read.enable_per_request_metrics && read.check_row_invariance);
    }

    #[test]
    fn a_draft_model_comes_with_what_it_is_for() {
        let config = r#""speculativeConfig": {"method": "draft_model", "num_speculative_tokens": 3, "model": "/d.gguf"}"#;
        let (_, draft_name) = options(&format!(r#"{{"draftModelName": "d", {config}}}"#)).unwrap();
        assert_eq!(draft_name.as_deref(), Some("d"));
        for (json, param) in [
            (format!("{{{config}}}"), "speculative_config.method"),
            (
                r#"{"draftModelName": "d"}"#.to_owned(),
                "speculative_config",
            ),
            (r#"{"draftModelName": 1}"#.to_owned(), "draftModelName"),
        ] {
            let error = options(&json).unwrap_err();
            assert_eq!(error.param(), Some(param), "{json}");
        }
    }

    #[test]
    fn what_is_no_option_is_named() {
        for (json, param) in [
            (r#"{"tokens": 1}"#, "tokens"),
            (r#"{"contextLength": 0}"#, "contextLength"),
            (r#"{"contextLength": 4.5}"#, "contextLength"),
            (r#"{"quantize": "q2_k"}"#, "quantize"),
            (r#"{"quantize": true}"#, "quantize"),
            (
                r#"{"perRequestSpecDecodeMetrics": "all"}"#,
                "perRequestSpecDecodeMetrics",
            ),
            (
                r#"{"speculativeConfig": {"method": "magic"}}"#,
                "speculative_config.method",
            ),
        ] {
            let error = options(json).unwrap_err();
            assert_eq!(error.param(), Some(param), "{json}");
        }
    }
}
