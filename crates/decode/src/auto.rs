//! `auto`: each step takes, of several ways to draft, the one with the most expected tokens a second.
//!
//! What the drafters on the host would propose is known before a pass is recorded, and costs next to nothing; so all are asked at
//! every step, and what then was committed says of each how right it was, whoever drafted. The draft model is known by the steps that
//! it drafted. Each way has its own acceptance and its own cost of a draft; what a pass costs is learnt by all from every step.

use foretoken_core::{Clock, TokenId};

use crate::adaptive::Expected;
use crate::{AcceptanceEstimate, AdaptiveSpeculation, Drafter};

/// A drafter on the host among others.
#[derive(Debug)]
struct Host {
    drafter: Box<dyn Drafter>,
    adaptive: AdaptiveSpeculation,
    /// What it would draft now.
    proposed: Vec<TokenId>,
}

/// Several ways to draft one answer.
#[derive(Debug, Default)]
pub struct Auto {
    hosts: Vec<Host>,
    model: Option<AdaptiveSpeculation>,
}

/// How a step drafts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// It does not.
    Plain,
    /// These tokens.
    Tokens(Vec<TokenId>),
    /// So many tokens, by the draft model.
    Model(usize),
}

impl Auto {
    /// Adds a drafter on the host.
    pub fn with_drafter(
        mut self,
        drafter: Box<dyn Drafter>,
        adaptive: AdaptiveSpeculation,
    ) -> Self {
        self.hosts.push(Host {
            drafter,
            adaptive,
            proposed: Vec::new(),
        });
        self
    }

    /// Adds the draft model that comes with each step.
    pub fn with_model(mut self, adaptive: AdaptiveSpeculation) -> Self {
        self.model = Some(adaptive);
        self
    }

    /// What was learnt of acceptance: of the drafters in the order in which they were added, then of the draft model.
    pub fn estimates(&self) -> impl Iterator<Item = &AcceptanceEstimate> {
        self.ways().map(AdaptiveSpeculation::estimate)
    }

    fn ways(&self) -> impl Iterator<Item = &AdaptiveSpeculation> {
        self.hosts
            .iter()
            .map(|host| &host.adaptive)
            .chain(&self.model)
    }

    /// A new answer begins.
    pub(crate) fn start(&mut self, prompt: &[TokenId]) {
        for host in &mut self.hosts {
            host.drafter.start(prompt);
            host.proposed.clear();
        }
    }

    /// How the next step drafts up to `ceiling` tokens, the draft model up to `model_ceiling`; all ids below `vocab`.
    pub(crate) fn next(&mut self, ceiling: usize, model_ceiling: usize, vocab: TokenId) -> Way {
        let mut best: Option<(Expected, usize)> = None;
        for (i, host) in self.hosts.iter_mut().enumerate() {
            let clock = Clock::start();
            host.proposed = host.drafter.propose(ceiling);
            host.adaptive
                .record_draft(host.proposed.len(), clock.elapsed_ms());
            host.proposed.truncate(ceiling);
            if let Some(bad) = host.proposed.iter().position(|&token| token >= vocab) {
                host.proposed.truncate(bad);
            }
            let expected = host.adaptive.expected(host.proposed.len());
            if expected.k > 0 && best.is_none_or(|(best, _)| expected.rate > best.rate) {
                best = Some((expected, i));
            }
        }
        if let Some(model) = &mut self.model {
            let k = model.next_k_beside(model_ceiling, best.map(|(best, _)| best.rate));
            if k > 0 {
                return Way::Model(k);
            }
        }
        match best {
            Some((expected, i)) => Way::Tokens(self.hosts[i].proposed[..expected.k].to_vec()),
            None => Way::Plain,
        }
    }

    /// The draft model, where it takes part.
    pub(crate) fn model(&mut self) -> Option<&mut AdaptiveSpeculation> {
        self.model.as_mut()
    }

    /// Takes note of the time of a pass of `rows` rows that the draft model took note of.
    pub(crate) fn record_pass_of_hosts(&self, rows: usize, ms: f64) {
        for host in &self.hosts {
            host.adaptive.record_pass(rows, ms);
        }
    }

    /// Takes note of the time of a pass of `rows` rows.
    pub(crate) fn record_pass(&self, rows: usize, ms: f64) {
        for way in self.ways() {
            way.record_pass(rows, ms);
        }
    }

