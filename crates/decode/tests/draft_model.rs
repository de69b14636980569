//! A draft model changes no answer, agrees with itself, and takes one submission and one wait a step.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Answer, Random, counting, endless, forgetful, naive, prompt, random_case, sequence};
use foretoken_core::{NO_COUNTERPART, Sampling, TokenId};
use foretoken_decode::drafters::{MatchOrder, NgramDrafter, SuffixDrafter, SuffixOptions};
use foretoken_decode::script::{Script, ScriptModel, ScriptOps};
use foretoken_decode::{
    AbortSignal, AcceptanceEstimate, AcceptanceStatistics, AdaptiveSpeculation, Auto,
    ConfidenceEstimate, DecodeError, DecodeLoop, DecodeOptions, Draft, DraftCache, DraftVocabulary,
    StatisticsLevel, StepCosts, StopConditions, Translation,
};
use pollster::block_on;

/// Target and draft on the same ops.
struct Rig {
    ops: ScriptOps,
    target: ScriptModel,
    draft: ScriptModel,
    cache: DraftCache,
}

impl Rig {
    fn new(target: &Script, draft: &Script) -> Self {
        let (mut ops, target) = target.rig();
        let draft = ops.load(draft);
        Self {
            ops,
            target,
            draft,
            cache: DraftCache::default(),
        }
    }

    fn step(&mut self, decode: &mut DecodeLoop) -> Result<(), DecodeError> {
        let draft = Draft {
            model: &self.draft,
            cache: &mut self.cache,
            vocabulary: None,
        };
        block_on(decode.step_with(&mut self.ops, &self.target, Some(draft))).map(|_| ())
    }

    /// Runs an answer to its end. Every step but the first is one submission and one wait; a prompt that the draft model has not
    /// read comes on top once.
    fn run(
        &mut self,
        prompt: &[TokenId],
        options: DecodeOptions,
    ) -> (Answer, AcceptanceStatistics) {
        // It may be asked late, and have more to read than a pass takes.
        let catches_up = options.auto.is_some();
        let alone = options.auto.is_none();
        let mut decode = DecodeLoop::new(sequence(0, prompt), options, AbortSignal::new());
        self.step(&mut decode).unwrap();
        let mut steps = 0;
        while decode.finish().is_none() {
            let before = (self.ops.submits(), self.ops.reads());
            self.step(&mut decode).unwrap();
            let (submits, reads) = (self.ops.submits() - before.0, self.ops.reads() - before.1);
            assert_eq!(reads, 1, "one wait a step");
            assert!(
                submits == 1 || steps == 0 || catches_up,
                "{submits} submissions in step {steps}"
            );
            self.ops.audit(decode.sequence());
            steps += 1;
        }
        let answer = Answer {
            tokens: decode.generated().to_vec(),
            logprobs: Vec::new(),
            finish: decode.finish().unwrap(),
        };
        let statistics = decode.statistics().unwrap().clone();
        let (passes, proposed) = (statistics.num_draft_passes, statistics.num_proposed_tokens);
        if alone {
            assert_eq!(passes, proposed);
            assert!(passes >= statistics.num_draft_tokens);
        } else {
            assert!(passes <= proposed, "what the others proposed is no pass");
        }
        (answer, statistics)
    }
}

fn options(sampling: &Sampling, stop: &StopConditions, k: usize) -> DecodeOptions {
    DecodeOptions {
        sampling: sampling.clone(),
        draft_model: true,
        num_speculative_tokens: k,
        statistics: StatisticsLevel::Detailed,
        // More than a draft model leaves in flight.
        steps_a_wait: 2,
        ..DecodeOptions::plain(stop.clone())
    }
}

fn without_logprobs(answer: Answer) -> Answer {
    Answer {
        logprobs: Vec::new(),
        ..answer
    }
}

