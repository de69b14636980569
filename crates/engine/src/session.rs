//! What the KV cache holds between requests, and how much of it the next one may use.

use foretoken_core::{MAX_PREFILL_ROWS, TokenId};

/// How much of the KV cache a request may take over from the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrefixReuse {
    /// What prefill made, in whole passes: every answer equals a fresh engine's bit for bit.
    #[default]
    Exact,
    /// What decoding made, too: the fastest, but decoding rounds otherwise than prefill, so an answer may differ from a
    /// fresh engine's.
    Full,
    /// Nothing: every request starts from the first token.
    Off,
}

impl PrefixReuse {
    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "exact" => Some(Self::Exact),
            "full" => Some(Self::Full),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// The tokens whose keys and values are in the cache.
#[derive(Debug, Default)]
pub(crate) struct Session {
    tokens: Vec<TokenId>,
    /// So many of them were made by prefill.
    by_prefill: usize,
}

impl Session {
    /// How many positions of the cache a prompt may start from. At least its last token is left to run, for its logits.
    ///
    /// `Exact` takes whole passes of what prefill made: prefill ends its passes at multiples of
    /// [`MAX_PREFILL_ROWS`] positions, so what remains runs in the very passes of a fresh engine, and costs no pass more.
    pub(crate) fn reusable(&self, prompt: &[TokenId], reuse: PrefixReuse) -> usize {
        let pairs = self.tokens.iter().zip(prompt);
        let shared = pairs.take_while(|(held, wanted)| held == wanted).count();
        let most = shared.min(prompt.len().saturating_sub(1));
        match reuse {
            PrefixReuse::Off => 0,
            PrefixReuse::Full => most,
            PrefixReuse::Exact => whole_passes(most.min(self.by_prefill)),
        }
    }

    /// Whether prefill made the first `len` positions.
    pub(crate) fn is_by_prefill(&self, len: usize) -> bool {
        len <= self.by_prefill
    }

    /// Forgets everything: what the cache holds is nobody's to use.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes note of what a request left: `tokens` are in the cache, the first `by_prefill` of them made by prefill.
    pub(crate) fn hold(&mut self, tokens: &[TokenId], by_prefill: usize) {
        self.tokens = tokens.to_vec();
        self.by_prefill = by_prefill.min(tokens.len());
    }

    /// Whole passes of held tokens that decoding made and prefill could make again; `None` if there are none.
    pub(crate) fn to_prefill(&self, context: u32) -> Option<(Vec<TokenId>, usize)> {
        // Prefill refuses a prompt that fills the context.
        let most = self.tokens.len().min((context as usize).saturating_sub(1));
        let (from, to) = (whole_passes(self.by_prefill), whole_passes(most));
        (from < to).then(|| (self.tokens[..to].to_vec(), from))
    }

    /// What was held is there still, and prefill made its first `by_prefill` positions.
    pub(crate) fn prefilled(&mut self, by_prefill: usize) {
        self.by_prefill = self.by_prefill.max(by_prefill.min(self.tokens.len()));
    }
}

/// The part of `positions` that makes whole prefill passes.
fn whole_passes(positions: usize) -> usize {
    positions / MAX_PREFILL_ROWS * MAX_PREFILL_ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_takes_whole_passes_of_what_prefill_made() {
        let tokens: Vec<TokenId> = (0..100).collect();
        let mut session = Session::default();
        session.hold(&tokens, 70);
        for (prompt, exact, full) in [
            (&tokens[..], 64, 99),
            (&tokens[..65], 64, 64),
            (&tokens[..64], 32, 63),
            (&tokens[..33], 32, 32),
            (&tokens[..32], 0, 31),
            (&[7][..], 0, 0),
        ] {
            assert_eq!(session.reusable(prompt, PrefixReuse::Exact), exact);
            assert_eq!(session.reusable(prompt, PrefixReuse::Full), full);
            assert_eq!(session.reusable(prompt, PrefixReuse::Off), 0);
        }
        let mut changed = tokens.clone();
        changed[40] = 7;
        assert_eq!(session.reusable(&changed, PrefixReuse::Exact), 32);
        assert_eq!(session.reusable(&changed, PrefixReuse::Full), 40);

        assert_eq!(session.to_prefill(4096), Some((tokens[..96].to_vec(), 64)));
        assert_eq!(session.to_prefill(97), Some((tokens[..96].to_vec(), 64)));
        assert_eq!(session.to_prefill(96), None);
        session.prefilled(96);
        assert_eq!(session.to_prefill(4096), None);
        assert_eq!(session.reusable(&tokens, PrefixReuse::Exact), 96);
        session.forget();
        assert_eq!(session.reusable(&tokens, PrefixReuse::Full), 0);
    }
}
