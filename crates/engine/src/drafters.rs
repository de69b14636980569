//! Who drafts an answer, and what the answers of an engine leave to later ones.

use std::cell::RefCell;
use std::rc::Rc;

use foretoken_core::TokenId;
use foretoken_decode::drafters::{EarlierAnswers, NgramDrafter, SuffixDrafter};
use foretoken_decode::{
    AcceptanceEstimate, AdaptiveSpeculation, Auto, ConfidenceEstimate, Drafter, StepCosts,
};

use crate::{SpeculativeConfig, SpeculativeMethod};

/// What an engine knows to choose how many tokens a step drafts in one way.
#[derive(Debug)]
struct Adaptation {
    costs: Rc<RefCell<StepCosts>>,
    /// Acceptance over all answers: where a new answer starts.
    estimate: RefCell<AcceptanceEstimate>,
}

impl Adaptation {
    fn new(costs: StepCosts) -> Self {
        Self {
            costs: Rc::new(RefCell::new(costs)),
            estimate: RefCell::default(),
        }
    }

    /// For one answer.
    fn start(&self) -> AdaptiveSpeculation {
        let estimate = AcceptanceEstimate::seeded(&self.estimate.borrow());
        AdaptiveSpeculation::new(Rc::clone(&self.costs), estimate)
    }
}

/// What passes cost, as measured at load.
#[derive(Debug)]
pub(crate) struct Costs {
    /// Where steps follow one another without the host, as n-gram look-ups do.
    pub(crate) in_flight: StepCosts,
    /// Where each waits.
    pub(crate) waiting: StepCosts,
    /// Milliseconds of a token of the draft model, where there is one.
    pub(crate) draft_ms: Option<f64>,
}

/// What is learnt of each way to draft.
#[derive(Debug)]
struct Adaptations {
    ngram: Adaptation,
    /// In the midst of other ways, where its steps wait as theirs do.
    ngram_among_others: Adaptation,
    suffix: Adaptation,
    draft_model: Option<Adaptation>,
    /// How far the draft model's own confidence can be trusted.
    confidence: Rc<RefCell<ConfidenceEstimate>>,
}

impl Adaptations {
    /// In the order in which a loop tells of them.
    fn of(&self, method: SpeculativeMethod) -> Vec<&Adaptation> {
        let model = self.draft_model.iter();
        match method {
            SpeculativeMethod::Ngram => vec![&self.ngram],
            SpeculativeMethod::Suffix => vec![&self.suffix],
            SpeculativeMethod::DraftModel => model.collect(),
            SpeculativeMethod::Auto => [&self.suffix, &self.ngram_among_others]
                .into_iter()
                .chain(model)
                .collect(),
        }
    }

    fn start_model(&self) -> Option<AdaptiveSpeculation> {
        let confidence = Rc::clone(&self.confidence);
        let model = self.draft_model.as_ref()?;
        Some(model.start().with_confidence(confidence))
    }
}

/// What the drafters of an engine share.
#[derive(Debug)]
pub(crate) struct Drafters {
    earlier: Rc<RefCell<EarlierAnswers>>,
    adaptations: Option<Adaptations>,
}

/// How an answer is drafted, for [`foretoken_decode::DecodeOptions`].
#[derive(Debug, Default)]
pub(crate) struct Drafting {
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) draft_model: bool,
    pub(crate) adaptive: Option<AdaptiveSpeculation>,
    pub(crate) auto: Option<Auto>,
}

impl Drafters {
    /// Of an engine that was configured so; no earlier answers are kept without a configuration. `costs`: what passes cost, if it is
    /// known.
    pub(crate) fn new(config: Option<SpeculativeConfig>, costs: Option<Costs>) -> Self {
        let (depth, max_answers) = config.map_or((1, 0), |config| {
            let suffix = config.suffix;
            (suffix.max_tree_depth, suffix.max_cached_requests)
        });
        let earlier = EarlierAnswers::new(depth as usize, max_answers as usize);
        let adaptations = costs.map(|costs| Adaptations {
            ngram: Adaptation::new(costs.in_flight),
            ngram_among_others: Adaptation::new(costs.waiting.clone()),
            suffix: Adaptation::new(costs.waiting.clone()),
            draft_model: costs
                .draft_ms
                .map(|ms| Adaptation::new(costs.waiting.with_draft_ms(ms))),
            confidence: Rc::default(),
        });
        Self {
            earlier: Rc::new(RefCell::new(earlier)),
            adaptations,
        }
    }

    /// For one answer.
    pub(crate) fn start(&self, config: SpeculativeConfig) -> Drafting {
        let adaptations = self.adaptations.as_ref().filter(|_| config.adaptive);
        let ngram = || self.ngram(config);
        let suffix = || self.suffix(config);
        match config.method {
            SpeculativeMethod::Ngram => Drafting {
                drafter: Some(ngram()),
                adaptive: adaptations.map(|a| a.ngram.start()),
                ..Drafting::default()
            },
            SpeculativeMethod::Suffix => Drafting {
                drafter: Some(suffix()),
                adaptive: adaptations.map(|a| a.suffix.start()),
                ..Drafting::default()
            },
            SpeculativeMethod::DraftModel => Drafting {
                draft_model: true,
                adaptive: adaptations.and_then(Adaptations::start_model),
                ..Drafting::default()
            },
            SpeculativeMethod::Auto => match adaptations {
                Some(a) => {
                    let mut auto = Auto::default()
                        .with_drafter(suffix(), a.suffix.start())
                        .with_drafter(ngram(), a.ngram_among_others.start());
                    if let Some(model) = a.start_model() {
                        auto = auto.with_model(model);
                    }
                    Drafting {
                        auto: Some(auto),
                        ..Drafting::default()
                    }
                }
                // Nobody knows what pays: the one that proposes only what is likely.
                None => Drafting {
                    drafter: Some(suffix()),
                    ..Drafting::default()
                },
            },
        }
    }

    fn ngram(&self, config: SpeculativeConfig) -> Box<dyn Drafter> {
        Box::new(NgramDrafter::new(
            config.prompt_lookup_min as usize,
            config.prompt_lookup_max as usize,
            config.prompt_lookup_match,
        ))
    }

    fn suffix(&self, config: SpeculativeConfig) -> Box<dyn Drafter> {
        let earlier = self.kept(config).then(|| Rc::clone(&self.earlier));
        Box::new(SuffixDrafter::new(config.suffix, earlier))
    }

    /// Takes note of an answer that has ended: finished, stopped or given up. `answer`: what was committed and not taken
    /// back; `estimates`: what it taught of acceptance, a way to draft after the other.
    pub(crate) fn ended<'a>(
        &self,
        config: SpeculativeConfig,
        answer: &[TokenId],
        estimates: impl Iterator<Item = &'a AcceptanceEstimate>,
    ) {
        if self.kept(config) {
            self.earlier.borrow_mut().enter(answer);
        }
        if let Some(adaptations) = &self.adaptations {
            for (adaptation, estimate) in adaptations.of(config.method).into_iter().zip(estimates) {
                adaptation.estimate.borrow_mut().absorb(estimate);
            }
        }
    }

    /// Whether an answer looks in earlier ones, and is kept for later ones.
    fn kept(&self, config: SpeculativeConfig) -> bool {
        config.method.looks_in_earlier_answers() && config.suffix.max_cached_requests > 0
    }
}

#[cfg(test)]
mod tests;