#[test]
fn no_draft_model_changes_an_answer() {
    let mut random = Random(5);
    let mut accepted = 0;
    for case in 0..400 {
        let c = random_case(&mut random);
        let other = match case % 4 {
            0 => c.script.clone(),
            1 => Script::seeded(random.next(), c.vocab, c.context),
            2 => forgetful(random.next(), c.vocab, c.context, 2),
            // Of another size, with a shorter context.
            _ => Script::seeded(random.next(), c.vocab + 3, c.context / 2 + 1),
        };
        let expected = without_logprobs(naive(&c.script, &c.prompt, &c.sampling, &c.stop, 0));
        let k = 1 + random.below(15);
        let mut rig = Rig::new(&c.script, &other);
        let (answer, statistics) = rig.run(&c.prompt, options(&c.sampling, &c.stop, k));
        assert_eq!(answer, expected, "case {case}, k {k}");
        // Again, with what the cache holds by now.
        let (again, _) = rig.run(&c.prompt, options(&c.sampling, &c.stop, k));
        assert_eq!(again, expected, "case {case} again");
        accepted += statistics.num_accepted_draft_tokens;
    }
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    let mut random = Random(6);
    for case in 0..60 {
        let context = 300;
        let script = Script::seeded(random.next(), 50, context);
        let sampling = Sampling {
            temperature: [0.0, 0.8][case % 2],
            top_k: [0, 0, 7][case % 3],
            seed: random.next(),
            ..Sampling::greedy()
        };
        let k = 1 + case % 15;
        let stop = StopConditions {
            max_tokens: 256,
            ..endless(context)
        };
        let mut rig = Rig::new(&script, &script);
        let (_, statistics) = rig.run(&prompt(20, 50), options(&sampling, &stop, k));
        assert_eq!(
            statistics.draft_acceptance_rate(),
            1.0,
            "case {case}, k {k}"
        );
        // A step of k drafts commits k + 1 tokens; the last drafts what is still wanted, for a single token nothing.
        let (full, left) = (255 / (k as u64 + 1), 255 % (k as u64 + 1));
        assert_eq!(statistics.num_spec_steps, full + u64::from(left > 1));
    }
}

#[test]
fn the_draft_models_cache_follows_acceptance_without_a_pass_more() {
    // Right twice, then wrong: every step accepts 2 of 4.
    let target = counting(40, 400);
    let draft = Script::new(40, 400, |prefix| {
        let last = prefix[prefix.len() - 1];
        let step = if last % 3 == 2 { 2 } else { 1 };
        (0..40)
            .map(|token| {
                if token == (last + step) % 40 {
                    3.0
                } else {
                    0.0
                }
            })
            .collect()
    });
    let stop = StopConditions {
        max_tokens: 100,
        ..endless(400)
    };
    let mut rig = Rig::new(&target, &draft);
    let mut decode = DecodeLoop::new(
        sequence(0, &[0, 1, 2]),
        options(&Sampling::greedy(), &stop, 4),
        AbortSignal::new(),
    );
    rig.step(&mut decode).unwrap();
    while decode.finish().is_none() {
        let (before, wanted) = (rig.ops.passes(), 100 - decode.generated().len() as u64);
        rig.step(&mut decode).unwrap();
        assert_eq!(rig.ops.passes() - before, wanted.min(4 + 1));
    }
    let statistics = decode.statistics().unwrap();
    assert!(statistics.num_accepted_draft_tokens >= 60, "{statistics:?}");
}

#[test]
fn a_draft_model_of_a_shorter_context_stops_there() {
    let target = counting(30, 120);
    let stop = endless(120);
    let mut rig = Rig::new(&target, &counting(30, 40));
    let (answer, statistics) = rig.run(&prompt(10, 30), options(&Sampling::greedy(), &stop, 4));
    assert_eq!(answer.tokens.len(), 110);
    assert_eq!(statistics.draft_acceptance_rate(), 1.0);
    // From 11 tokens on, up to the 40th; the last draft stands at position 39.
    assert!(statistics.plain_steps >= 79, "{statistics:?}");
}