    /// These tokens were committed: how many of them each drafter had proposed is known now.
    pub(crate) fn committed(&mut self, tokens: &[TokenId]) {
        for host in &mut self.hosts {
            let both = host.proposed.iter().zip(tokens);
            let accepted = both.take_while(|(a, b)| a == b).count();
            // Nothing is known of what lies behind the committed tokens.
            let judged = match accepted == tokens.len() {
                true => accepted,
                false => host.proposed.len(),
            };
            host.adaptive.record_acceptance(judged, accepted, false);
            host.proposed.clear();
            host.drafter.committed(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::StepCosts;

    /// Proposes what it is told to.
    #[derive(Debug)]
    struct Says(Vec<TokenId>);

    impl Drafter for Says {
        fn name(&self) -> &'static str {
            "says"
        }
        fn start(&mut self, _: &[TokenId]) {}
        fn committed(&mut self, _: &[TokenId]) {}
        fn propose(&mut self, _: usize) -> Vec<TokenId> {
            self.0.clone()
        }
    }

    fn adaptive(draft_ms: f64, probability: f64) -> AdaptiveSpeculation {
        let passes: Vec<_> = (1..=16)
            .map(|rows| (rows, 9.8 + 0.2 * rows as f64))
            .collect();
        let costs = StepCosts::from_measured(&passes)
            .unwrap()
            .with_draft_ms(draft_ms);
        AdaptiveSpeculation::new(
            Rc::new(RefCell::new(costs)),
            AcceptanceEstimate::from_probabilities(&[probability]),
        )
    }

    fn says(tokens: &[TokenId]) -> Box<dyn Drafter> {
        Box::new(Says(tokens.to_vec()))
    }

    #[test]
    fn the_way_with_the_most_expected_tokens_a_second() {
        let auto = |host: f64, model_ms: f64, model: f64| {
            Auto::default()
                .with_drafter(says(&[1, 2]), adaptive(0.0, host))
                .with_model(adaptive(model_ms, model))
                .next(4, 4, 100)
        };
        // 2.7 tokens in 10.4 ms; 4.1 in 10.8 + 4 × 2, or in 10.8 + 4 × 0.5.
        assert_eq!(auto(0.9, 2.0, 0.9), Way::Tokens(vec![1, 2]));
        assert_eq!(auto(0.9, 0.5, 0.9), Way::Model(4));
        assert_eq!(auto(0.1, 0.5, 0.9), Way::Model(4));
        assert_eq!(auto(0.9, 5.0, 0.1), Way::Tokens(vec![1, 2]));
        assert_eq!(auto(0.0, 9.0, 0.1), Way::Plain);
    }

    #[test]
    fn what_is_proposed_is_cut_to_what_pays_and_to_the_vocabulary() {
        let next = |probability, vocab| {
            Auto::default()
                .with_drafter(says(&[1, 2, 3, 200, 5]), adaptive(0.0, probability))
                .next(5, 0, vocab)
        };
        assert_eq!(next(1.0, 300), Way::Tokens(vec![1, 2, 3, 200, 5]));
        assert_eq!(next(1.0, 100), Way::Tokens(vec![1, 2, 3]));
        assert_eq!(next(0.1, 300), Way::Tokens(vec![1]));
    }

    /// The steps of 1000 that a draft model drafts beside a host that is right. It does not pay by what is known of it at first, and is
    /// wrong until step 300 and always right from then on.
    fn steps_by_model(draft_ms: f64) -> Vec<usize> {
        let mut auto = Auto::default()
            .with_drafter(says(&[1, 2]), adaptive(0.0, 0.9))
            .with_model(adaptive(draft_ms, 0.0));
        let mut by_model = Vec::new();
        for step in 1..=1000 {
            match auto.next(4, 4, 100) {
                Way::Model(k) => {
                    by_model.push(step);
                    let accepted = if step > 300 { k } else { 0 };
                    let ms = 10.0 + k as f64 * (0.2 + draft_ms);
                    let model = auto.model().unwrap();
                    model.record_whole_step(k, k, accepted, ms);
                }
                _ => auto.committed(&[1, 2, 3]),
            }
        }
        by_model
    }

    #[test]
    fn a_draft_model_that_did_not_pay_is_tried_again_beside_a_host_that_does() {
        // Five tokens in 14.8 ms, where the host's way brings three in 10.4.
        let cheap = steps_by_model(1.0);
        assert_eq!(cheap[..3], [128, 256, 384]);
        assert!(cheap.len() > 450, "it took over: {cheap:?}");
        // In 26.8 ms, which is less than the host's: now and then a few steps.
        let dear = steps_by_model(4.0);
        assert_eq!(dear[..3], [128, 256, 384]);
        assert!((10..80).contains(&dear.len()), "{dear:?}");
    }

    #[test]
    fn drafters_that_were_not_taken_learn_from_what_was_committed() {
        let mut auto = Auto::default()
            .with_drafter(says(&[1, 2, 3]), adaptive(0.0, 0.5))
            .with_drafter(says(&[1, 9, 9]), adaptive(0.0, 0.5));
        for _ in 0..50 {
            auto.next(4, 0, 100);
            auto.committed(&[1, 2]);
        }
        let learnt: Vec<_> = auto
            .estimates()
            .map(|estimate| estimate.probabilities()[..3].to_vec())
            .collect();
        assert!(learnt[0][0] > 0.9 && learnt[0][1] > 0.9, "{learnt:?}");
        assert!(learnt[1][0] > 0.9 && learnt[1][1] < 0.1, "{learnt:?}");
        assert_eq!(auto.next(4, 0, 100), Way::Tokens(vec![1, 2, 3]));
    }
}
