//! An allocator that counts, thread by thread, so that tests can run beside one another.
#![allow(
    unsafe_code,
    reason = "counting allocations takes an allocator of our own"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator. `realloc` is the trait's own: allocate, copy, free,
// so that growing a vector counts the old and the new memory at once, as the worst allocator would.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get() + layout.size() as isize;
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work`; its result, and the most bytes this thread held during it beyond what it held before.
pub fn peak_during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before).max(0) as u64)
}

#[test]
fn the_allocator_counts() {
    let (bytes, peak) = peak_during(|| vec![0_u8; 100_000]);
    assert!((100_000..101_000).contains(&peak), "{peak}");
    let ((), peak) = peak_during(|| {
        let mut grown = bytes;
        grown.reserve_exact(100_000);
        std::hint::black_box(grown);
    });
    assert!(
        (200_000..201_000).contains(&peak),
        "old and new at once: {peak}"
    );
}
