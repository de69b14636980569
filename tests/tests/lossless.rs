//! Level 4 on every architecture: whoever drafts and however much, the tokens are those of plain decoding, on the CPU and on the GPU,
//! greedily and sampled, within a sliding window and past the ring that keeps it.

use std::cell::RefCell;
use std::rc::Rc;

use foretoken_core::{LanguageModel, Ops, Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::drafters::{
    EarlierAnswers, MatchOrder, NgramDrafter, SuffixDrafter, SuffixOptions,
};
use foretoken_decode::{
    AbortSignal, DecodeLoop, DecodeOptions, Draft, DraftCache, Drafter, Sequence, StatisticsLevel,
    StopConditions,
};
use foretoken_gpu::Tier;
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{TinyGolden, data_file, read_golden};
use foretoken_tests::gpu;
use foretoken_tests::model_file::load_file;
use pollster::block_on;

/// Who drafts one answer.
#[derive(Debug, Clone, Copy)]
enum Drafting {
    Nobody,
    Puppet(Strategy, usize),
    Ngram(usize),
    /// Steps in flight besides, as many a wait.
    NgramInFlight(usize, usize),
    /// The model itself, loaded once more.
    Itself(usize),
    /// A model of another file, of random weights as this one is.
    Another(usize),
    /// With earlier answers, plain decoding's among them: it drafts far.
    Suffix(usize),
}

struct Case<'a, O: Ops> {
    ops: &'a mut O,
    model: &'a dyn LanguageModel<O>,
    /// Draft models: the same once more, and another.
    drafts: [&'a dyn LanguageModel<O>; 2],
    caches: [DraftCache; 2],
    prompt: &'a [TokenId],
    sampling: Sampling,
    max_tokens: usize,
}

impl<O: Ops> Case<'_, O> {
    /// The answer; `known` is prompt and answer as plain decoding goes on, for puppets.
    fn answer(&mut self, drafting: Drafting, known: &[TokenId]) -> Vec<TokenId> {
        let stop = StopConditions {
            token_ids: Vec::new(),
            max_tokens: self.max_tokens,
            context: self.model.context_length() as usize,
        };
        let mut options = DecodeOptions {
            sampling: self.sampling.clone(),
            ..DecodeOptions::plain(stop)
        };
        let ngram = || Box::new(NgramDrafter::new(1, 3, MatchOrder::Latest));
        let (k, drafter): (usize, Option<Box<dyn Drafter>>) = match drafting {
            Drafting::Nobody => (0, None),
            Drafting::Puppet(strategy, k) => {
                let vocab = self.model.config().vocab_size;
                (
                    k,
                    Some(Box::new(Puppet::new(strategy, known.to_vec(), vocab))),
                )
            }
            Drafting::Ngram(k) => (k, Some(ngram())),
            Drafting::NgramInFlight(k, steps) => {
                options.steps_a_wait = steps;
                (k, Some(ngram()))
            }
            Drafting::Itself(k) | Drafting::Another(k) => {
                options.draft_model = true;
                (k, None)
            }
            Drafting::Suffix(k) => {
                let suffix = SuffixOptions {
                    max_spec_factor: 4.0,
                    ..SuffixOptions::default()
                };
                let mut earlier = EarlierAnswers::new(suffix.max_tree_depth as usize, 2);
                earlier.enter(&known[self.prompt.len()..]);
                earlier.enter(self.prompt);
                let earlier = Rc::new(RefCell::new(earlier));
                (k, Some(Box::new(SuffixDrafter::new(suffix, Some(earlier)))))
            }
        };
        let draft = match drafting {
            Drafting::Itself(_) => Some(0),
            Drafting::Another(_) => Some(1),
            _ => None,
        };
        options.drafter = drafter;
        options.num_speculative_tokens = k;
        options.statistics = StatisticsLevel::Summary;
        let mut sequence = Sequence::new(0);
        sequence.commit(self.prompt);
        let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
        while decode.finish().is_none() {
            let draft = draft.map(|i| Draft {
                model: self.drafts[i],
                cache: &mut self.caches[i],
                vocabulary: None,
            });
            block_on(decode.step_with(self.ops, self.model, draft)).unwrap();
        }
        let statistics = decode.statistics().expect("a summary was asked for");
        if draft == Some(0) && self.max_tokens > 1 {
            assert!(statistics.num_draft_tokens > 0);
            assert_eq!(statistics.draft_acceptance_rate(), 1.0, "{drafting:?}");
        }
        decode.generated().to_vec()
    }

    /// Asserts that each of `draftings` gives plain decoding's answer.
    fn check(&mut self, what: &str, draftings: &[Drafting]) {
        let plain = self.answer(Drafting::Nobody, &[]);
        assert_eq!(
            plain.len(),
            self.max_tokens,
            "{what}: nothing ends it before"
        );
        let known = [self.prompt, &plain[..]].concat();
        for &drafting in draftings {
            assert_eq!(self.answer(drafting, &known), plain, "{what}: {drafting:?}");
        }
    }
}