#[test]
fn a_long_prompt_is_read_once_and_an_abort_in_its_midst_is_heard() {
    let script = counting(50, 600);
    let stop = StopConditions {
        max_tokens: 40,
        ..endless(600)
    };
    let long = prompt(400, 50);
    let mut rig = Rig::new(&script, &script);
    let abort = AbortSignal::new();
    let mut decode = DecodeLoop::new(
        sequence(0, &long),
        options(&Sampling::greedy(), &stop, 4),
        abort.clone(),
    );
    rig.step(&mut decode).unwrap();
    abort.abort();
    assert!(matches!(rig.step(&mut decode), Err(DecodeError::Aborted)));
    let (answer, _) = rig.run(&long, options(&Sampling::greedy(), &stop, 4));
    assert_eq!(
        answer,
        without_logprobs(naive(&script, &long, &Sampling::greedy(), &stop, 0))
    );
    // The same prompt again: the draft model has it.
    let before = rig.ops.passes();
    let (again, statistics) = rig.run(&long, options(&Sampling::greedy(), &stop, 4));
    assert_eq!(again, answer);
    let prefill = 400_u64.div_ceil(32);
    // 39 tokens are wanted after the first: seven steps of five, and one of four that drafts no more than three.
    assert_eq!(statistics.num_spec_steps, 8);
    assert_eq!(rig.ops.passes() - before, prefill + 7 * 5 + 4);
}

#[test]
fn nothing_is_drafted_that_is_not_wanted() {
    let script = counting(50, 600);
    for (max_tokens, passes) in [(1, 0), (2, 1), (3, 2), (6, 5), (7, 5 + 1)] {
        let stop = StopConditions {
            max_tokens,
            ..endless(600)
        };
        let mut rig = Rig::new(&script, &script);
        let mut decode = DecodeLoop::new(
            sequence(0, &[3, 4]),
            options(&Sampling::greedy(), &stop, 4),
            AbortSignal::new(),
        );
        rig.step(&mut decode).unwrap();
        let before = rig.ops.passes();
        while decode.finish().is_none() {
            rig.step(&mut decode).unwrap();
        }
        assert_eq!(rig.ops.passes() - before, passes, "{max_tokens}");
    }
}

#[test]
fn answers_by_turns_share_the_cache_and_are_those_of_each_alone() {
    let target = forgetful(3, 40, 200, 3);
    let draft = forgetful(3, 40, 200, 2);
    let stop = StopConditions {
        max_tokens: 60,
        ..endless(200)
    };
    let prompts = [prompt(9, 40), prompt(30, 40)];
    let sampling = Sampling {
        temperature: 0.7,
        seed: 4,
        ..Sampling::greedy()
    };
    let alone: Vec<_> = prompts
        .iter()
        .map(|prompt| naive(&target, prompt, &sampling, &stop, 0).tokens)
        .collect();
    let mut rig = Rig::new(&target, &draft);
    let mut loops: Vec<DecodeLoop> = (0..)
        .zip(&prompts)
        .map(|(slot, prompt)| {
            let options = options(&sampling, &stop, 3 + slot as usize);
            DecodeLoop::new(sequence(slot, prompt), options, AbortSignal::new())
        })
        .collect();
    // Each on a slot of its own; the draft model's cache keeps one sequence a slot, and is told apart by tokens alone.
    let mut caches = [DraftCache::default(), DraftCache::default()];
    while loops.iter().any(|l| l.finish().is_none()) {
        for (decode, cache) in loops.iter_mut().zip(&mut caches) {
            std::mem::swap(cache, &mut rig.cache);
            rig.step(decode).unwrap();
            std::mem::swap(cache, &mut rig.cache);
        }
    }
    for (decode, alone) in loops.iter().zip(alone) {
        assert_eq!(decode.generated(), alone);
    }
}

