//! What a steady decode step costs, counted: it creates nothing, submits once, waits once, uploads one row table, and reads
//! weights, keys and values no more often than it must. And what a loaded model holds.

use std::path::Path;

use foretoken_core::{LanguageModel, Ops, Phase, Row, TOKEN_ON_DEVICE};
use foretoken_decode::AbortSignal;
use foretoken_engine::{CompletionRequest, Engine, EngineOptions, SpeculativeConfig};
use foretoken_gpu::{Counters, GpuOps, Tier};
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use foretoken_weights::FileSource;
use pollster::block_on;
use serde_json::json;

/// The tier of the machines that have everything.
const BEST: Tier = Tier {
    subgroups: true,
    f16: true,
};

/// What a step of `rows` rows from position `first` on counts, once another has built what it needs.
fn steady_step(
    ops: &mut GpuOps,
    model: &dyn LanguageModel<GpuOps>,
    rows: u32,
    first: u32,
) -> Counters {
    let mut before = ops.counters();
    for step in 0..2 {
        if step == 1 {
            before = ops.counters();
        }
        let table: Vec<Row> = (0..rows)
            .map(|i| Row {
                token: if i == 0 && step > 0 {
                    TOKEN_ON_DEVICE
                } else {
                    5
                },
                position: first + step + i,
                sequence: 0,
            })
            .collect();
        ops.begin(Phase::Rows, &table, rows as usize);
        let logits = model.forward(ops);
        ops.choose(logits);
        ops.submit().unwrap();
        assert_eq!(block_on(ops.read_chosen()).unwrap().len(), rows as usize);
    }
    ops.counters().since(&before)
}

/// Bytes of the keys and values of one position, in all layers.
fn position_bytes(model: &dyn LanguageModel<GpuOps>, tier: Tier) -> u64 {
    let config = model.config();
    let scalar = if tier.f16 { 2 } else { 4 };
    2 * scalar
        * u64::from(config.num_hidden_layers)
        * u64::from(config.num_key_value_heads)
        * u64::from(config.head_dim)
}

#[test]
fn a_steady_step_creates_nothing_waits_once_and_reads_little() {
    let path = find_model(SMOLLM2, "gpu_steady_state").unwrap_or_else(|| data_file("tiny.gguf"));
    for tier in [Tier::BASE, BEST] {
        let Some(mut ops) = gpu::open(tier) else {
            continue;
        };
        let model = block_on(load_file(&mut ops, &path));
        let layers = u64::from(model.config().num_hidden_layers);
        for rows in [1u32, 2, 3, 4, 8, 16] {
            let first = 20;
            let counted = steady_step(&mut ops, &*model, rows, first);
            assert_eq!(
                counted.objects_created(),
                0,
                "{tier}, {rows} rows: buffers, bind groups, pipelines"
            );
            assert_eq!(counted.syncs, 1, "{tier}, {rows} rows: one wait a step");
            // One submission a step, and up to four where passes take longer than 100 ms.
            assert!(
                (1..=4).contains(&counted.submits) && counted.passes == counted.submits,
                "{tier}, {rows} rows: {} submissions, {} compute passes",
                counted.submits,
                counted.passes
            );
            assert_eq!(
                counted.mapped_bytes, 64,
                "{tier}, {rows} rows: 64 bytes mapped a step"
            );
            assert!(
                counted.write_buffers <= 1 && counted.written_bytes <= 1024,
                "{tier}, {rows} rows: uploads"
            );
            assert!(
                counted.dispatches <= 9 * layers + 6,
                "{tier}, {rows} rows: {} dispatches",
                counted.dispatches
            );
            let chunks = u64::from(rows.div_ceil(4));
            let (read, held) = (counted.weight_bytes_read, counted.weight_bytes);
            assert!(
                (held..=chunks * held).contains(&read),
                "{tier}, {rows} rows: {read} bytes of {held} bytes of weights read"
            );
            // A step after one that began at `first`.
            let live = u64::from(first + 1 + rows) * position_bytes(&*model, tier);
            let read = counted.kv_bytes_read;
            // A chunk's rows see at most `live`, its last row all but the rows after the chunk; of one chunk it is exact.
            let exact = chunks == 1;
            assert!(
                (live..=chunks * live).contains(&read) && (!exact || read == live),
                "{tier}, {rows} rows: {read} bytes read of {live} live bytes of keys and values"
            );
        }
    }
}

