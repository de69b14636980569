//! `foretoken chat`: one answer, or a conversation.

use std::io::BufRead;

use foretoken_engine::{ChatCompletionRequest, Engine, parse_body};
use serde_json::{Value, json};

use super::{ANY_MODEL, body, read_file, read_stdin};
use crate::answer::deliver;
use crate::args::{ChatArgs, GenerateArgs};
use crate::device::{Device, Loaded, Task, with_model};
use crate::failure::{Status, invalid};
use crate::{interrupt, stderr};

/// Runs it.
pub async fn run(args: ChatArgs) -> anyhow::Result<Status> {
    let mut messages = match &args.messages {
        Some(file) => {
            let parsed = parse_body(&read_file(file)?)
                .map_err(|error| anyhow::Error::from(error).context(file.display().to_string()))?;
            match parsed {
                Value::Array(messages) => Some(messages),
                _ => {
                    return Err(invalid(format!(
                        "{}: a JSON list of messages is needed",
                        file.display()
                    )));
                }
            }
        }
        None => {
            let prompt = match args.prompt {
                Some(prompt) => Some(prompt),
                // The end of line that closes piped text belongs to the pipe.
                None => read_stdin()?.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
            };
            if prompt
                .as_deref()
                .is_some_and(|prompt| prompt.trim().is_empty())
            {
                return Err(invalid("the prompt is empty: pass PROMPT, or pipe text in"));
            }
            prompt.map(|prompt| vec![message("user", &prompt)])
        }
    };
    let system = args.system.as_deref().map(|text| message("system", text));
    if let Some(messages) = &mut messages {
        messages.splice(0..0, system.clone());
        ChatCompletionRequest::parse(&request_body(&args.generate, messages), &ANY_MODEL)?;
    } else if args.generate.json {
        return Err(invalid(
            "--json needs a prompt: pass PROMPT, --messages, or pipe text in",
        ));
    }
    let model = args.model.for_answers(&args.generate);
    let chat = Chat {
        messages,
        system: system.into_iter().collect(),
        generate: args.generate,
    };
    with_model(&model, chat).await
}

struct Chat {
    /// One request's, or a conversation's if absent.
    messages: Option<Vec<Value>>,
    /// What a conversation starts with.
    system: Vec<Value>,
    generate: GenerateArgs,
}

impl Task for Chat {
    async fn run<O: Device>(self, loaded: Loaded<O>) -> anyhow::Result<Status> {
        let engine = loaded.engine;
        match &self.messages {
            Some(messages) => Ok(answer(&engine, messages, &self.generate).await?.0),
            None => converse(&engine, &self.system, &self.generate).await,
        }
    }
}

fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

fn request_body(generate: &GenerateArgs, messages: &[Value]) -> Value {
    let mut body = body(generate);
    body["messages"] = messages.into();
    if let Some(top) = generate.logprobs {
        body["logprobs"] = true.into();
        body["top_logprobs"] = top.into();
    }
    body
}

/// Puts one answer out and returns its text too.
async fn answer<O: Device>(
    engine: &Engine<O>,
    messages: &[Value],
    generate: &GenerateArgs,
) -> anyhow::Result<(Status, String)> {
    let request =
        ChatCompletionRequest::parse(&request_body(generate, messages), &engine.limits())?;
    let abort = interrupt::take();
    let mut generation = engine.chat(&request, abort)?;
    let status = deliver(&mut generation, generate).await;
    let text = generation.text().to_owned();
    interrupt::release();
    Ok((status?, text))
}

/// Questions from the terminal until `/quit` or the end of input. Ctrl-C ends an answer, which stays in
/// the conversation as far as it came; between answers it ends the process.
async fn converse<O: Device>(
    engine: &Engine<O>,
    system: &[Value],
    generate: &GenerateArgs,
) -> anyhow::Result<Status> {
    stderr::line(format_args!(
        "{}: /reset starts anew, /quit ends, Ctrl-C stops an answer",
        engine.model_name()
    ));
    let mut messages = system.to_vec();
    let mut bytes = Vec::new();
    loop {
        stderr::text("> ");
        bytes.clear();
        // Not `read_line`, which fails on what is no UTF-8: that is no reason to lose a conversation.
        let read = std::io::stdin().lock().read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| invalid(format!("reading the question: {error}")))?;
        let Ok(line) = std::str::from_utf8(&bytes) else {
            stderr::line("error: the line is no UTF-8 text and was left out; type it again");
            continue;
        };
        match (read, line.trim()) {
            (0, _) | (_, "/quit") => return Ok(Status::Done),
            (_, "") => {}
            (_, "/reset") => messages = system.to_vec(),
            (_, command) if command.starts_with('/') => {
                stderr::line(format_args!(
                    "error: no command {command:?}; there are /reset and /quit"
                ));
            }
            (_, question) => {
                messages.push(message("user", question));
                match answer(engine, &messages, generate).await {
                    Ok((_, text)) => {
                        messages.push(message("assistant", &text));
                        // While the next question is thought up.
                        engine.idle().await?;
                    }
                    Err(error) if is_about_the_request(&error) => {
                        interrupt::release();
                        messages.pop();
                        stderr::line(format_args!(
                            "error: {error:#}; the question was taken back (/reset starts anew)"
                        ));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

fn is_about_the_request(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<foretoken_engine::Error>()
        .is_some_and(foretoken_engine::Error::is_request_error)
}
