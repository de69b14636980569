//! Statistics that were not asked for cost nothing: allocations are counted.

// An allocator cannot be written without it.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{counting, endless, sequence};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, DecodeLoop, DecodeOptions, StatisticsLevel,
};
use pollster::block_on;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; the count is a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATIONS.get();
    let result = work();
    (ALLOCATIONS.get() - before, result)
}

/// One answer at a level: its allocations and the steps it took, as (drafted, accepted).
fn answer(level: StatisticsLevel) -> (u64, Vec<(usize, usize)>) {
    let (mut ops, model) = counting(64, 128).rig();
    let puppet = Puppet::new(
        Strategy::Alternating,
        (5..200).map(|t| t % 64).collect(),
        64,
    );
    let options = DecodeOptions {
        drafter: Some(Box::new(puppet)),
        num_speculative_tokens: 5,
        statistics: level,
        ..DecodeOptions::plain(endless(128))
    };
    let prompt = sequence(0, &[5, 6, 7]);
    let mut steps = Vec::with_capacity(200);
    let (count, _) = allocations(|| {
        let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
        block_on(decode.step(&mut ops, &model)).unwrap();
        while decode.finish().is_none() {
            block_on(decode.step(&mut ops, &model)).unwrap();
            let step = decode.take_counters();
            steps.push((
                step.num_draft_tokens as usize,
                step.num_accepted_tokens as usize,
            ));
        }
        decode
    });
    (count, steps)
}

#[test]
fn level_none_allocates_nothing_that_the_statistics_alone_would() {
    answer(StatisticsLevel::Detailed);
    let (none, steps) = answer(StatisticsLevel::None);
    assert!(steps.len() > 20);
    for level in [StatisticsLevel::Summary, StatisticsLevel::Detailed] {
        let (with, same_steps) = answer(level);
        assert_eq!(same_steps, steps);
        let (alone, _) = allocations(|| {
            let mut statistics = Box::new(AcceptanceStatistics::new(level, 5).unwrap());
            for (drafted, accepted) in &steps {
                statistics.record_step(*drafted, *accepted);
                statistics.record_pass(drafted + 1);
            }
            statistics
        });
        assert!(alone > 2);
        assert_eq!(with - none, alone, "{level:?}");
    }
}