#[test]
fn a_model_holds_its_weights_its_cache_and_little_else() {
    let Some(path) = find_model(SMOLLM2, "gpu_steady_state") else {
        return;
    };
    for tier in [Tier::BASE, BEST] {
        let Some(mut ops) = gpu::open(tier) else {
            continue;
        };
        let model = block_on(load_file(&mut ops, &path));
        assert_eq!(model.context_length(), 4096);
        steady_step(&mut ops, &*model, 1, 0);
        let counters = ops.counters();
        let needed = counters.weight_bytes + 4096 * position_bytes(&*model, tier);
        let held = counters.device_bytes;
        assert!(
            held > needed && held as f64 <= 1.10 * needed as f64,
            "{tier}: {held} bytes held, {needed} are weights, keys and values"
        );
        assert!(
            counters.largest_buffer_bytes <= 128 << 20,
            "{tier}: a binding of {} bytes",
            counters.largest_buffer_bytes
        );
    }
}

/// Dispatches a step of a model of `data/`, at its first positions, and its layers.
fn dispatches(ops: &mut GpuOps, file: &Path) -> (u64, u64) {
    let model = block_on(load_file(ops, file));
    let counted = steady_step(ops, &*model, 1, 0);
    (
        counted.dispatches,
        u64::from(model.config().num_hidden_layers),
    )
}

/// `tiny_mixed.gguf` has three formats among q, k and v and two among gate and up of every layer: three more than fused
/// groups of one format have.
#[test]
fn a_format_more_in_a_fused_group_costs_one_dispatch() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let (uniform, layers) = dispatches(&mut ops, &data_file("tiny_q4_1.gguf"));
    assert_eq!(uniform, 7 * layers + 5);
    let (mixed, layers) = dispatches(&mut ops, &data_file("tiny_mixed.gguf"));
    assert_eq!(mixed, (7 + 3) * layers + 5);
}

/// A short context is one span of positions, a long one many: there attention is rotated, split and reduced.
#[test]
fn attention_of_a_short_context_is_one_dispatch() {
    let Some(path) = find_model(SMOLLM2, "gpu_steady_state") else {
        return;
    };
    let Some(mut ops) = gpu::open(BEST) else {
        return;
    };
    let model = block_on(load_file(&mut ops, &path));
    let layers = u64::from(model.config().num_hidden_layers);
    let short = steady_step(&mut ops, &*model, 1, 20);
    assert_eq!(short.dispatches, 7 * layers + 5);
    let long = steady_step(&mut ops, &*model, 1, 1000);
    assert_eq!(long.dispatches, 9 * layers + 5);
}

#[test]
fn the_first_requests_find_everything_made() {
    let path = data_file("tiny.gguf");
    for steps_a_wait in [0, 2] {
        let Some(ops) = gpu::open(Tier::BASE) else {
            return;
        };
        let speculation = json!({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 1, "prompt_lookup_max": 3});
        let options = EngineOptions {
            check_row_invariance: true,
            speculative_config: Some(SpeculativeConfig::parse(&speculation).unwrap()),
            steps_a_wait: Some(steps_a_wait),
            ..EngineOptions::new("tiny", "test")
        };
        let source = FileSource::open(&path).unwrap();
        let engine = block_on(Engine::load(ops, &source, options, &mut |_| {})).unwrap();
        let before = engine.with_ops(|ops| ops.counters()).unwrap();
        for sampling in [
            json!({"temperature": 0}),
            json!({"temperature": 1}),
            json!({"temperature": 1, "top_k": 4, "top_p": 0.9}),
        ] {
            let mut body = sampling;
            body["prompt"] = json!((0..34).map(|i| i % 9 + 50).collect::<Vec<u32>>());
            body["ignore_eos"] = json!(true);
            body["max_tokens"] = json!(24);
            let request = CompletionRequest::parse(&body, &engine.limits()).unwrap();
            let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
            block_on(generation.response()).unwrap();
        }
        let counted = engine
            .with_ops(|ops| ops.counters())
            .unwrap()
            .since(&before);
        assert_eq!(
            counted.objects_created(),
            0,
            "{steps_a_wait} steps a wait: {counted:?}"
        );
    }
}
