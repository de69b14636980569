//! Steps in flight on the GPU: the device's history, look-up and ends are those of the host, so the same answer comes by the
//! same drafts, block by block, without a wait between two passes.

use foretoken_core::{LanguageModel, Sampling, TokenId};
use foretoken_decode::drafters::{MatchOrder, NgramDrafter};
use foretoken_decode::{
    AbortSignal, DecodeLoop, DecodeOptions, FinishReason, Sequence, StatisticsLevel,
    StopConditions, TokenProvenance,
};
use foretoken_gpu::{Counters, GpuOps, Tier};
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use pollster::block_on;

type Model = Box<dyn LanguageModel<GpuOps>>;

/// Who drafts, and how answers end.
#[derive(Debug, Clone)]
struct Case {
    prompt: Vec<TokenId>,
    sampling: Sampling,
    /// k, shortest and longest n-gram, order.
    lookup: Option<(usize, usize, usize, MatchOrder)>,
    stop: StopConditions,
}

/// What must not depend on how many steps are in flight.
#[derive(Debug, PartialEq)]
struct Answer {
    tokens: Vec<TokenId>,
    finish: Option<FinishReason>,
    blocks: Vec<usize>,
    provenance: Vec<TokenProvenance>,
    drafted: Vec<u64>,
    accepted: Vec<u64>,
}

fn run((ops, model): &mut (GpuOps, Model), case: &Case, steps_a_wait: usize) -> (Answer, Counters) {
    let mut options = DecodeOptions {
        sampling: case.sampling.clone(),
        steps_a_wait,
        statistics: StatisticsLevel::Detailed,
        provenance: true,
        ..DecodeOptions::plain(case.stop.clone())
    };
    if let Some((k, min, max, order)) = case.lookup {
        options.drafter = Some(Box::new(NgramDrafter::new(min, max, order)));
        options.num_speculative_tokens = k;
    }
    let mut sequence = Sequence::new(0);
    sequence.commit(&case.prompt);
    let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
    let (mut blocks, mut provenance) = (Vec::new(), Vec::new());
    let mut before = ops.counters();
    while decode.finish().is_none() {
        let block = block_on(decode.step(ops, &**model)).unwrap();
        if blocks.is_empty() {
            before = ops.counters();
        }
        blocks.push(block.tokens.len());
        provenance.extend(block.provenance);
    }
    let statistics = decode.statistics().unwrap();
    let answer = Answer {
        tokens: decode.generated().to_vec(),
        finish: decode.finish(),
        blocks,
        provenance,
        drafted: statistics.per_step_drafted.clone(),
        accepted: statistics.per_step_accepted.clone(),
    };
    (answer, ops.counters().since(&before))
}

fn cases(vocab: u32, context: usize, count: u64) -> Vec<Case> {
    let mut state = 1u64;
    let mut random = move |n: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 33) % n
    };
    (0..count)
        .map(|case| {
            // Few different tokens, so that n-grams recur.
            let kinds = 2 + random(5);
            let prompt: Vec<TokenId> = (0..1 + random(60))
                .map(|_| (random(kinds) * 7 + 3) as TokenId % vocab)
                .collect();
            let min = 1 + random(2) as usize;
            let max = min + random(4) as usize;
            let order = [MatchOrder::Earliest, MatchOrder::Latest][random(2) as usize];
            let k = [1, 3, 5, 7, 15][random(5) as usize];
            let sampled = Sampling {
                temperature: [0.7, 1.5][random(2) as usize],
                top_k: [0, 5][random(2) as usize],
                repetition_penalty: [1.0, 1.2][random(2) as usize],
                seed: case,
                ..Sampling::greedy()
            };
            let max_tokens = 1 + random(50) as usize;
            let stop_at_position = (prompt.len() + 1 + random(20) as usize).min(context);
            Case {
                sampling: if case % 2 == 0 {
                    Sampling::greedy()
                } else {
                    sampled
                },
                lookup: (case % 5 > 0).then_some((k, min, max, order)),
                stop: StopConditions {
                    token_ids: (0..random(3))
                        .map(|_| random(u64::from(vocab)) as u32)
                        .collect(),
                    max_tokens,
                    context: if case % 3 == 0 {
                        stop_at_position
                    } else {
                        context
                    },
                },
                prompt,
            }
        })
        .collect()
}

#[test]
fn the_same_answer_by_the_same_drafts_on_tiny() {
    let (mut drafted, mut accepted) = (0, 0);
    let mut waits = (0, 0);
    for tier in [Tier::BASE, Tier::parse("subgroup-f16").unwrap()] {
        let Some(mut ops) = gpu::open(tier) else {
            continue;
        };
        let model = block_on(load_file(&mut ops, &data_file("tiny.gguf")));
        let (vocab, context) = (model.config().vocab_size, model.context_length() as usize);
        let mut loaded = (ops, model);
        for (i, case) in cases(vocab, context, 120).iter().enumerate() {
            let (waiting, waited) = run(&mut loaded, case, 0);
            let (flying, counted) = run(&mut loaded, case, [1, 2, 4, 8][i % 4]);
            assert_eq!(flying, waiting, "{tier} case {i}: {case:?}");
            drafted += flying.drafted.iter().sum::<u64>();
            accepted += flying.accepted.iter().sum::<u64>();
            assert_eq!(counted.passes, counted.submits, "one pass a submit");
            waits = (waits.0 + waited.syncs, waits.1 + counted.syncs);
        }
        assert!(
            drafted > 200 && accepted > 20,
            "{drafted} drafts, {accepted} accepted"
        );
        assert!(waits.1 * 3 < waits.0 * 2, "{waits:?} waits");
    }
}

#[test]
fn a_steady_step_in_flight_creates_nothing_and_waits_less_than_once() {
    let path = find_model(SMOLLM2, "gpu_in_flight").unwrap_or_else(|| data_file("tiny.gguf"));
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let model = block_on(load_file(&mut ops, &path));
    let layers = u64::from(model.config().num_hidden_layers);
    let context = model.context_length() as usize;
    let mut loaded = (ops, model);
    let case = Case {
        prompt: vec![5, 9, 5, 9, 5],
        sampling: Sampling::greedy(),
        lookup: Some((3, 1, 2, MatchOrder::Earliest)),
        stop: StopConditions {
            token_ids: Vec::new(),
            max_tokens: 12,
            context,
        },
    };
    let (waiting, _) = run(&mut loaded, &case, 0);
    for steps_a_wait in [1, 4] {
        // Once to make what it needs.
        run(&mut loaded, &case, steps_a_wait);
        let (flying, counted) = run(&mut loaded, &case, steps_a_wait);
        assert_eq!(flying, waiting);
        let steps = flying.blocks.len() as u64 - 1;
        assert_eq!(counted.objects_created(), 0, "{steps_a_wait} a wait");
        // Up to four submissions a pass, where one takes more than 100 ms.
        let most = steps + 2 * steps_a_wait as u64;
        assert!(
            counted.submits < 4 * most,
            "{} submissions",
            counted.submits
        );
        assert!(counted.syncs <= steps.div_ceil(steps_a_wait as u64) + 1);
        assert_eq!(counted.mapped_bytes % 80, 0);
        assert!(
            counted.dispatches <= counted.passes * (9 * layers + 6),
            "{} dispatches in {} passes",
            counted.dispatches,
            counted.passes
        );
        // The row table of the first pass, history, limits and state once: then the host uploads nothing.
        assert!(counted.write_buffers <= 4, "{}", counted.write_buffers);
    }
}
