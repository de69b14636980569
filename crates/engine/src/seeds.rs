//! Seeds for requests that bring none.

use std::cell::Cell;

use foretoken_core::since_unix_epoch;

/// Draws seeds from the time of loading and a counter: no random source is needed, and none is missed, for a seed need
/// not be secret, only another one every time.
#[derive(Debug)]
pub(crate) struct Seeds {
    state: Cell<u64>,
}

impl Seeds {
    pub(crate) fn new() -> Self {
        let origin = since_unix_epoch().as_nanos() as u64;
        Self {
            state: Cell::new(origin),
        }
    }

    /// The next seed: below 2^53, so that every JSON reader keeps it exactly and it can be passed back.
    pub(crate) fn draw(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_fit_in_53_bits() {
        let seeds = Seeds::new();
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| seeds.draw()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().all(|seed| *seed < 1 << 53));
        assert!(
            drawn.iter().any(|seed| *seed > 1 << 50),
            "they are spread over the range"
        );
    }
}
