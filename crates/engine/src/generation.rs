//! One answer in the making: blocks of tokens in, chunks of text out.

use std::marker::PhantomData;

use foretoken_core::{Clock, Ops, TokenId};
use foretoken_decode::DecodeLoop;

use crate::Error;
use crate::engine::Engine;
use crate::response::{Answer, FinishReason, Header, Piece, Shape, Usage};
use crate::text_stream::TextStream;

/// When things happened, in milliseconds from the start of work on the request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// The first token was committed.
    pub first_token_ms: Option<f64>,
    /// The latest token was committed.
    pub last_token_ms: Option<f64>,
}

/// Which chunk of a stream comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Body,
    Usage,
    End,
}

/// A request at work. It borrows the engine, so nothing else runs meanwhile; dropping it at any
/// point leaves the engine ready for the next request.
///
/// Take either all of [`Generation::next_chunk`], or [`Generation::response`].
pub struct Generation<'e, O: Ops, S: Shape> {
    engine: &'e mut Engine<O>,
    decode: DecodeLoop,
    text: TextStream,
    header: Header,
    prompt_tokens: usize,
    include_usage: bool,
    return_token_ids: bool,
    prompt_ids_sent: bool,
    /// All text given out so far.
    whole: String,
    finish: Option<FinishReason>,
    stage: Stage,
    clock: Clock,
    timing: Timing,
    shape: PhantomData<S>,
}

/// What a generation starts from.
pub(crate) struct Start {
    pub(crate) decode: DecodeLoop,
    pub(crate) text: TextStream,
    pub(crate) header: Header,
    pub(crate) include_usage: bool,
    pub(crate) return_token_ids: bool,
    pub(crate) clock: Clock,
}

impl<'e, O: Ops, S: Shape> Generation<'e, O, S> {
    pub(crate) fn new(engine: &'e mut Engine<O>, start: Start) -> Self {
        let prompt_tokens = start.decode.sequence().tokens().len();
        Self {
            engine,
            decode: start.decode,
            text: start.text,
            header: start.header,
            prompt_tokens,
            include_usage: start.include_usage,
            return_token_ids: start.return_token_ids,
            prompt_ids_sent: false,
            whole: String::new(),
            finish: None,
            stage: Stage::Opening,
            clock: start.clock,
            timing: Timing::default(),
            shape: PhantomData,
        }
    }

    /// The next chunk of the stream; `None` after the last. A chunk without text comes only where it
    /// says something else: the role, token ids, the end, the usage.
    ///
    /// # Errors
    /// What ended the generation; what was given out before stays true.
    pub async fn next_chunk(&mut self) -> Result<Option<S::Chunk>, Error> {
        if self.stage == Stage::Opening {
            self.stage = Stage::Body;
            if S::HAS_OPENING {
                let prompt = self.take_prompt_ids();
                return Ok(Some(S::opening(self.header(1), prompt)));
            }
        }
        if self.stage == Stage::Body {
            loop {
                let piece = self.next_piece().await?;
                let ended = piece.finish.is_some();
                if ended {
                    self.stage = if self.include_usage {
                        Stage::Usage
                    } else {
                        Stage::End
                    };
                }
                if ended || self.return_token_ids || !piece.text.is_empty() {
                    let prompt = self.take_prompt_ids();
                    return Ok(Some(S::chunk(
                        self.header(1),
                        piece,
                        self.return_token_ids,
                        prompt,
                    )));
                }
            }
        }
        if self.stage == Stage::Usage {
            self.stage = Stage::End;
            return Ok(Some(S::usage(self.header(1), self.usage())));
        }
        Ok(None)
    }

    /// Runs to the end and returns the whole answer.
    ///
    /// # Errors
    /// What ended the generation. After [`foretoken_decode::DecodeError::Aborted`],
    /// [`Generation::so_far`] has what there was.
    pub async fn response(&mut self) -> Result<S::Response, Error> {
        while self.finish.is_none() {
            self.next_piece().await?;
        }
        Ok(self.so_far())
    }

    /// The answer as far as it has come; its finish reason is `abort` if it has not ended.
    pub fn so_far(&self) -> S::Response {
        let answer = Answer {
            text: self.whole.clone(),
            finish: self.finish.unwrap_or(FinishReason::Abort),
            usage: self.usage(),
            token_ids: self
                .prompt_ids()
                .map(|prompt| (self.decode.generated().to_vec(), prompt)),
        };
        S::response(self.header(0), answer)
    }

    /// All text given out so far.
    pub fn text(&self) -> &str {
        &self.whole
    }

    /// Tokens read and written so far.
    pub fn usage(&self) -> Usage {
        let completion_tokens = self.decode.generated().len();
        Usage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens,
            total_tokens: self.prompt_tokens + completion_tokens,
        }
    }

    /// When the first and the latest token came.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The ops underneath: for their counters.
    pub fn ops(&self) -> &O {
        self.engine.ops()
    }

    /// Runs one step of the loop and turns its block into text. After the end of the answer: an
    /// empty piece with the same reason.
    ///
    /// # Errors
    /// What ended the generation.
    pub async fn next_piece(&mut self) -> Result<Piece, Error> {
        if self.finish.is_some() {
            return Ok(Piece {
                finish: self.finish,
                ..Piece::default()
            });
        }
        let before = self.decode.generated().len();
        let block = self.engine.step(&mut self.decode).await?;
        if !block.tokens.is_empty() {
            let now = self.clock.elapsed_ms();
            self.timing.first_token_ms.get_or_insert(now);
            self.timing.last_token_ms = Some(now);
        }

        let mut piece = Piece {
            text: String::new(),
            token_ids: block.tokens,
            finish: None,
        };
        // The token the model ended with, or was to be stopped at, is no text.
        let ended_by_token = block.finish == Some(foretoken_decode::FinishReason::Stop);
        let with_text =
            piece.token_ids.len() - usize::from(ended_by_token && !piece.token_ids.is_empty());
        let mut matched = None;
        for (i, &token) in piece.token_ids[..with_text].iter().enumerate() {
            if self.text.push(token, &mut piece.text) {
                matched = Some(i + 1);
                break;
            }
        }
        if let Some(kept) = matched {
            piece.token_ids.truncate(kept);
            self.decode.stop_after(before + kept);
            piece.finish = Some(FinishReason::Stop);
        } else if let Some(finish) = block.finish {
            let stopped = self.text.finish(&mut piece.text);
            piece.finish = Some(if stopped {
                FinishReason::Stop
            } else {
                finish.into()
            });
        }
        self.whole.push_str(&piece.text);
        self.finish = piece.finish;
        Ok(piece)
    }

    fn prompt_ids(&self) -> Option<Vec<TokenId>> {
        self.return_token_ids
            .then(|| self.decode.sequence().tokens()[..self.prompt_tokens].to_vec())
    }

    /// The prompt's ids, for the first chunk of a stream that asked for ids.
    fn take_prompt_ids(&mut self) -> Option<Vec<TokenId>> {
        if std::mem::replace(&mut self.prompt_ids_sent, true) {
            None
        } else {
            self.prompt_ids()
        }
    }

    fn header(&self, object: usize) -> Header {
        Header {
            object: S::OBJECTS[object],
            ..self.header.clone()
        }
    }
}
