//! Level 4 on the GPU with SmolLM2: speculation changes nothing. Greedy answers with n-gram drafts are transformers' ids;
//! sampled answers are the same with speculation on and off, whatever the drafter's settings.

use foretoken_core::{LanguageModel, Sampling, TokenId};
use foretoken_decode::drafters::{MatchOrder, NgramDrafter};
use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, DecodeLoop, DecodeOptions, Drafter, Sequence,
    StatisticsLevel, StopConditions,
};
use foretoken_gpu::{GpuOps, Tier};
use foretoken_tests::golden::{GoldenCase, GoldenFile, SMOLLM2_STOP_IDS, read_golden};
use foretoken_tests::gpu;
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use pollster::block_on;

type Model = Box<dyn LanguageModel<GpuOps>>;

fn open(test: &str, tier: Tier) -> Option<(GpuOps, Model)> {
    let path = find_model(SMOLLM2, test)?;
    let mut ops = gpu::open(tier)?;
    let model = block_on(load_file(&mut ops, &path));
    Some((ops, model))
}

fn golden() -> Vec<GoldenCase> {
    read_golden::<GoldenFile>("smollm2-135m.json").cases
}

/// How one answer is drafted: k, and the n-gram lengths.
#[derive(Debug, Clone, Copy)]
struct Lookup {
    k: usize,
    min: usize,
    max: usize,
    order: MatchOrder,
}

impl Lookup {
    fn new(k: usize, min: usize, max: usize) -> Self {
        Self {
            k,
            min,
            max,
            order: MatchOrder::Earliest,
        }
    }
}

fn answer(
    (ops, model): &mut (GpuOps, Model),
    prompt: &[TokenId],
    sampling: Sampling,
    max_tokens: usize,
    lookup: Option<Lookup>,
) -> (Vec<TokenId>, Option<AcceptanceStatistics>) {
    let stop = StopConditions {
        token_ids: SMOLLM2_STOP_IDS.to_vec(),
        max_tokens,
        context: model.context_length() as usize,
    };
    let mut options = DecodeOptions {
        sampling,
        ..DecodeOptions::plain(stop)
    };
    if let Some(Lookup { k, min, max, order }) = lookup {
        options.drafter = Some(Box::new(NgramDrafter::new(min, max, order)) as Box<dyn Drafter>);
        options.num_speculative_tokens = k;
        options.statistics = StatisticsLevel::Summary;
    }
    let mut sequence = Sequence::new(0);
    sequence.commit(prompt);
    let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
    block_on(decode.step(ops, &**model)).unwrap();
    while decode.finish().is_none() {
        let before = ops.counters();
        block_on(decode.step(ops, &**model)).unwrap();
        let step = ops.counters().since(&before);
        assert_eq!(
            (step.syncs, step.mapped_bytes),
            (1, 64),
            "one wait a step, 64 bytes mapped"
        );
        assert!((1..=4).contains(&step.submits), "{} submits", step.submits);
    }
    (decode.generated().to_vec(), decode.statistics().cloned())
}

/// Cases that between them accept nothing, a little and whole blocks.
const CASES: [&str; 6] = [
    "chat_qa_capital",
    "chat_rewrite_edit",
    "chat_unicode",
    "raw_code_python",
    "raw_translate",
    "raw_json_extract",
];

fn golden_with_ngram(
    test: &str,
    tier: Tier,
    ks: impl Iterator<Item = usize> + Clone,
    max_tokens: usize,
) {
    let Some(mut loaded) = open(test, tier) else {
        return;
    };
    for case in golden().iter().filter(|case| CASES.contains(&&*case.id)) {
        let expected: Vec<TokenId> = case.output_ids.iter().copied().take(max_tokens).collect();
        for k in ks.clone() {
            let lookup = Some(Lookup::new(k, 2, 4));
            let (ids, statistics) = answer(
                &mut loaded,
                &case.prompt_ids,
                Sampling::greedy(),
                max_tokens,
                lookup,
            );
            assert_eq!(ids, expected, "{tier} {} k {k}", case.id);
            let statistics = statistics.expect("a summary was asked for");
            println!(
                "{tier} {} k {k}: {} tokens a verify step",
                case.id,
                statistics.mean_acceptance_length()
            );
        }
    }
}