#[test]
fn where_drafts_cost_too_much_the_draft_model_is_not_asked() {
    let script = Script::seeded(1, 40, 400);
    let other = Script::seeded(2, 40, 400);
    let stop = StopConditions {
        max_tokens: 300,
        ..endless(400)
    };
    // Half a plain step a draft: what is never accepted is soon given up.
    let costs = StepCosts::from_measured(&[(1, 10.0), (16, 12.0)])
        .unwrap()
        .with_draft_ms(5.0);
    let costs = shared(costs);
    let mut options = options(&Sampling::greedy(), &stop, 5);
    options.adaptive = Some(AdaptiveSpeculation::new(
        costs,
        AcceptanceEstimate::default(),
    ));
    let mut rig = Rig::new(&script, &other);
    let (answer, statistics) = rig.run(&prompt(5, 40), options);
    assert_eq!(
        answer.tokens,
        naive(&script, &prompt(5, 40), &Sampling::greedy(), &stop, 0).tokens
    );
    assert!(statistics.plain_steps > 250, "{statistics:?}");
    assert!(statistics.num_spec_steps > 0, "it is tried now and then");
}

#[test]
fn a_step_without_its_draft_model_decodes_plainly() {
    let script = counting(50, 200);
    let stop = StopConditions {
        max_tokens: 20,
        ..endless(200)
    };
    let (mut ops, model) = script.rig();
    let options = options(&Sampling::greedy(), &stop, 4);
    let mut decode = DecodeLoop::new(sequence(0, &[1, 2]), options, AbortSignal::new());
    while decode.finish().is_none() {
        block_on(decode.step(&mut ops, &model)).unwrap();
    }
    assert_eq!(decode.statistics().unwrap().plain_steps, 19);
}

fn shared(costs: StepCosts) -> Rc<RefCell<StepCosts>> {
    Rc::new(RefCell::new(costs))
}

/// Passes whose rows are nearly free, and drafts that are cheap.
fn cheap() -> StepCosts {
    StepCosts::from_measured(&[(1, 10.0), (16, 11.0)])
        .unwrap()
        .with_draft_ms(0.2)
}

#[test]
fn the_best_way_of_each_step_changes_no_answer() {
    let mut random = Random(8);
    let (mut drafted, mut accepted) = (0, 0);
    for case in 0..300 {
        let c = random_case(&mut random);
        let other = match case % 3 {
            0 => c.script.clone(),
            1 => Script::seeded(random.next(), c.vocab, c.context),
            _ => forgetful(random.next(), c.vocab, c.context, 1),
        };
        let expected = without_logprobs(naive(&c.script, &c.prompt, &c.sampling, &c.stop, 0));
        let adaptive =
            |costs| AdaptiveSpeculation::new(shared(costs), AcceptanceEstimate::default());
        let confidence = Rc::new(RefCell::new(ConfidenceEstimate::default()));
        let auto = Auto::default()
            .with_drafter(
                Box::new(NgramDrafter::new(1, 3, MatchOrder::Latest)),
                adaptive(cheap().with_draft_ms(0.0)),
            )
            .with_drafter(
                Box::new(SuffixDrafter::new(SuffixOptions::default(), None)),
                adaptive(cheap().with_draft_ms(0.0)),
            )
            .with_model(adaptive(cheap()).with_confidence(confidence));
        let mut options = options(&c.sampling, &c.stop, 1 + random.below(15));
        options.draft_model = false;
        options.auto = Some(auto);
        let mut rig = Rig::new(&c.script, &other);
        let (answer, statistics) = rig.run(&c.prompt, options);
        assert_eq!(answer, expected, "case {case}");
        drafted += statistics.num_draft_tokens;
        accepted += statistics.num_accepted_draft_tokens;
    }
    assert!(
        accepted > 500 && drafted > accepted,
        "{accepted} of {drafted}"
    );
}

