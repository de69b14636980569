//! Tuning: it chooses among what the device may take, finds bits equal where they must be, and leaves nothing behind.

use foretoken_gpu::{GpuOps, MatmulShape, Tier, TunedMatrix};
use foretoken_tests::gpu;
use foretoken_weights::quant::FORMATS;
use pollster::block_on;

fn matrices(format: &str) -> [TunedMatrix; 2] {
    let format = *FORMATS
        .iter()
        .find(|known| known.name() == format)
        .expect("a format");
    // SmolLM2's: gate and up, and down.
    [(1536, 576), (576, 1536)].map(|(rows, cols)| TunedMatrix { format, rows, cols })
}

#[test]
fn tuning_chooses_what_the_device_may_take_and_leaves_nothing_behind() {
    // Matmuls are the same with and without f16.
    for tier in Tier::ALL.into_iter().filter(|tier| !tier.f16) {
        let Some(mut ops) = gpu::open(tier) else {
            continue;
        };
        let (counters, allocated) = (ops.counters(), ops.allocated_bytes());
        let class = MatmulShape::of(ops.adapter(), tier);
        for format in ["q4_1", "q8_0", "f32"] {
            let clock = foretoken_core::Clock::start();
            let tuning = block_on(ops.tune(&matrices(format))).unwrap();
            println!(
                "{tier} {format}: {} after {:.0} ms",
                tuning.shape,
                clock.elapsed_ms()
            );
            for measured in &tuning.measured {
                println!(
                    "  {} {:.3?} ms, cost {:.2}, the class's bits: {}",
                    measured.shape,
                    measured.ms,
                    measured.cost(),
                    measured.same_bits
                );
            }
            assert!(tuning.shape.is_choice(ops.adapter(), tier));
            // Few may be left on a busy machine, none on a very busy one.
            if let Some(first) = tuning.measured.first() {
                assert_eq!(first.shape, class);
            }
            for measured in &tuning.measured {
                assert_eq!(
                    measured.same_bits,
                    measured.shape.split == class.split,
                    "{tier} {format}: {} and the class's {class}",
                    measured.shape
                );
            }
            assert_eq!(ops.matmul_shape(), class, "nothing changes by itself");
        }
        assert_eq!(ops.counters(), counters, "the engine's own counts");
        gpu::assert_given_back(&ops, allocated);
        takes_only_its_choices(&mut ops);
    }
}

fn takes_only_its_choices(ops: &mut GpuOps) {
    for shape in MatmulShape::choices(ops.adapter(), ops.tier()) {
        ops.set_matmul_shape(shape).unwrap();
        assert_eq!(ops.matmul_shape(), shape);
    }
    let before = ops.matmul_shape();
    let foreign = MatmulShape {
        workgroup: 248,
        ..before
    };
    let error = ops.set_matmul_shape(foreign).expect_err("not a choice");
    assert!(error.to_string().contains("wg=248"), "{error}");
    assert_eq!(ops.matmul_shape(), before);
}

#[test]
fn matrices_that_cannot_be_measured_keep_the_class() {
    let Some(ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let class = MatmulShape::of(ops.adapter(), Tier::BASE);
    let [known, _] = matrices("q4_1");
    for (rows, cols) in [(0, 32), (8, 0), (8, 33), (8, u32::MAX), (u32::MAX, 48)] {
        let wrong = TunedMatrix {
            rows,
            cols,
            ..known
        };
        let tuning = block_on(ops.tune(&[wrong])).unwrap();
        assert_eq!((tuning.shape, tuning.measured.len()), (class, 0));
    }
    let none = block_on(ops.tune(&[])).unwrap();
    assert_eq!((none.shape, none.measured.len()), (class, 0));
    // Far more outputs than are forged.
    let tall = TunedMatrix {
        rows: u32::MAX,
        cols: 32,
        ..known
    };
    let tuning = block_on(ops.tune(&[tall])).unwrap();
    assert!(tuning.shape.is_choice(ops.adapter(), Tier::BASE));
}
