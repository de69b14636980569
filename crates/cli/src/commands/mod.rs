//! One file a command.

mod bench;
mod chat;
mod complete;
mod devices;
mod inspect;
mod speculative;

use std::io::{IsTerminal, Read};
use std::path::Path;

use foretoken_engine::{MAX_BODY_BYTES, RequestLimits};
use serde_json::{Value, json};

use crate::args::{Command, GenerateArgs};
use crate::failure::{Status, invalid};

/// Runs a command.
pub async fn run(command: Command) -> anyhow::Result<Status> {
    match command {
        Command::Chat(args) => chat::run(args).await,
        Command::Complete(args) => complete::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Inspect(args) => inspect::run(args).await,
        Command::Devices(args) => devices::run(args).await,
    }
}

/// Limits that refuse nothing for the model's sake: with them a request is checked before a model is
/// loaded for it.
pub const ANY_MODEL: RequestLimits = RequestLimits {
    context: u32::MAX,
    vocab: u32::MAX,
    speculation: None,
};

/// The request's body, without what differs between chat and completion.
fn body(args: &GenerateArgs) -> Value {
    let mut body = json!({
        "stream": args.stream,
        "return_token_ids": args.return_token_ids,
        "return_token_provenance": args.show_drafts.is_some(),
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    set("max_tokens", args.max_tokens.map(Value::from));
    set("temperature", args.temperature.map(Value::from));
    set("top_k", args.top_k.map(Value::from));
    set("top_p", args.top_p.map(Value::from));
    set("min_p", args.min_p.map(Value::from));
    set("seed", args.seed.clone().map(Value::Number));
    set("presence_penalty", args.presence_penalty.map(Value::from));
    set("frequency_penalty", args.frequency_penalty.map(Value::from));
    set(
        "repetition_penalty",
        args.repetition_penalty.map(Value::from),
    );
    set("logit_bias", args.logit_bias.clone().map(Value::Object));
    set("n", args.n.map(Value::from));
    if !args.stop.is_empty() {
        set("stop", Some(args.stop.clone().into()));
    }
    body
}

/// A file's bytes, if they are no more than a request may have.
fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path)
        .map_err(|error| invalid(format!("{}: {error}", path.display())))?;
    read_limited(file, &path.display().to_string())
}

/// What is piped in, or `None` if stdin is a terminal.
fn read_stdin() -> anyhow::Result<Option<String>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    Ok(Some(utf8(read_limited(stdin.lock(), "stdin")?, "stdin")?))
}

fn read_limited(from: impl Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BODY_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| invalid(format!("{name}: {error}")))?;
    if bytes.len() > MAX_BODY_BYTES {
        return Err(invalid(format!(
            "{name} has more than {MAX_BODY_BYTES} bytes: shorten it"
        )));
    }
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>, name: &str) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        invalid(format!(
            "{name} is no UTF-8 text: byte {}",
            error.utf8_error().valid_up_to()
        ))
    })
}
