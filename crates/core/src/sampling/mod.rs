//! The definition of choosing a token: what every implementation of [`crate::Ops::choose`] computes.
//!
//! Logits are processed in a fixed order (`process`), narrowed to what min-p, top-k and top-p leave (`narrow`), and the
//! token is the **argmax of processed logit + Gumbel noise** (`noise`). The noise is a hash of seed, choice,
//! position and token, so the token at a position depends on nothing else: not on how many rows were verified, nor
//! on who drafted. That is coupled sampling; at temperature 0 the noise is dropped and it is greedy decoding.

mod accept;
mod chooser;
mod logprobs;
mod narrow;
mod noise;
mod params;
mod process;

pub use accept::{accepted_drafts, choose_rows};
pub use chooser::Chooser;
pub use logprobs::{MAX_TOP_LOGPROBS, TokenLogprobs, token_logprobs};
pub use noise::{NoiseKey, gumbel};
pub use params::Sampling;
pub use process::MASKED;
