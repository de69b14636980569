//! Sharing a loop out between threads, without any effect on its results.

use std::ops::Range;

/// Calls `work` on consecutive ranges that cover `0..total`, at most `threads` of them, and returns what
/// each gave, in order. `work` must not care where the ranges are cut.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn map_ranges<T: Send>(
    total: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<(Range<usize>, T)> {
    if threads <= 1 || total <= 1 {
        return vec![(0..total, work(0..total))];
    }
    let share = total.div_ceil(threads);
    let ranges = (0..total)
        .step_by(share)
        .map(|start| start..(start + share).min(total));
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = ranges
            .map(|range| (range.clone(), scope.spawn(move || work(range))))
            .collect();
        running
            .into_iter()
            .map(|(range, thread)| match thread.join() {
                Ok(result) => (range, result),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

/// A browser's worker has no threads of its own.
#[cfg(target_arch = "wasm32")]
pub(crate) fn map_ranges<T>(
    total: usize,
    _threads: usize,
    work: impl Fn(Range<usize>) -> T,
) -> Vec<(Range<usize>, T)> {
    vec![(0..total, work(0..total))]
}

/// Threads the machine offers.
pub(crate) fn available_threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return std::thread::available_parallelism().map_or(1, usize::from);
    #[cfg(target_arch = "wasm32")]
    return 1;
}

#[cfg(test)]
mod tests {
    use super::map_ranges;

    #[test]
    fn ranges_cover_everything_once_and_in_order() {
        for total in [0, 1, 2, 7, 64] {
            for threads in [1, 2, 3, 8, 100] {
                let parts = map_ranges(total, threads, |range| range.collect::<Vec<_>>());
                let seen: Vec<usize> = parts.into_iter().flat_map(|(_, indexes)| indexes).collect();
                assert_eq!(
                    seen,
                    (0..total).collect::<Vec<_>>(),
                    "{total} over {threads} threads"
                );
            }
        }
    }
}