fn samplings() -> [Sampling; 2] {
    let drawn = Sampling {
        temperature: 0.8,
        top_k: 60,
        seed: 11,
        ..Sampling::greedy()
    };
    [Sampling::greedy(), drawn]
}

fn every_model<O: Ops + 'static>(
    where_: &str,
    open: impl Fn() -> Option<O>,
    prompts: &[&str],
    max_tokens: usize,
    draftings: &[Drafting],
) {
    let golden: TinyGolden = read_golden("tiny_models.json");
    let files: Vec<&String> = golden.files.keys().collect();
    for (i, file) in files.iter().enumerate() {
        let Some(mut ops) = open() else { return };
        let model = block_on(load_file(&mut ops, &data_file(file)));
        let itself = block_on(load_file(&mut ops, &data_file(file)));
        let another = files[(i + 1) % files.len()];
        let another = block_on(load_file(&mut ops, &data_file(another)));
        // Models without a window have no case, and no ring, to go past.
        let named = |name: &&&str| golden.files[*file].contains_key(**name);
        for name in prompts.iter().filter(named) {
            for sampling in samplings() {
                let what = format!("{where_} {file} {name} at {}", sampling.temperature);
                let mut case = Case {
                    ops: &mut ops,
                    model: &*model,
                    drafts: [&*itself, &*another],
                    caches: Default::default(),
                    prompt: &golden.prompts[*name].prompt_ids,
                    sampling,
                    max_tokens,
                };
                case.check(&what, draftings);
            }
        }
    }
}

#[test]
fn every_drafter_on_the_cpu() {
    let mut draftings = vec![Drafting::Ngram(3), Drafting::Ngram(15)];
    draftings.extend([1, 4, 15].map(Drafting::Itself));
    draftings.extend([1, 4, 15].map(Drafting::Another));
    draftings.extend([Drafting::Suffix(3), Drafting::Suffix(15)]);
    for (i, strategy) in Strategy::all(5).into_iter().enumerate() {
        draftings.push(Drafting::Puppet(strategy, [1, 3, 7, 15][i % 4]));
    }
    every_model("CPU", || Some(CpuOps::new()), &["short"], 24, &draftings);
}

/// The first draft is wrong and 15 more were written: what they overwrite must not be missed.
const PAST_THE_RING: [Drafting; 7] = [
    Drafting::Puppet(Strategy::Wrong, 15),
    Drafting::Puppet(Strategy::Alternating, 7),
    Drafting::Ngram(3),
    Drafting::NgramInFlight(7, 2),
    Drafting::Itself(5),
    Drafting::Another(15),
    Drafting::Suffix(15),
];

#[test]
fn drafts_past_the_ring_on_the_gpu() {
    let tier = Tier::parse("subgroup").unwrap();
    let open = || gpu::open(tier);
    let prompts = ["past_the_window", "past_the_ring"];
    every_model("GPU", open, &prompts, 16, &PAST_THE_RING);
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn long_answers_by_every_drafter_on_the_least_and_the_fullest_tier() {
    let mut draftings = PAST_THE_RING.to_vec();
    for strategy in Strategy::all(5) {
        draftings.extend([4, 15].map(|k| Drafting::Puppet(strategy, k)));
    }
    for tier in ["base", "subgroup-f16"].map(|tier| Tier::parse(tier).unwrap()) {
        let prompts = ["short", "past_the_window", "past_the_ring"];
        let open = || gpu::open(tier);
        every_model(&tier.to_string(), open, &prompts, 32, &draftings);
    }
}
