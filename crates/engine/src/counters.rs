//! Totals over all requests, under vLLM's names.

use std::fmt::Write;

use foretoken_decode::AggregateCounters;
use serde::Serialize;

use crate::response::FinishReason;

/// What an engine has done since it was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EngineMetrics {
    /// Requests at work: 0 or 1.
    pub num_requests_running: usize,
    /// Requests waiting.
    pub num_requests_waiting: usize,
    /// Tokens of prompts that were begun.
    pub prompt_tokens_total: u64,
    /// Of those, taken from the KV cache.
    pub cached_prompt_tokens_total: u64,
    /// Tokens generated.
    pub generation_tokens_total: u64,
    /// Requests that ended, by why.
    pub requests: RequestTotals,
    /// Verification steps with at least one draft.
    pub spec_decode_num_drafts_total: u64,
    /// Drafts verified.
    pub spec_decode_num_draft_tokens_total: u64,
    /// Drafts accepted.
    pub spec_decode_num_accepted_tokens_total: u64,
    /// Index i: steps that accepted their draft i.
    pub spec_decode_num_accepted_tokens_per_pos_total: Vec<u64>,
}

/// Requests by how they ended; one with several choices by its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestTotals {
    /// The model ended it, or a stop token or stop string was met.
    pub stop: u64,
    /// A limit was reached.
    pub length: u64,
    /// Cancelled: aborted or dropped, at work or while they waited.
    pub abort: u64,
    /// The device or the model failed.
    pub error: u64,
}

/// The totals as they are kept.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) requests: RequestTotals,
    pub(crate) speculation: AggregateCounters,
}

impl Totals {
    /// Counts a request that ended; `None`: it failed.
    pub(crate) fn ended(&mut self, finish: Option<FinishReason>) {
        *match finish {
            Some(FinishReason::Stop | FinishReason::ToolCalls) => &mut self.requests.stop,
            Some(FinishReason::Length) => &mut self.requests.length,
            Some(FinishReason::Abort) => &mut self.requests.abort,
            None => &mut self.requests.error,
        } += 1;
    }

    /// As they are given out. `k`: drafts a step at most, 0 without speculation.
    pub(crate) fn metrics(&self, queue: (usize, usize), k: usize) -> EngineMetrics {
        let per_position = &self.speculation.accepted_per_pos;
        EngineMetrics {
            num_requests_running: queue.0,
            num_requests_waiting: queue.1,
            prompt_tokens_total: self.prompt_tokens,
            cached_prompt_tokens_total: self.cached_tokens,
            generation_tokens_total: self.generation_tokens,
            requests: self.requests,
            spec_decode_num_drafts_total: self.speculation.num_drafts,
            spec_decode_num_draft_tokens_total: self.speculation.num_draft_tokens,
            spec_decode_num_accepted_tokens_total: self.speculation.num_accepted_tokens,
            spec_decode_num_accepted_tokens_per_pos_total: per_position
                [..k.min(per_position.len())]
                .to_vec(),
        }
    }
}

impl EngineMetrics {
    /// In Prometheus' text format, with vLLM's names and its label `model_name`.
    pub fn prometheus(&self, model_name: &str) -> String {
        let model = label_value(model_name);
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
            // Writing to a string does not fail.
            let _ = writeln!(out, "# HELP vllm:{name} {help}");
            let _ = writeln!(out, "# TYPE vllm:{name} {kind}");
            for (label, value) in samples {
                let _ = writeln!(out, "vllm:{name}{{model_name=\"{model}\"{label}}} {value}");
            }
        };
        let one = |value: u64| vec![(String::new(), value)];
        family(
            "num_requests_running",
            "gauge",
            "Requests at work.",
            &one(self.num_requests_running as u64),
        );
        family(
            "num_requests_waiting",
            "gauge",
            "Requests waiting for their turn.",
            &one(self.num_requests_waiting as u64),
        );
        family(
            "prompt_tokens_total",
            "counter",
            "Tokens of prompts.",
            &one(self.prompt_tokens_total),
        );
        family(
            "generation_tokens_total",
            "counter",
            "Tokens generated.",
            &one(self.generation_tokens_total),
        );
        let reasons = [
            ("stop", self.requests.stop),
            ("length", self.requests.length),
            ("abort", self.requests.abort),
            ("error", self.requests.error),
        ];
        let reasons =
            reasons.map(|(reason, count)| (format!(",finished_reason=\"{reason}\""), count));
        family(
            "request_success_total",
            "counter",
            "Requests that ended, by why; abort: cancelled.",
            &reasons,
        );
        family(
            "spec_decode_num_drafts_total",
            "counter",
            "Verification steps with drafts.",
            &one(self.spec_decode_num_drafts_total),
        );
        family(
            "spec_decode_num_draft_tokens_total",
            "counter",
            "Draft tokens verified.",
            &one(self.spec_decode_num_draft_tokens_total),
        );
        family(
            "spec_decode_num_accepted_tokens_total",
            "counter",
            "Draft tokens accepted.",
            &one(self.spec_decode_num_accepted_tokens_total),
        );
        let positions = self.spec_decode_num_accepted_tokens_per_pos_total.iter();
        let positions: Vec<(String, u64)> = positions
            .enumerate()
            .map(|(i, count)| (format!(",position=\"{i}\""), *count))
            .collect();
        family(
            "spec_decode_num_accepted_tokens_per_pos_total",
            "counter",
            "Draft tokens accepted, by their place in the draft.",
            &positions,
        );
        out
    }
}

/// A label's value, escaped as the format asks.
fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_has_vllms_names() {
        let metrics = EngineMetrics {
            spec_decode_num_drafts_total: 43,
            spec_decode_num_accepted_tokens_per_pos_total: vec![4, 3],
            requests: RequestTotals {
                abort: 2,
                ..RequestTotals::default()
            },
            ..EngineMetrics::default()
        };
        let text = metrics.prometheus("a \"b\"\\");
        for line in [
            "# TYPE vllm:spec_decode_num_drafts_total counter",
            "vllm:spec_decode_num_drafts_total{model_name=\"a \\\"b\\\"\\\\\"} 43",
            "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"a \\\"b\\\"\\\\\",position=\"1\"} 3",
            "vllm:request_success_total{model_name=\"a \\\"b\\\"\\\\\",finished_reason=\"abort\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.ends_with('\n'));
    }
}
