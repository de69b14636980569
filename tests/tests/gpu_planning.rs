//! Planning a model holds it against the device's limits, and makes nothing on the device.

use foretoken_core::OpsError;
use foretoken_engine::{
    DraftSource, Engine, EngineOptions, Error, Plan, SpeculativeConfig, fit_context, plan,
    plan_context,
};
use foretoken_gpu::{GpuOps, Tier};
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_weights::{BytesSource, FileSource, Gguf};
use pollster::block_on;
use serde_json::json;

#[test]
fn a_plan_makes_nothing_and_changes_nothing_of_the_load_after_it() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    let options = || EngineOptions::new("tiny", "a device");
    let before = ops.counters();
    ops.set_planning(true);
    block_on(plan(&mut ops, &source, None, &options())).unwrap();
    ops.set_planning(false);
    assert_eq!(ops.counters(), before, "what was done for a plan");
    let bytes = |ops: GpuOps| {
        let engine = block_on(Engine::load(ops, &source, options(), &mut |_| {})).unwrap();
        engine.with_ops(|ops| ops.counters().device_bytes).unwrap()
    };
    let fresh = gpu::open(Tier::BASE).unwrap();
    assert_eq!(bytes(ops), bytes(fresh));
}

/// Every byte that a plan counts is one that the load holds, whatever the context.
#[test]
fn a_plan_counts_what_the_load_holds() {
    for (name, contexts) in [("tiny.gguf", [16, 64]), ("tiny_mixed.gguf", [33, 64])] {
        let source = FileSource::open(data_file(name)).unwrap();
        let gguf = block_on(Gguf::read(&source)).unwrap();
        for context in contexts {
            let Some(mut ops) = gpu::open(Tier::BASE) else {
                return;
            };
            // Twice: a second plan does not begin with what the first counted.
            for _ in 0..2 {
                ops.set_planning(true);
                block_on(plan_context::<_, FileSource>(
                    &mut ops, &gguf, context, None,
                ))
                .unwrap();
            }
            let planned = ops.planned();
            ops.set_planning(false);
            let options = EngineOptions {
                context_length: Some(context),
                ..EngineOptions::new("tiny", "a device")
            };
            let engine = block_on(Engine::load(ops, &source, options, &mut |_| {})).unwrap();
            let held = engine.with_ops(|ops| ops.counters()).unwrap();
            assert_eq!(planned.total(), held.device_bytes, "{name} at {context}");
            assert!(planned.weights >= held.weight_bytes, "{name} at {context}");
            assert_eq!(planned.kv, 4 * planned.kv_numbers, "f32 in this tier");
        }
    }
}

/// TINY, as if it had been trained for so many positions.
fn trained_for(positions: u32) -> Vec<u8> {
    let mut tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    let key = b"llama.context_length";
    let at = tiny
        .windows(key.len())
        .position(|window| window == key)
        .unwrap();
    let value = at + key.len() + 4;
    assert_eq!(tiny[value..][..4], 64_u32.to_le_bytes());
    tiny[value..][..4].copy_from_slice(&positions.to_le_bytes());
    tiny
}

/// The context that fits into `budget` bytes, and the sums of the plans that were made for it.
fn fit(stated: Option<u32>, budget: u64) -> Option<(Result<u32, Error>, Vec<u64>)> {
    let (fitted, sums) = fit_with(None, stated, budget)?;
    Some((fitted.map(|plan| plan.context_length), sums))
}

/// The same, with a draft.
fn fit_with(
    draft: Option<&Gguf>,
    stated: Option<u32>,
    budget: u64,
) -> Option<(Result<Plan, Error>, Vec<u64>)> {
    let mut ops = gpu::open(Tier::BASE)?;
    let source = BytesSource(trained_for(1 << 16));
    let gguf = block_on(Gguf::read(&source)).unwrap();
    let options = EngineOptions {
        context_length: stated,
        ..EngineOptions::new("tiny", "a device")
    };
    let mut sums = Vec::new();
    let mut fits = |ops: &mut GpuOps| {
        let total = ops.planned().total();
        sums.push(total);
        ops.set_planning(true);
        match total > budget {
            true => Err(OpsError::OutOfMemory {
                what: "the model".to_owned(),
                needed: total,
                available: format!("{budget}"),
            }),
            false => Ok(()),
        }
    };
    ops.set_planning(true);
    let fitted =
        fit_context::<_, BytesSource<Vec<u8>>>(&mut ops, &gguf, draft, &options, &mut fits);
    let fitted = block_on(fitted);
    Some((fitted, sums))
}

#[test]
fn the_context_is_halved_until_it_fits_unless_it_was_asked_for() {
    let Some((fitted, sums)) = fit(None, u64::MAX) else {
        return;
    };
    assert_eq!((fitted.unwrap(), sums.len()), (4096, 1), "the default");
    let whole = sums[0];
    let (fitted, sums) = fit(None, whole - 1).unwrap();
    assert_eq!((fitted.unwrap(), sums.len()), (2048, 2));
    assert!(sums[0] == whole && sums[1] < whole, "{sums:?}");
    let (fitted, sums) = fit(None, 1).unwrap();
    let error = fitted.unwrap_err();
    assert_eq!((error.code(), sums.len()), ("out_of_memory", 4));
    let needed = format!("{} bytes needed", sums[3]);
    assert!(error.to_string().contains(&needed), "{error}");
    let (fitted, sums) = fit(Some(4096), 1).unwrap();
    assert_eq!((fitted.unwrap(), sums.len()), (4096, 1), "asked for");
}