#[test]
fn a_draft_ends_where_the_model_is_unsure_and_changes_no_answer() {
    let (vocab, context) = (30, 500);
    let target = counting(vocab, context);
    // Sure of itself and right, but after every fifth token, where it is neither.
    let draft = Script::new(vocab, context, move |prefix| {
        let last = prefix[prefix.len() - 1];
        (0..vocab)
            .map(|token| match last % 5 {
                0 => f32::from(token == (last + 2) % vocab) * 0.1,
                _ => f32::from(token == (last + 1) % vocab) * 12.0,
            })
            .collect()
    });
    let stop = StopConditions {
        max_tokens: 400,
        ..endless(context)
    };
    let run = |ends_early: bool| {
        let mut adaptive = AdaptiveSpeculation::new(
            shared(cheap().with_draft_ms(1.0)),
            AcceptanceEstimate::from_probabilities(&[0.9; 15]),
        );
        if ends_early {
            adaptive = adaptive.with_confidence(Rc::default());
        }
        let mut options = options(&Sampling::greedy(), &stop, 15);
        options.adaptive = Some(adaptive);
        Rig::new(&target, &draft).run(&[0, 1, 2], options)
    };
    let (expected, all) = run(false);
    let (answer, early) = run(true);
    assert_eq!(answer, expected);
    // The token that was not sure is verified, and nothing was drafted behind it.
    assert_eq!(early.num_draft_passes, early.num_draft_tokens);
    let rejected = |s: &AcceptanceStatistics| s.num_draft_tokens - s.num_accepted_draft_tokens;
    let counts = format!("{early:?}, and where none ends {all:?}");
    assert!(rejected(&early) <= early.num_spec_steps, "{counts}");
    assert!(rejected(&early) < rejected(&all), "{counts}");
    assert!(early.num_accepted_draft_tokens > 200, "{counts}");
}

/// A draft vocabulary whose ids are shifted, in which one token of the target is written as two.
#[derive(Default)]
struct Shifted {
    tokens: Vec<TokenId>,
    split: TokenId,
}

impl Translation for Shifted {
    fn translate(&mut self, committed: &[TokenId]) -> Option<&[TokenId]> {
        self.tokens.clear();
        for &token in committed {
            match token == self.split {
                true => self.tokens.extend([0, 1]),
                false => self.tokens.push(token + 2),
            }
        }
        // Nothing can be said after one that is written as two.
        (committed.last() != Some(&self.split)).then_some(&self.tokens)
    }

    fn counterpart(&self, proposed: TokenId) -> Option<TokenId> {
        (proposed != self.split).then_some(proposed + 2)
    }
}

#[test]
fn a_draft_model_of_another_vocabulary_proposes_what_both_have() {
    let (vocab, context, split) = (40, 300, 9);
    let target = counting(vocab, context);
    // It knows that the target counts, as its own ids have it, and has two tokens more.
    let draft = Script::new(vocab + 2, context, move |prefix| {
        let next = match prefix[prefix.len() - 1] {
            0 => 1,
            1 => split + 1 + 2,
            token if token == split - 1 + 2 => 0,
            token => (token - 2 + 1) % vocab + 2,
        };
        (0..vocab + 2)
            .map(|token| f32::from(token == next))
            .collect()
    });
    let mut to_target: Vec<TokenId> = (0..vocab + 2)
        .map(|id| id.checked_sub(2).unwrap_or(NO_COUNTERPART))
        .collect();
    to_target[split as usize + 2] = NO_COUNTERPART;
    let stop = StopConditions {
        max_tokens: 200,
        ..endless(context)
    };
    for temperature in [0.0, 0.6] {
        let sampling = Sampling {
            temperature,
            seed: 3,
            ..Sampling::greedy()
        };
        let expected = naive(&target, &[1, 2], &sampling, &stop, 0);
        let mut rig = Rig::new(&target, &draft);
        let mut translation = Shifted {
            split,
            ..Shifted::default()
        };
        let mut decode = DecodeLoop::new(
            sequence(0, &[1, 2]),
            options(&sampling, &stop, 6),
            AbortSignal::new(),
        );
        while decode.finish().is_none() {
            let draft = Draft {
                model: &rig.draft,
                cache: &mut rig.cache,
                vocabulary: Some(DraftVocabulary {
                    to_target: &to_target,
                    translation: &mut translation,
                }),
            };
            block_on(decode.step_with(&mut rig.ops, &rig.target, Some(draft))).unwrap();
        }
        assert_eq!(decode.generated(), expected.tokens);
        let statistics = decode.statistics().unwrap();
        assert!(statistics.num_draft_tokens > 60, "{statistics:?}");
        if temperature == 0.0 {
            assert_eq!(statistics.draft_acceptance_rate(), 1.0);
            assert!(
                statistics.plain_steps > 0,
                "nothing is drafted after the split one"
            );
        }
    }
}
