//! The probes of the device: they measure something, and leave nothing behind.

use foretoken_gpu::Tier;
use foretoken_tests::gpu;
use pollster::block_on;

#[test]
fn probes_measure_the_device_and_leave_nothing_behind() {
    let Some(ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let (counters, allocated) = (ops.counters(), ops.allocated_bytes());
    let roofline = block_on(ops.probe()).unwrap();
    println!("{roofline:?}");
    // Bounds that a wrong unit or a loop the compiler removed would break: from a tenth of one slow core to
    // a hundred times the largest GPU.
    let within = |value: f64, least: f64, most: f64, what: &str| {
        assert!(
            value.is_finite() && value > least && value < most,
            "{what}: {value}"
        );
    };
    within(roofline.read_gb_per_s, 0.05, 1e6, "GB/s");
    within(roofline.fma_gflop_per_s, 0.2, 1e7, "GFLOP/s");
    within(roofline.dispatch_us, 0.01, 1e5, "µs a dispatch");
    assert_eq!(ops.counters(), counters, "the engine's own counts");
    gpu::assert_given_back(&ops, allocated);
}
