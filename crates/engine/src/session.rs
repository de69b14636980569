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
    /// Nothing: every request starts from the first token, a draft model too.
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
    /// How far a sequence may be cut back (`LanguageModel::rewind`).
    rewind: Option<usize>,
    /// From fewer positions than these nobody may go on: what they attend to was overwritten.
    least: usize,
}

impl Session {
    /// Nothing is held. `rewind` is the model's.
    pub(crate) fn new(rewind: Option<u32>) -> Self {
        Self {
            rewind: rewind.map(|positions| positions as usize),
            ..Self::default()
        }
    }

    /// How many positions of the cache a prompt may start from. At least its last token is left to run, for its logits.
    ///
    /// `Exact` takes whole passes of what prefill made: prefill ends its passes at multiples of
    /// [`MAX_PREFILL_ROWS`] positions, so what remains runs in the very passes of a fresh engine, and costs no pass more.
    pub(crate) fn reusable(&self, prompt: &[TokenId], reuse: PrefixReuse) -> usize {
        let pairs = self.tokens.iter().zip(prompt);
        let shared = pairs.take_while(|(held, wanted)| held == wanted).count();
        let most = shared.min(prompt.len().saturating_sub(1));
        let reused = match reuse {
            PrefixReuse::Off => 0,
            PrefixReuse::Full => most,
            PrefixReuse::Exact => whole_passes(most.min(self.by_prefill)),
        };
        if reused < self.least { 0 } else { reused }
    }

    /// Takes note of work that goes on from the first `from` positions.
    pub(crate) fn resume(&mut self, from: usize) {
        if from == 0 {
            self.least = 0;
        }
    }

    /// Whether prefill made the first `len` positions.
    pub(crate) fn is_by_prefill(&self, len: usize) -> bool {
        len <= self.by_prefill
    }

    /// Forgets everything: what the cache holds is nobody's to use.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            rewind: self.rewind,
            ..Self::default()
        };
    }

    /// Takes note of what a request left: `tokens` are in the cache, the first `by_prefill` of them made by prefill.
    ///
    /// Passes beyond them were submitted up to `written`, though nobody knows whether they ran: a prompt that was given up.
    pub(crate) fn hold(&mut self, tokens: &[TokenId], by_prefill: usize, written: usize) {
        self.tokens = tokens.to_vec();
        self.by_prefill = by_prefill.min(tokens.len());
        if let Some(rewind) = self.rewind {
            let written = written.max(tokens.len());
            self.least = self.least.max(written.saturating_sub(rewind));
        }
    }

    /// Whole passes of held tokens that decoding made and prefill could make again; `None` if there are none.
    pub(crate) fn to_prefill(&self, context: u32) -> Option<(Vec<TokenId>, usize)> {
        // Prefill refuses a prompt that fills the context.
        let most = self.tokens.len().min((context as usize).saturating_sub(1));
        let (from, to) = (whole_passes(self.by_prefill), whole_passes(most));
        let again = if from < self.least { 0 } else { from };
        (from < to).then(|| (self.tokens[..to].to_vec(), again))
    }

    /// Prefill made the positions from `from` up to `by_prefill` anew. What was held is there still, unless a ring was filled from its
    /// start.
    pub(crate) fn prefilled(&mut self, from: usize, by_prefill: usize, written: usize) {
        let by_prefill = by_prefill.min(self.tokens.len());
        if from == 0 && self.rewind.is_some() {
            self.resume(0);
            let tokens = std::mem::take(&mut self.tokens);
            self.hold(&tokens[..by_prefill], by_prefill, written);
        }
        self.by_prefill = self.by_prefill.max(by_prefill);
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
        session.hold(&tokens, 70, 100);
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
        session.prefilled(64, 96, 96);
        assert_eq!(session.to_prefill(4096), None);
        assert_eq!(session.reusable(&tokens, PrefixReuse::Exact), 96);
        session.forget();
        assert_eq!(session.reusable(&tokens, PrefixReuse::Full), 0);
    }

    #[test]
    fn what_was_overwritten_is_not_gone_on_from() {
        let tokens: Vec<TokenId> = (0..1000).collect();
        let mut session = Session::new(Some(100));
        session.resume(0);
        session.hold(&tokens[..90], 90, 90);
        // Shorter than what may be cut off: any prefix will do.
        assert_eq!(session.reusable(&tokens[..40], PrefixReuse::Exact), 32);
        session.resume(32);
        session.hold(&tokens[..500], 128, 500);
        assert_eq!(session.reusable(&tokens[..600], PrefixReuse::Full), 500);
        assert_eq!(session.reusable(&tokens[..401], PrefixReuse::Full), 400);
        assert_eq!(session.reusable(&tokens[..400], PrefixReuse::Full), 0);
        assert_eq!(session.reusable(&tokens[..600], PrefixReuse::Exact), 0);
        assert_eq!(session.to_prefill(4096), Some((tokens[..480].to_vec(), 0)));
        session.prefilled(0, 480, 480);
        assert_eq!(session.to_prefill(4096), None);
        assert_eq!(session.reusable(&tokens[..600], PrefixReuse::Exact), 480);
        assert_eq!(session.reusable(&tokens[..380], PrefixReuse::Exact), 0);
        // Cut back and ended early: what the longer one wrote is still in the way.
        session.resume(450);
        session.hold(&tokens[..460], 128, 460);
        assert_eq!(session.reusable(&tokens[..371], PrefixReuse::Full), 0);
        // From the start everything is written anew.
        session.resume(0);
        session.hold(&tokens[..460], 460, 460);
        assert_eq!(session.reusable(&tokens[..390], PrefixReuse::Exact), 384);
        // A prompt was given up when passes up to position 640 were on their way.
        session.resume(384);
        session.hold(&tokens[..480], 480, 640);
        assert_eq!(session.reusable(&tokens[..600], PrefixReuse::Exact), 0);
        session.resume(0);
        session.hold(&tokens[..480], 480, 580);
        assert_eq!(session.reusable(&tokens[..600], PrefixReuse::Exact), 480);
    }
}
