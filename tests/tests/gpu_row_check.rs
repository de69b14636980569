//! The load-time check of row invariance: passes on our kernels, catches one that cheats, and is satisfied again where
//! padding every pass to the verify pipeline makes rows equal.

use foretoken_core::Ops;
use foretoken_decode::check_row_invariance;
use foretoken_gpu::composer::Overrides;
use foretoken_gpu::{GpuOptions, MatmulShape, SHADER_FILES, Tier};
use foretoken_tests::golden::data_file;
use foretoken_tests::gpu;
use foretoken_tests::model_file::load_file;
use pollster::block_on;

/// The matmul, except that a lone row is summed from a tiny bias: right to six digits, wrong in its bits.
fn cheating_matmul() -> Overrides {
    let (path, text) = SHADER_FILES
        .iter()
        .find(|(path, _)| *path == "ops/matmul.wgsl")
        .expect("matmul is an op");
    let cheat = text.replace(
        "var acc_{r}_{c} = 0.0;",
        "var acc_{r}_{c} = select(0.0, 1e-6, C == 1u);",
    );
    assert_ne!(
        cheat, *text,
        "the accumulators are initialised where the cheat looks"
    );
    Overrides::from([((*path).to_owned(), &*cheat.leak())])
}

#[test]
fn our_kernels_pass_on_every_tier_and_format() {
    for (tier, shape) in Tier::ALL
        .into_iter()
        .flat_map(|tier| MatmulShape::all(tier).map(|shape| (tier, shape)))
    {
        for file in [
            "tiny.gguf",
            "tiny_mixed.gguf",
            "tiny_q4_0.gguf",
            "tiny_q4_1.gguf",
            "tiny_q8_0.gguf",
            "tiny_bf16.gguf",
        ] {
            let options = GpuOptions {
                tier: Some(tier),
                matmul: Some(shape),
                ..GpuOptions::default()
            };
            let Some(mut ops) = gpu::open_with(options) else {
                continue;
            };
            let model = block_on(load_file(&mut ops, &data_file(file)));
            let mismatch = block_on(check_row_invariance(&mut ops, &*model)).unwrap();
            assert_eq!(mismatch, None, "{tier} {shape:?} {file}");
        }
    }
}

#[test]
fn a_kernel_that_cheats_is_caught_and_padding_cures_it() {
    let options = GpuOptions {
        tier: Some(Tier::BASE),
        overrides: cheating_matmul(),
        ..GpuOptions::default()
    };
    let Some(mut ops) = gpu::open_with(options) else {
        return;
    };
    let model = block_on(load_file(&mut ops, &data_file("tiny.gguf")));
    let mismatch = block_on(check_row_invariance(&mut ops, &*model)).unwrap();
    let mismatch = mismatch.expect("a row that depends on the row count is a mismatch");
    assert_eq!(
        mismatch.rows, 1,
        "only the one-row pipeline cheats: {mismatch}"
    );
    ops.pad_rows(true);
    assert_eq!(
        block_on(check_row_invariance(&mut ops, &*model)).unwrap(),
        None,
        "padded to the verify pipeline"
    );
}

#[test]
fn a_shader_error_names_the_authors_file_and_line() {
    let (path, text) = SHADER_FILES
        .iter()
        .find(|(path, _)| *path == "lib/glu_silu.wgsl")
        .expect("silu is shared");
    let wrong = text.replace("return v /", "return v / undeclared *");
    let line = wrong
        .lines()
        .position(|line| line.contains("undeclared"))
        .expect("replaced")
        + 1;
    let options = GpuOptions {
        tier: Some(Tier::BASE),
        overrides: Overrides::from([((*path).to_owned(), &*wrong.leak())]),
        ..GpuOptions::default()
    };
    let Some(mut ops) = gpu::open_with(options) else {
        return;
    };
    let model = block_on(load_file(&mut ops, &data_file("tiny.gguf")));
    let error = block_on(check_row_invariance(&mut ops, &*model)).expect_err("it does not compile");
    let expected = format!("shaders/lib/glu_silu.wgsl:{line}");
    let message = error.to_string();
    assert!(
        message.contains(&expected) && message.contains("matmul["),
        "{message}"
    );
}