#[test]
fn a_draft_is_planned_beside_its_target_or_left_out() {
    let header = |bytes: Vec<u8>| block_on(Gguf::read(&BytesSource(bytes))).unwrap();
    let draft = header(trained_for(1 << 16));
    let Some((fitted, sums)) = fit_with(Some(&draft), None, u64::MAX) else {
        return;
    };
    let both = |context_length| Plan {
        context_length,
        draft_problem: None,
    };
    assert_eq!(fitted.unwrap(), both(4096));
    let whole = sums[0];
    let alone = fit(None, u64::MAX).unwrap().1[0];
    assert!(whole > alone, "{whole} for both, {alone} for one");
    let (fitted, _) = fit_with(Some(&draft), None, whole - 1).unwrap();
    assert_eq!(fitted.unwrap(), both(2048));
    // A context that was asked for is believed to fit.
    let (fitted, _) = fit_with(Some(&draft), Some(4096), 1).unwrap();
    assert_eq!(fitted.unwrap(), both(4096));
    // One that was trained for less has a smaller cache.
    let short = header(trained_for(64));
    let (_, sums) = fit_with(Some(&short), None, u64::MAX).unwrap();
    assert!(alone < sums[0] && sums[0] < whole, "{sums:?}");

    // Four contexts with it, then the target's own.
    let (_, sums) = fit_with(Some(&draft), None, 1).unwrap();
    let least = *sums.iter().min().unwrap();
    let (fitted, sums) = fit_with(Some(&draft), None, least).unwrap();
    let plan = fitted.unwrap();
    assert_eq!((plan.context_length, sums.len()), (512, 8), "{plan:?}");
    let problem = plan.draft_problem.unwrap();
    assert!(problem.contains("bytes needed"), "{problem}");
    // A draft that nothing could load, at once.
    let text = b"blk.1.ffn_up";
    let mut bytes = trained_for(1 << 16);
    let at = bytes.windows(text.len()).position(|at| at == text).unwrap();
    bytes[at] = b'c';
    let (fitted, sums) = fit_with(Some(&header(bytes)), None, u64::MAX).unwrap();
    let plan = fitted.unwrap();
    assert_eq!((plan.context_length, sums.len()), (4096, 2));
    let problem = plan.draft_problem.unwrap();
    assert!(problem.contains("blk.1.ffn_up"), "{problem}");
}

#[test]
fn a_plan_of_two_models_counts_what_loading_both_holds() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let target = FileSource::open(data_file("tiny_qwen2.gguf")).unwrap();
    let draft = FileSource::open(data_file("tiny.gguf")).unwrap();
    let source = || DraftSource {
        name: "tiny".to_owned(),
        file: Ok(&draft),
    };
    let config = json!({"method": "draft_model", "num_speculative_tokens": 4});
    let options = EngineOptions {
        speculative_config: Some(SpeculativeConfig::parse(&config).unwrap()),
        ..EngineOptions::new("tiny", "a device")
    };
    ops.set_planning(true);
    let planned = block_on(plan(&mut ops, &target, Some(&source()), &options)).unwrap();
    assert_eq!(planned.draft_problem, None);
    let counted = ops.planned();
    ops.set_planning(false);
    let mut ignore = |_| {};
    let engine = Engine::load_with_draft(ops, &target, Some(source()), options, &mut ignore);
    let engine = block_on(engine).unwrap();
    assert!(engine.speculation().active, "{:?}", engine.speculation());
    let held = engine.with_ops(|ops| ops.counters()).unwrap();
    assert!(counted.weights >= held.weight_bytes, "{counted:?}");
    // Passes were timed, and the parameters of each op of theirs are in uniform buffers of 64 KiB, which a plan has none of.
    let parameters = held.device_bytes - counted.total();
    assert!(parameters == 64 << 10, "{counted:?}, {held:?}");
}

#[test]
fn what_exceeds_the_device_is_told_with_what_is_needed_and_what_there_is() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let tiny = trained_for(1 << 31);
    let options = EngineOptions {
        context_length: Some(1 << 30),
        ..EngineOptions::new("tiny", "a device")
    };
    ops.set_planning(true);
    let error = block_on(plan(&mut ops, &BytesSource(tiny), None, &options)).unwrap_err();
    assert_eq!(error.code(), "out_of_memory", "{error}");
    let message = error.to_string();
    let limit = ops.adapter().max_binding_bytes;
    // 8 pairs of a cosine and a sine, 4 bytes each, a position.
    assert!(
        message.contains(&format!("{} bytes needed", 64_u64 << 30))
            && message.contains(&format!("at most {limit} bytes")),
        "{message}"
    );
}
