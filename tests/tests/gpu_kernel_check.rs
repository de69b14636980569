//! The check of kernels that a user can run on a device: passes on our kernels on every tier, and names the one that is wrong.

use foretoken_gpu::composer::Overrides;
use foretoken_gpu::{GpuOptions, SHADER_FILES, Tier};
use foretoken_reference::{CpuOps, KernelCheck, KernelFault, check_kernels};
use foretoken_tests::gpu;
use foretoken_weights::quant::FORMATS;
use pollster::block_on;

/// What the check reports; `None` where the adapter lacks the tier.
fn checks(tier: Tier, overrides: Overrides) -> Option<Vec<KernelCheck>> {
    let mut ops = gpu::open_with(GpuOptions {
        tier: Some(tier),
        overrides,
        ..GpuOptions::default()
    })?;
    let mut found = Vec::new();
    block_on(check_kernels(&mut ops, FORMATS, tier.f16, &mut |check| {
        found.push(check)
    }))
    .unwrap();
    Some(found)
}

fn faulty(checks: &[KernelCheck]) -> Vec<&str> {
    let faulty = checks.iter().filter(|check| check.fault.is_some());
    faulty.map(|check| check.kernel.as_str()).collect()
}

/// A shader file with one piece of text replaced.
fn altered(path: &str, from: &str, to: &str) -> Overrides {
    let file = SHADER_FILES.iter().find(|(name, _)| *name == path);
    let (name, text) = file.expect("a shader file");
    assert!(text.contains(from), "{path} has no {from:?}");
    Overrides::from([((*name).to_owned(), &*text.replace(from, to).leak())])
}

#[test]
fn our_kernels_agree_with_the_reference_on_every_tier() {
    for tier in Tier::ALL {
        let Some(checks) = checks(tier, Overrides::default()) else {
            continue;
        };
        let faults: Vec<_> = checks
            .iter()
            .filter(|check| check.fault.is_some())
            .collect();
        assert!(faults.is_empty(), "{tier}: {faults:#?}");
        // 14 for the six formats of nearly every file, 4 for every other, and the twelve that need be run for one only.
        assert_eq!(checks.len(), 14 * 6 + 4 * (FORMATS.len() - 6) + 12);
    }
}

#[test]
fn the_reference_agrees_with_itself() {
    let mut found = Vec::new();
    block_on(check_kernels(
        &mut CpuOps::new(),
        FORMATS,
        false,
        &mut |check| found.push(check),
    ))
    .unwrap();
    assert_eq!(faulty(&found), Vec::<&str>::new());
}

#[test]
fn a_kernel_that_computes_wrongly_is_named() {
    for (overrides, expected) in [
        (
            altered(
                "lib/attention_combine.wgsl",
                "acc / sum",
                "acc / (sum + 1.0)",
            ),
            "attention",
        ),
        (altered("lib/glu_silu.wgsl", "80.0", "0.5"), "matmul_glu["),
        (
            altered("quant/q4_1.wgsl", "scale.x, ", "-scale.x, "),
            "[q4_1]",
        ),
    ] {
        let Some(checks) = checks(Tier::BASE, overrides) else {
            return;
        };
        let expected: Vec<&str> = checks
            .iter()
            .map(|check| check.kernel.as_str())
            .filter(|kernel| kernel.contains(expected))
            .collect();
        assert_eq!(faulty(&checks), expected);
        let wrong = |check: &&KernelCheck| matches!(check.fault, Some(KernelFault::Wrong { .. }));
        assert_eq!(checks.iter().filter(wrong).count(), expected.len());
    }
}

#[test]
fn a_kernel_that_does_not_compile_is_named_and_the_others_are_run() {
    let broken = altered("lib/glu_silu.wgsl", "return v /", "return undeclared /");
    let Some(checks) = checks(Tier::BASE, broken) else {
        return;
    };
    let reason = |check: &KernelCheck| match &check.fault {
        Some(KernelFault::Failed { reason }) => Some(reason.clone()),
        _ => None,
    };
    for check in &checks {
        // A pipeline that was made before is only said to be none.
        let gated = check.kernel.starts_with("matmul_glu[");
        let named = reason(check).is_some_and(|reason| reason.contains("matmul["));
        assert_eq!((named, check.fault.is_some()), (gated, gated), "{check:?}");
    }
    let by_line = |check: &&KernelCheck| {
        reason(check).is_some_and(|reason| reason.contains("shaders/lib/glu_silu.wgsl:4"))
    };
    assert!(checks.iter().filter(by_line).count() >= FORMATS.len());
}
