//! A stream of server-sent events.

use foretoken_core::Ops;
use serde::Serialize;

use super::to_json;
use crate::response::{Chat, Shape, Text};
use crate::{Error, Generation};

/// The chunks of a streamed completion. Dropping it cancels the request; nothing is generated while nobody asks.
#[derive(Debug)]
pub enum Events<O: Ops> {
    /// Of a chat completion, until it has ended.
    Chat(Option<Generation<O, Chat>>),
    /// Of a text completion, until it has ended.
    Text(Option<Generation<O, Text>>),
}

impl<O: Ops> Events<O> {
    /// The next event as it goes over the wire, its empty line included: a chunk; an error object, after which nothing comes;
    /// or `[DONE]`. `None` after the last, and at once after an abort.
    pub async fn next(&mut self) -> Option<String> {
        match self {
            Events::Chat(generation) => next(generation).await,
            Events::Text(generation) => next(generation).await,
        }
    }
}

async fn next<O: Ops, S: Shape>(place: &mut Option<Generation<O, S>>) -> Option<String> {
    let generation = place.as_mut()?;
    match generation.next_chunk().await {
        Ok(Some(chunk)) => Some(event(&chunk)),
        Ok(None) => {
            *place = None;
            Some("data: [DONE]\n\n".to_owned())
        }
        Err(error) => {
            *place = None;
            failure(&error)
        }
    }
}

fn failure(error: &Error) -> Option<String> {
    (!error.is_abort()).then(|| event(&error.to_object()))
}

/// JSON has no line ends outside of strings and escapes them in, so an event is one line.
fn event(value: &impl Serialize) -> String {
    format!("data: {}\n\n", to_json(value))
}
