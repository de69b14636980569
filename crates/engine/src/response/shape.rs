//! The two families of answers, chat and text, behind one loop.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{Header, Metrics, Piece, Usage};

/// What a request wants beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    pub(crate) token_ids: bool,
    pub(crate) provenance: bool,
    pub(crate) logprobs: bool,
}

impl Wants {
    /// Text alone.
    pub(crate) const NOTHING: Self = Self {
        token_ids: false,
        provenance: false,
        logprobs: false,
    };

    /// Whether something is said of every token, so that each needs its place in a chunk.
    pub(crate) fn every_token(self) -> bool {
        self.token_ids || self.provenance || self.logprobs
    }
}

/// A whole answer, before it takes a shape.
#[derive(Debug)]
pub struct Answer {
    /// One a choice. What has no reason for its end was aborted.
    pub(crate) choices: Vec<Piece>,
    pub(crate) wants: Wants,
    pub(crate) usage: Usage,
    pub(crate) metrics: Option<Metrics>,
    /// The prompt's tokens, where they were asked for.
    pub(crate) prompt_token_ids: Option<Vec<TokenId>>,
}

/// How answers of one endpoint look.
pub trait Shape {
    /// The whole answer.
    type Response: Serialize;
    /// A part of a streamed answer.
    type Chunk: Serialize;
    /// What ids start with.
    const ID_PREFIX: &'static str;
    /// `object` of a response and of a chunk.
    const OBJECTS: [&'static str; 2];

    /// Whether each choice of a stream starts with a chunk before any text.
    const HAS_OPENING: bool;

    /// That chunk, for choice `index`. `prompt_token_ids` if they were asked for, in the first.
    fn opening(header: Header, index: u32, prompt_token_ids: Option<Vec<TokenId>>) -> Self::Chunk;

    /// A chunk with text. `prompt_token_ids` on the first of a stream without an opening.
    fn chunk(
        header: Header,
        piece: Piece,
        wants: Wants,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> Self::Chunk;

    /// The last chunk of a stream that was asked for its usage.
    fn usage(header: Header, usage: Usage, metrics: Option<Metrics>) -> Self::Chunk;

    /// The whole.
    fn response(header: Header, answer: Answer) -> Self::Response;
}
