//! OpenAI's endpoints as values: a [`Request`] in, a [`Reply`] out, whole or as server-sent events.
//!
//! Nothing here knows a socket. A page's `fetch` and an HTTP server are both a few lines around [`Routes::handle`], so they
//! answer alike.
//!
//! | path | method | reply |
//! | --- | --- | --- |
//! | `/v1/chat/completions` | POST | a chat completion, or its chunks as events |
//! | `/v1/completions` | POST | a text completion, or its chunks as events |
//! | `/v1/models` | GET | the list of the one model |
//! | `/v1/models/{id}` | GET | that model |
//! | `/metrics` | GET | totals in Prometheus' text format |

mod events;
mod status;

use std::borrow::Cow;

use foretoken_core::{Ops, since_unix_epoch};
use foretoken_decode::AbortSignal;
use serde::Serialize;
use serde_json::{Value, json};

pub use events::Events;
pub use status::status;

use crate::response::Shape;
use crate::{
    ChatCompletionRequest, CompletionRequest, Engine, Error, ErrorBody, ErrorObject, Generation,
    parse_body,
};

/// `content-type` of what is JSON.
pub const JSON: &str = "application/json";
/// `content-type` of what is streamed.
pub const EVENT_STREAM: &str = "text/event-stream";
/// `content-type` of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What was asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// In capitals.
    pub method: &'a str,
    /// From the first slash on, without query. A model's name in it may be percent-encoded.
    pub path: &'a str,
    /// Empty where there is none.
    pub body: &'a [u8],
}

/// What is answered.
#[derive(Debug)]
pub struct Reply<O: Ops> {
    /// The HTTP status.
    pub status: u16,
    /// The value of `content-type`.
    pub content_type: &'static str,
    /// For 405: the value of `allow`.
    pub allow: Option<&'static str>,
    /// The rest.
    pub body: Body<O>,
}

/// The body of a [`Reply`].
#[derive(Debug)]
pub enum Body<O: Ops> {
    /// All of it.
    Whole(String),
    /// As it is made.
    Events(Box<Events<O>>),
}

/// The endpoints of one engine.
#[derive(Debug)]
pub struct Routes<O: Ops> {
    engine: Engine<O>,
    /// When the model was loaded, in seconds since 1970.
    created: u64,
}

impl<O: Ops> Routes<O> {
    /// Of an engine that has just been loaded.
    pub fn new(engine: Engine<O>) -> Self {
        Self {
            engine,
            created: since_unix_epoch().as_secs(),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine<O> {
        &self.engine
    }

    /// Answers a request. A completion that is not streamed is waited for; `abort` ends it, or the stream, before its next
    /// pass. Every failure is a reply with OpenAI's error object.
    pub async fn handle(&self, request: Request<'_>, abort: AbortSignal) -> Reply<O> {
        let allow = match request.path {
            "/v1/chat/completions" | "/v1/completions" => "POST",
            "/v1/models" | "/metrics" => "GET",
            path if path.starts_with("/v1/models/") => "GET",
            path => return no_such_path(path),
        };
        if request.method != allow {
            return wrong_method(request, allow);
        }
        let reply = match request.path {
            "/v1/chat/completions" => self.chat(request.body, abort).await,
            "/v1/completions" => self.complete(request.body, abort).await,
            "/v1/models" => {
                let list = json!({ "object": "list", "data": [self.model()] });
                Ok(Reply::json(200, &list))
            }
            "/metrics" => Ok(self.prometheus()),
            path => self.model_of(path.strip_prefix("/v1/models/").unwrap_or(path)),
        };
        reply.unwrap_or_else(|error| Reply::json(status(&error), &error.to_object()))
    }

    async fn chat(&self, body: &[u8], abort: AbortSignal) -> Result<Reply<O>, Error> {
        let request = ChatCompletionRequest::parse(&parse_body(body)?, &self.engine.limits())?;
        let generation = self.engine.chat(&request, abort)?;
        deliver(generation, request.stream(), Events::Chat).await
    }

    async fn complete(&self, body: &[u8], abort: AbortSignal) -> Result<Reply<O>, Error> {
        let request = CompletionRequest::parse(&parse_body(body)?, &self.engine.limits())?;
        let generation = self.engine.complete(&request, abort)?;
        deliver(generation, request.stream(), Events::Text).await
    }

    /// The model, as OpenAI lists one, with vLLM's `max_model_len`, and whether it drafts where it was told to.
    fn model(&self) -> Value {
        let mut model = json!({
            "id": self.engine.model_name(),
            "object": "model",
            "created": self.created,
            "owned_by": "foretoken",
            "max_model_len": self.engine.limits().context,
        });
        let speculation = self.engine.speculation();
        if speculation.method.is_some() {
            model["speculation"] = json!(speculation);
        }
        model
    }

    fn model_of(&self, id: &str) -> Result<Reply<O>, Error> {
        let id = decoded(id);
        if id != self.engine.model_name() {
            return Err(Error::ModelNotServed {
                requested: id.chars().take(128).collect(),
                served: self.engine.model_name().to_owned(),
            });
        }
        Ok(Reply::json(200, &self.model()))
    }

    fn prometheus(&self) -> Reply<O> {
        let text = self.engine.metrics().prometheus(self.engine.model_name());
        Reply {
            content_type: PROMETHEUS,
            ..Reply::whole(200, text)
        }
    }
}

impl<O: Ops> Reply<O> {
    fn whole(status: u16, body: String) -> Self {
        Self {
            status,
            content_type: JSON,
            allow: None,
            body: Body::Whole(body),
        }
    }

    fn json(status: u16, body: &impl Serialize) -> Self {
        Self::whole(status, to_json(body))
    }
}

/// The whole answer, or the stream of it.
async fn deliver<O: Ops, S: Shape>(
    mut generation: Generation<O, S>,
    stream: bool,
    events: fn(Option<Generation<O, S>>) -> Events<O>,
) -> Result<Reply<O>, Error> {
    if !stream {
        return Ok(Reply::json(200, &generation.response().await?));
    }
    Ok(Reply {
        status: 200,
        content_type: EVENT_STREAM,
        allow: None,
        body: Body::Events(Box::new(events(Some(generation)))),
    })
}

/// A part of a path without its percent-encoding; as it is where that is none, or gives no text.
fn decoded(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Cow::Borrowed(part);
        };
        // Two hexadecimal digits are a byte.
        bytes.push((16 * high + low) as u8);
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(part), Cow::Owned)
}

/// Our own types hold nothing that JSON has no form for.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a response is JSON")
}

fn no_such_path<O: Ops>(path: &str) -> Reply<O> {
    let path: String = path.chars().take(128).collect();
    let message = format!(
        "there is no {path:?} here: use /v1/chat/completions, /v1/completions, /v1/models or /metrics"
    );
    Reply::json(404, &request_fault(message))
}

fn wrong_method<O: Ops>(request: Request<'_>, allow: &'static str) -> Reply<O> {
    let method: String = request.method.chars().take(16).collect();
    let message = format!("{} takes {allow}, not {method:?}", request.path);
    Reply {
        allow: Some(allow),
        ..Reply::json(405, &request_fault(message))
    }
}

fn request_fault(message: String) -> ErrorObject {
    ErrorObject {
        error: ErrorBody {
            message,
            r#type: "invalid_request_error",
            code: "invalid_request",
            param: None,
        },
    }
}

#[cfg(test)]
mod tests;