#[test]
fn six_golden_cases_with_ngram_drafts_at_k_3_and_7() {
    golden_with_ngram("gpu_speculation", Tier::BASE, [3, 7].into_iter(), 24);
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn golden_cases_with_ngram_drafts_at_every_k() {
    // f32 throughout, as the reference; with subgroups, because 16 rows cost least there.
    let tier = Tier::parse("subgroup").unwrap();
    golden_with_ngram("gpu_speculation every k", tier, 1..=15, 64);
}

#[test]
fn repetitive_prompts_commit_more_than_two_tokens_a_verify_step() {
    let Some(mut loaded) = open("gpu_speculation repetitive", Tier::BASE) else {
        return;
    };
    for case in golden()
        .iter()
        .filter(|case| ["chat_unicode", "raw_translate"].contains(&&*case.id))
    {
        let lookup = Some(Lookup::new(7, 2, 4));
        let (ids, statistics) = answer(
            &mut loaded,
            &case.prompt_ids,
            Sampling::greedy(),
            64,
            lookup,
        );
        assert_eq!(ids, case.output_ids, "{}", case.id);
        let mean = statistics
            .expect("a summary was asked for")
            .mean_acceptance_length();
        assert!(mean > 2.0, "{}: {mean} tokens a verify step", case.id);
    }
}

fn sampled(test: &str, tier: Tier, prompts: usize, max_tokens: usize) {
    let Some(mut loaded) = open(test, tier) else {
        return;
    };
    let lookups = [
        Lookup::new(3, 2, 4),
        Lookup {
            order: MatchOrder::Latest,
            ..Lookup::new(7, 1, 3)
        },
    ];
    for (seed, case) in (1000u64..).zip(
        golden()
            .iter()
            .filter(|c| c.id.starts_with("chat"))
            .take(prompts),
    ) {
        // The ignored stop tokens keep answers long; every second one narrows as well.
        let narrow = seed % 2 == 1;
        let sampling = Sampling {
            temperature: 0.8,
            seed,
            top_p: if narrow { 0.95 } else { 1.0 },
            top_k: if narrow { 50 } else { 0 },
            repetition_penalty: if seed % 3 == 0 { 1.1 } else { 1.0 },
            min_tokens: max_tokens as u32 / 2,
            stop_ids: SMOLLM2_STOP_IDS.to_vec(),
            ..Sampling::greedy()
        };
        let (plain, _) = answer(
            &mut loaded,
            &case.prompt_ids,
            sampling.clone(),
            max_tokens,
            None,
        );
        assert!(
            plain.len() >= max_tokens / 2,
            "{}: min_tokens hold",
            case.id
        );
        for lookup in lookups {
            let (ids, statistics) = answer(
                &mut loaded,
                &case.prompt_ids,
                sampling.clone(),
                max_tokens,
                Some(lookup),
            );
            assert_eq!(ids, plain, "{tier} {} {lookup:?}", case.id);
            let statistics = statistics.expect("a summary was asked for");
            println!(
                "{tier} {} {lookup:?}: {} accepted of {}",
                case.id, statistics.num_accepted_draft_tokens, statistics.num_draft_tokens
            );
        }
    }
}

#[test]
fn sampled_answers_are_the_same_with_speculation_on_and_off() {
    sampled("gpu_speculation sampled", Tier::BASE, 2, 40);
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn long_sampled_answers_are_the_same_with_speculation_on_and_off() {
    sampled(
        "gpu_speculation long sampled",
        Tier::parse("subgroup-f16").unwrap(),
        2,
        512,
    );
}
