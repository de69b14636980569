//! `metrics`: what a response says of how it was made. The shape is vLLM's; what is ours is in `foretoken`.

use std::collections::BTreeMap;

use foretoken_decode::AcceptanceStatistics;
use serde::Serialize;

use crate::SpeculativeMethod;

/// `metrics` of a response, or of the usage chunk of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metrics {
    /// Where `enable_per_request_metrics` asked.
    #[serde(flatten)]
    pub timing: Option<TimingMetrics>,
    /// Absent where nothing is collected; null where there is no one stream to describe, or no speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculative_decoding: Option<Option<SpeculativeDecoding>>,
    /// At the level `detailed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foretoken: Option<ForetokenMetrics>,
}

/// When things happened. All are null where `n > 1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TimingMetrics {
    /// From the start of work to the first token.
    pub time_to_first_token_ms: Option<f64>,
    /// From the first token to the last.
    pub generation_time_ms: Option<f64>,
    /// Waiting before work began.
    pub queue_time_ms: Option<f64>,
    /// Between tokens, on average; null for a single token.
    pub mean_itl_ms: Option<f64>,
    /// All tokens over the time from the start of work to the last.
    pub tokens_per_second: Option<f64>,
}

impl TimingMetrics {
    /// From the times of the first and the last of `tokens` tokens, in milliseconds from the start of work.
    pub(crate) fn new(
        queue_ms: f64,
        first_ms: Option<f64>,
        last_ms: Option<f64>,
        tokens: usize,
    ) -> Self {
        let generation_time_ms = last_ms.zip(first_ms).map(|(last, first)| last - first);
        let intervals = tokens.checked_sub(1).filter(|intervals| *intervals > 0);
        Self {
            time_to_first_token_ms: first_ms,
            generation_time_ms,
            queue_time_ms: Some(queue_ms),
            mean_itl_ms: generation_time_ms
                .zip(intervals)
                .map(|(time, intervals)| time / intervals as f64),
            tokens_per_second: last_ms
                .filter(|last| *last > 0.0)
                .map(|last| tokens as f64 * 1e3 / last),
        }
    }
}

/// How drafting went in one stream. The fields and their order are vLLM's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpeculativeDecoding {
    /// `1 + num_accepted_draft_tokens / num_spec_steps`; 1 without steps.
    pub mean_acceptance_length: f64,
    /// `num_accepted_draft_tokens / num_draft_tokens`; 0 without drafts.
    pub draft_acceptance_rate: f64,
    /// Index j: steps that accepted exactly j drafts; length k + 1.
    pub acceptance_histogram: Vec<u64>,
    /// The same by how many drafts a step verified.
    pub acceptance_histogram_by_draft_length: BTreeMap<usize, Vec<u64>>,
    /// Verification steps with at least one draft.
    pub num_spec_steps: u64,
    /// Drafts accepted; never a bonus token.
    pub num_accepted_draft_tokens: u64,
    /// Drafts verified.
    pub num_draft_tokens: u64,
    /// k: the most a step may draft.
    pub num_spec_tokens: usize,
    /// Drafts each step accepted, in order; at the level `detailed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_step_accepted: Option<Vec<u64>>,
    /// Drafts each step verified, in order; at the level `detailed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_step_drafted: Option<Vec<u64>>,
}

impl SpeculativeDecoding {
    /// Takes over what was counted.
    pub(crate) fn new(statistics: &AcceptanceStatistics) -> Self {
        let detailed = statistics.level() == foretoken_decode::StatisticsLevel::Detailed;
        Self {
            mean_acceptance_length: statistics.mean_acceptance_length(),
            draft_acceptance_rate: statistics.draft_acceptance_rate(),
            acceptance_histogram: statistics.acceptance_histogram.clone(),
            acceptance_histogram_by_draft_length: statistics
                .acceptance_histogram_by_draft_length
                .clone(),
            num_spec_steps: statistics.num_spec_steps,
            num_accepted_draft_tokens: statistics.num_accepted_draft_tokens,
            num_draft_tokens: statistics.num_draft_tokens,
            num_spec_tokens: statistics.num_spec_tokens,
            per_step_accepted: detailed.then(|| statistics.per_step_accepted.clone()),
            per_step_drafted: detailed.then(|| statistics.per_step_drafted.clone()),
        }
    }
}

