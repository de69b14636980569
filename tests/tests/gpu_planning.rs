//! Planning a model holds it against the device's limits, and makes nothing on the device.

use foretoken_engine::{Engine, EngineOptions, plan};
use foretoken_gpu::{GpuOps, Tier};
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_weights::{BytesSource, FileSource};
use pollster::block_on;

#[test]
fn a_plan_makes_nothing_and_changes_nothing_of_the_load_after_it() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    let options = || EngineOptions::new("tiny", "a device");
    let before = ops.counters();
    ops.set_planning(true);
    block_on(plan(&mut ops, &source, &options())).unwrap();
    ops.set_planning(false);
    assert_eq!(ops.counters(), before, "what was done for a plan");
    let bytes = |ops: GpuOps| {
        let engine = block_on(Engine::load(ops, &source, options(), &mut |_| {})).unwrap();
        engine.with_ops(|ops| ops.counters().device_bytes).unwrap()
    };
    let fresh = gpu::open(Tier::BASE).unwrap();
    assert_eq!(bytes(ops), bytes(fresh));
}

#[test]
fn what_exceeds_the_device_is_told_with_what_is_needed_and_what_there_is() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    // A model that says it was trained for 2^31 positions.
    let mut tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    let key = b"llama.context_length";
    let at = tiny
        .windows(key.len())
        .position(|window| window == key)
        .unwrap();
    let value = at + key.len() + 4;
    assert_eq!(tiny[value..][..4], 64_u32.to_le_bytes());
    tiny[value..][..4].copy_from_slice(&(1_u32 << 31).to_le_bytes());
    let options = EngineOptions {
        context_length: Some(1 << 30),
        ..EngineOptions::new("tiny", "a device")
    };
    ops.set_planning(true);
    let error = block_on(plan(&mut ops, &BytesSource(tiny), &options)).unwrap_err();
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
