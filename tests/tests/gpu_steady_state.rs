//! What a steady decode step costs, counted: it creates nothing, submits once, waits once, uploads one row table.

use foretoken_core::{Ops, Phase, Row, TOKEN_ON_DEVICE};
use foretoken_decode::AbortSignal;
use foretoken_engine::{CompletionRequest, Engine, EngineOptions, SpeculativeConfig};
use foretoken_gpu::Tier;
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use foretoken_weights::FileSource;
use pollster::block_on;
use serde_json::json;

#[test]
fn a_steady_step_creates_nothing_and_waits_once() {
    let path = find_model(SMOLLM2, "gpu_steady_state").unwrap_or_else(|| data_file("tiny.gguf"));
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let model = block_on(load_file(&mut ops, &path));
    let layers = u64::from(model.config().num_hidden_layers);
    for rows in [1usize, 4, 8, 16] {
        let mut before = ops.counters();
        for step in 0..3u32 {
            if step == 1 {
                before = ops.counters();
            }
            let table: Vec<Row> = (0..rows as u32)
                .map(|i| Row {
                    token: if i == 0 && step > 0 {
                        TOKEN_ON_DEVICE
                    } else {
                        5
                    },
                    position: step + i,
                    sequence: 0,
                })
                .collect();
            ops.begin(Phase::Rows, &table, rows);
            let logits = model.forward(&mut ops);
            ops.choose(logits);
            ops.submit().unwrap();
            assert_eq!(block_on(ops.read_chosen()).unwrap().len(), rows);
        }
        let counted = ops.counters().since(&before);
        assert_eq!(
            counted.objects_created(),
            0,
            "{rows} rows: buffers, bind groups, pipelines"
        );
        assert_eq!(counted.syncs, 2, "{rows} rows: one wait a step");
        // One submission a step, and up to four where passes take longer than 100 ms.
        assert!(
            (2..=8).contains(&counted.submits) && counted.passes == counted.submits,
            "{rows} rows: {} submissions, {} compute passes",
            counted.submits,
            counted.passes
        );
        assert_eq!(
            counted.mapped_bytes,
            2 * 64,
            "{rows} rows: 64 bytes mapped a step"
        );
        assert!(
            counted.write_buffers <= 2 && counted.written_bytes <= 2 * 1024,
            "{rows} rows: uploads"
        );
        assert!(
            counted.dispatches <= 2 * (9 * layers + 6),
            "{rows} rows: {} dispatches",
            counted.dispatches / 2
        );
        let chunks = rows.div_ceil(4) as u64;
        assert!(
            counted.weight_bytes_read <= 2 * chunks * ops.counters().weight_bytes,
            "{rows} rows: weights read"
        );
    }
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