/// What vLLM has no field for. Sums over all choices.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ForetokenMetrics {
    /// Who drafted, or was to; null where the request drafts nothing.
    pub method: Option<SpeculativeMethod>,
    /// Whether drafts were asked of it.
    pub active: bool,
    /// Why not, where speculation was asked for.
    pub reason: Option<String>,
    /// The seed, passed or drawn.
    pub seed: u64,
    /// Time in the drafter; null where a draft model and the pass that verified were one submission.
    pub draft_time_ms: Option<f64>,
    /// Time from recording a step to having read what it chose; null as the one before.
    pub verify_time_ms: Option<f64>,
    /// The part of it spent waiting for the device.
    pub sync_time_ms: Option<f64>,
    /// Steps after the prompt's without drafts.
    pub plain_steps: u64,
    /// Tokens of the answers that were drafted.
    pub num_emitted_from_drafts: u64,
    /// Compute dispatches; null where the device does not count.
    pub dispatches: Option<u64>,
    /// Submissions to the device.
    pub submits: Option<u64>,
    /// Waits for the device.
    pub readbacks: Option<u64>,
}

impl ForetokenMetrics {
    /// Sums up the choices' figures.
    pub(crate) fn add<'a>(&mut self, choices: impl Iterator<Item = &'a AcceptanceStatistics>) {
        let add = |sum: &mut Option<f64>, time: f64| *sum.get_or_insert(0.0) += time;
        let mut by_model = false;
        for statistics in choices {
            by_model |= statistics.num_draft_passes > 0;
            add(&mut self.draft_time_ms, statistics.draft_time_ms);
            add(&mut self.verify_time_ms, statistics.verify_time_ms);
            add(&mut self.sync_time_ms, statistics.sync_time_ms);
            self.plain_steps += statistics.plain_steps;
            self.num_emitted_from_drafts += statistics.emitted_from_drafts;
        }
        // One submission drafted and verified: nobody knows what each took.
        if by_model {
            self.draft_time_ms = None;
            self.verify_time_ms = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_decode::StatisticsLevel;
    use serde_json::json;

    use super::*;

    fn recorded(
        k: usize,
        level: StatisticsLevel,
        steps: impl IntoIterator<Item = (usize, usize)>,
    ) -> SpeculativeDecoding {
        let mut statistics = AcceptanceStatistics::new(level, k).unwrap();
        for (drafted, accepted) in steps {
            statistics.record_step(drafted, accepted);
        }
        SpeculativeDecoding::new(&statistics)
    }

    fn text(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn times_that_nobody_knows_of_one_choice_nobody_knows_of_all() {
        let choice = |passes| {
            let mut choice = AcceptanceStatistics::new(StatisticsLevel::Detailed, 3).unwrap();
            choice.num_draft_passes = passes;
            choice.draft_time_ms = 1.0;
            choice.verify_time_ms = 8.0;
            choice.sync_time_ms = 2.0;
            choice
        };
        let sums = |choices: [u64; 2]| {
            let mut metrics = ForetokenMetrics::default();
            metrics.add(choices.map(choice).iter());
            let ForetokenMetrics {
                draft_time_ms,
                verify_time_ms,
                sync_time_ms,
                ..
            } = metrics;
            (draft_time_ms, verify_time_ms, sync_time_ms)
        };
        assert_eq!(sums([0, 0]), (Some(2.0), Some(16.0), Some(4.0)));
        assert_eq!(sums([0, 3]), (None, None, Some(4.0)));
        assert_eq!(sums([3, 0]), (None, None, Some(4.0)));
    }

    #[test]
    fn worked_case_one_to_the_last_digit_and_in_the_order_of_fields() {
        let accepted = [vec![0; 39], vec![1], vec![3; 3]].concat();
        let steps = accepted.into_iter().map(|accepted| (3, accepted));
        let metrics = Metrics {
            timing: None,
            speculative_decoding: Some(Some(recorded(3, StatisticsLevel::Summary, steps))),
            foretoken: None,
        };
        assert_eq!(
            text(&metrics),
            r#"{"speculative_decoding":{"mean_acceptance_length":1.2325581395348837,"#.to_owned()
                + r#""draft_acceptance_rate":0.07751937984496124,"acceptance_histogram":[39,1,0,3],"#
                + r#""acceptance_histogram_by_draft_length":{"3":[39,1,0,3]},"num_spec_steps":43,"#
                + r#""num_accepted_draft_tokens":10,"num_draft_tokens":129,"num_spec_tokens":3}}"#
        );
    }

    #[test]
    fn worked_case_two_with_the_steps_one_by_one() {
        let steps = [(4, 4), (2, 0), (1, 1), (4, 2)];
        let found = recorded(4, StatisticsLevel::Detailed, steps);
        assert_eq!(
            serde_json::to_value(found).unwrap(),
            json!({
                "mean_acceptance_length": 2.75, "draft_acceptance_rate": 7.0 / 11.0,
                "acceptance_histogram": [1, 1, 1, 0, 1],
                "acceptance_histogram_by_draft_length":
                    {"1": [0, 1], "2": [1, 0, 0], "4": [0, 0, 1, 0, 1]},
                "num_spec_steps": 4, "num_accepted_draft_tokens": 7, "num_draft_tokens": 11,
                "num_spec_tokens": 4, "per_step_accepted": [4, 0, 1, 2],
                "per_step_drafted": [4, 2, 1, 4],
            })
        );
    }

    #[test]
    fn worked_case_three_nothing_drafted_and_lengths_in_order_of_number() {
        let found = text(&recorded(3, StatisticsLevel::Summary, [(0, 0); 5]));
        assert_eq!(
            found,
            r#"{"mean_acceptance_length":1.0,"draft_acceptance_rate":0.0,"#.to_owned()
                + r#""acceptance_histogram":[0,0,0,0],"acceptance_histogram_by_draft_length":{},"#
                + r#""num_spec_steps":0,"num_accepted_draft_tokens":0,"num_draft_tokens":0,"#
                + r#""num_spec_tokens":3}"#
        );
        let found = recorded(12, StatisticsLevel::Summary, [(10, 0), (2, 2)]);
        let lengths: Vec<usize> = found
            .acceptance_histogram_by_draft_length
            .into_keys()
            .collect();
        assert_eq!(lengths, [2, 10]);
    }

    #[test]
    fn worked_case_four_null_is_not_absent() {
        let off = Metrics {
            timing: None,
            speculative_decoding: Some(None),
            foretoken: None,
        };
        assert_eq!(text(&off), r#"{"speculative_decoding":null}"#);
        let timing_only = Metrics {
            timing: Some(TimingMetrics::default()),
            speculative_decoding: None,
            foretoken: None,
        };
        assert_eq!(
            text(&timing_only),
            r#"{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"#
                .to_owned()
                + r#""mean_itl_ms":null,"tokens_per_second":null}"#
        );
    }

    #[test]
    fn timing_follows_its_definitions() {
        let many = TimingMetrics::new(12.0, Some(80.0), Some(1080.0), 101);
        assert_eq!(many.queue_time_ms, Some(12.0));
        assert_eq!(many.time_to_first_token_ms, Some(80.0));
        assert_eq!(many.generation_time_ms, Some(1000.0));
        assert_eq!(many.mean_itl_ms, Some(10.0));
        assert_eq!(many.tokens_per_second, Some(101.0 * 1e3 / 1080.0));
        let one = TimingMetrics::new(0.0, Some(80.0), Some(80.0), 1);
        assert_eq!((one.generation_time_ms, one.mean_itl_ms), (Some(0.0), None));
    }
}
