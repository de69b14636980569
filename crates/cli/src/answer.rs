//! Putting out an answer while it is made.

use foretoken_core::Ops;
use foretoken_engine::response::{FinishReason, Shape};
use foretoken_engine::{Error, Generation};

use crate::args::GenerateArgs;
use crate::failure::Status;
use crate::stdout;

/// Runs a generation and puts it out as `args` ask: as an object, as one chunk a line, or as text with a
/// closing line on stderr.
pub async fn deliver<O: Ops, S: Shape>(
    generation: &mut Generation<'_, O, S>,
    args: &GenerateArgs,
) -> anyhow::Result<Status> {
    match (args.json, args.stream) {
        (true, true) => chunks(generation).await,
        (true, false) => object(generation).await,
        (false, _) => text(generation).await,
    }
}

async fn chunks<O: Ops, S: Shape>(generation: &mut Generation<'_, O, S>) -> anyhow::Result<Status> {
    loop {
        match generation.next_chunk().await {
            Ok(Some(chunk)) => stdout::json_line(&chunk)?,
            Ok(None) => return Ok(Status::Done),
            Err(error) => return interrupted(error),
        }
    }
}

async fn object<O: Ops, S: Shape>(generation: &mut Generation<'_, O, S>) -> anyhow::Result<Status> {
    match generation.response().await {
        Ok(response) => {
            stdout::json_line(&response)?;
            Ok(Status::Done)
        }
        Err(error) => {
            let status = interrupted(error)?;
            stdout::json_line(&generation.so_far())?;
            Ok(status)
        }
    }
}

/// Text as it comes. The end of line that closes it is ours.
async fn text<O: Ops, S: Shape>(generation: &mut Generation<'_, O, S>) -> anyhow::Result<Status> {
    let ended = loop {
        match generation.next_piece().await {
            Ok(piece) => {
                stdout::text(&piece.text)?;
                if let Some(finish) = piece.finish {
                    break Ok(finish);
                }
            }
            Err(error) => break Err(error),
        }
    };
    stdout::text("\n")?;
    let (status, finish) = match ended {
        Ok(finish) => (Status::Done, finish),
        Err(error) => (interrupted(error)?, FinishReason::Abort),
    };
    closing_line(generation, finish);
    Ok(status)
}

/// An abort came from Ctrl-C and is no failure.
fn interrupted(error: Error) -> anyhow::Result<Status> {
    if error.is_abort() {
        Ok(Status::Interrupted)
    } else {
        Err(error.into())
    }
}

fn closing_line<O: Ops, S: Shape>(generation: &Generation<'_, O, S>, finish: FinishReason) {
    let usage = generation.usage();
    let timing = generation.timing();
    let why = match finish {
        FinishReason::Length => ", cut at the length limit",
        FinishReason::Abort => ", interrupted",
        FinishReason::Stop => "",
    };
    let mut line = format!("[{} prompt tokens", usage.prompt_tokens);
    if let Some(first) = timing.first_token_ms {
        line += &format!(", first token after {first:.0} ms");
    }
    line += &format!("; {} tokens{why}", usage.completion_tokens);
    if let Some(rate) = decode_rate(generation) {
        line += &format!(", {rate:.1} tok/s");
    }
    eprintln!("{line}]");
}

/// Tokens a second from the first token to the latest, where there are two.
pub fn decode_rate<O: Ops, S: Shape>(generation: &Generation<'_, O, S>) -> Option<f64> {
    let timing = generation.timing();
    let elapsed = timing.last_token_ms? - timing.first_token_ms?;
    let tokens = generation.usage().completion_tokens;
    (tokens > 1 && elapsed > 0.0).then(|| (tokens - 1) as f64 * 1e3 / elapsed)
}
