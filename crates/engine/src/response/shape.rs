//! The two families of answers, chat and text, behind one loop.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{FinishReason, Header, Piece, Usage};

/// A whole answer, before it takes a shape.
#[derive(Debug)]
pub struct Answer {
    pub(crate) text: String,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Usage,
    /// The answer's and the prompt's tokens, where they were asked for.
    pub(crate) token_ids: Option<(Vec<TokenId>, Vec<TokenId>)>,
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

    /// Whether a stream starts with a chunk before any text.
    const HAS_OPENING: bool;

    /// That chunk. `prompt_token_ids` if they were asked for.
    fn opening(header: Header, prompt_token_ids: Option<Vec<TokenId>>) -> Self::Chunk;

    /// A chunk with text. `prompt_token_ids` on the first of a stream without an opening.
    fn chunk(
        header: Header,
        piece: Piece,
        with_ids: bool,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> Self::Chunk;

    /// The last chunk of a stream that was asked for its usage.
    fn usage(header: Header, usage: Usage) -> Self::Chunk;

    /// The whole.
    fn response(header: Header, answer: Answer) -> Self::Response;
}
