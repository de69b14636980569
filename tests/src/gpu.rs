//! GPUs: the adapter of the machine, or a skip said aloud.

#[cfg(not(target_arch = "wasm32"))]
use foretoken_gpu::Tier;
use foretoken_gpu::{GpuOps, GpuOptions, adapters};

/// `1` makes a missing adapter a failure; the continuous build sets it.
const REQUIRE_GPU: &str = "FORETOKEN_REQUIRE_GPU";

/// Opens the fastest adapter on a tier; `None`, said aloud, where there is no adapter or it lacks the tier.
#[cfg(not(target_arch = "wasm32"))]
pub fn open(tier: Tier) -> Option<GpuOps> {
    open_with(GpuOptions {
        tier: Some(tier),
        ..GpuOptions::default()
    })
}

/// The same with every option; `tier` must be given.
#[cfg(not(target_arch = "wasm32"))]
pub fn open_with(options: GpuOptions) -> Option<GpuOps> {
    pollster::block_on(opened(options))
}

/// The same where nothing may block.
pub async fn opened(options: GpuOptions) -> Option<GpuOps> {
    let tier = options.tier.expect("a test names its tier");
    let found = adapters().await;
    let Some(adapter) = found.first() else {
        let required = std::env::var_os(REQUIRE_GPU).is_some_and(|value| value == "1");
        assert!(!required, "{REQUIRE_GPU}=1 and there is no GPU adapter");
        crate::skip("no GPU adapter; `cargo xtask setup` installs a software one");
        return None;
    };
    if !adapter.tier.includes(tier) {
        crate::skip(&format!("{} has no tier {tier}", adapter.name));
        return None;
    }
    let opened = GpuOps::new(options).await;
    Some(opened.expect("an adapter that was found opens"))
}

/// Asserts that no more bytes are lent than were before; a skip said aloud where the allocator does not tell.
///
/// # Panics
/// If there are more.
pub fn assert_given_back(ops: &GpuOps, before: Option<u64>) {
    if let (Some(before), Some(after)) = (before, ops.allocated_bytes()) {
        assert!(
            after <= before,
            "{before} bytes were allocated before, {after} after"
        );
    } else {
        crate::skip("the driver's allocator does not tell what it lends");
    }
}
