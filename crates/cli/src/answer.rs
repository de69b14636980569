//! Putting out an answer while it is made.

use foretoken_core::Ops;
use foretoken_engine::response::{FinishReason, Shape};
use foretoken_engine::{Error, Generation};

use crate::args::GenerateArgs;
use crate::colour::Painter;
use crate::failure::Status;
use crate::{stderr, stdout};

/// Runs a generation and puts it out as `args` ask: as an object, as one chunk a line, or as text with a
/// closing line on stderr. A seed that was drawn, and mattered, is said on stderr.
pub async fn deliver<O: Ops, S: Shape>(
    generation: &mut Generation<O, S>,
    args: &GenerateArgs,
) -> anyhow::Result<Status> {
    let status = match (args.json, args.stream) {
        (true, true) => chunks(generation).await,
        (true, false) => object(generation).await,
        (false, _) => return text(generation, args).await,
    }?;
    if let Some(seed) = drawn_seed(generation, args) {
        stderr::line(format_args!("seed {seed}"));
    }
    Ok(status)
}

async fn chunks<O: Ops, S: Shape>(generation: &mut Generation<O, S>) -> anyhow::Result<Status> {
    loop {
        match generation.next_chunk().await {
            Ok(Some(chunk)) => stdout::json_line(&chunk)?,
            Ok(None) => return Ok(Status::Done),
            Err(error) => return interrupted(error),
        }
    }
}

async fn object<O: Ops, S: Shape>(generation: &mut Generation<O, S>) -> anyhow::Result<Status> {
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

/// Text as it comes. The ends of lines that close an answer, and lie between several, are ours.
async fn text<O: Ops, S: Shape>(
    generation: &mut Generation<O, S>,
    args: &GenerateArgs,
) -> anyhow::Result<Status> {
    let painter = Painter::new(args.show_drafts);
    if let Some(painter) = &painter {
        stderr::line(painter.legend());
    }
    let (mut choice, mut last) = (0, FinishReason::Abort);
    // Bytes of the choice's text that were put out.
    let mut shown = 0;
    let ended = loop {
        match generation.next_piece().await {
            Ok(Some(piece)) => {
                if piece.index > choice {
                    (choice, shown) = (piece.index, 0);
                    stdout::text("\n\n")?;
                }
                // What the model thinks is no part of its answer.
                stderr::text(&piece.reasoning);
                match &painter {
                    Some(painter) => stdout::text(&painter.paint(&piece))?,
                    None => stdout::text(&piece.text)?,
                }
                shown += piece.text.len();
                for call in &piece.tool_calls {
                    stdout::text(&format!("{}({})\n", call.name, call.arguments))?;
                }
                last = piece.finish.unwrap_or(last);
            }
            Ok(None) => break Ok(last),
            Err(error) => break Err(error),
        }
    };
    // What was held back when it ended early.
    stdout::text(generation.text().get(shown..).unwrap_or_default())?;
    stdout::text("\n")?;
    let (status, finish) = match ended {
        Ok(finish) => (Status::Done, finish),
        Err(error) => (interrupted(error)?, FinishReason::Abort),
    };
    closing_line(generation, finish, args);
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

/// The seed, if it was drawn and the answer depends on it.
fn drawn_seed<O: Ops, S: Shape>(generation: &Generation<O, S>, args: &GenerateArgs) -> Option<u64> {
    (args.seed.is_none() && args.temperature != Some(0.0)).then(|| generation.seed())
}

fn closing_line<O: Ops, S: Shape>(
    generation: &Generation<O, S>,
    finish: FinishReason,
    args: &GenerateArgs,
) {
    let usage = generation.usage();
    let timing = generation.timing();
    let why = match finish {
        FinishReason::Length => ", cut at the length limit",
        FinishReason::Abort => ", interrupted",
        FinishReason::Stop => "",
        FinishReason::ToolCalls => ", calls a tool",
    };
    let mut line = format!("[{} prompt tokens", usage.prompt_tokens);
    if usage.prompt_tokens_details.cached_tokens > 0 {
        line += &format!(" ({} cached)", usage.prompt_tokens_details.cached_tokens);
    }
    if let Some(first) = timing.first_token_ms {
        line += &format!(", first token after {first:.0} ms");
    }
    line += &format!("; {} tokens{why}", usage.completion_tokens);
    if let Some(rate) = decode_rate(generation) {
        line += &format!(", {rate:.1} tok/s");
    }
    if let Some(statistics) = generation.statistics()
        && statistics.num_spec_tokens > 0
    {
        line += &format!(
            "; {} of {} drafts accepted, {:.2} tokens a verify step",
            statistics.num_accepted_draft_tokens,
            statistics.num_draft_tokens,
            statistics.mean_acceptance_length()
        );
    }
    if let Some(seed) = drawn_seed(generation, args) {
        line += &format!("; seed {seed}");
    }
    stderr::line(format_args!("{line}]"));
}

/// Tokens a second from the first token to the latest, where there are two.
pub fn decode_rate<O: Ops, S: Shape>(generation: &Generation<O, S>) -> Option<f64> {
    let timing = generation.timing();
    let elapsed = timing.last_token_ms? - timing.first_token_ms?;
    let tokens = generation.usage().completion_tokens;
    (tokens > 1 && elapsed > 0.0).then(|| (tokens - 1) as f64 * 1e3 / elapsed)
}
