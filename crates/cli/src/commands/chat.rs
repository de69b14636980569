//! `foretoken chat`: one answer, or a conversation.

use std::io::BufRead;
use std::path::Path;

use foretoken_engine::response::AssistantMessage;
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
        Some(file) => Some(read_list(file, "messages")?),
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
    let mut request = body(&args.generate);
    if let Some(top) = args.generate.logprobs {
        request["logprobs"] = true.into();
        request["top_logprobs"] = top.into();
    }
    if let Some(file) = &args.tools {
        request["tools"] = read_list(file, "tools")?.into();
    }
    if let Some(variables) = &args.chat_template_kwargs {
        request["chat_template_kwargs"] = Value::Object(variables.clone());
    }
    let system = args.system.as_deref().map(|text| message("system", text));
    if let Some(messages) = &mut messages {
        messages.splice(0..0, system.clone());
        ChatCompletionRequest::parse(&with_messages(&request, messages), &ANY_MODEL)?;
    } else if args.generate.json {
        return Err(invalid(
            "--json needs a prompt: pass PROMPT, --messages, or pipe text in",
        ));
    } else {
        // What every question of the conversation will be asked with.
        let question = [message("user", "?")];
        ChatCompletionRequest::parse(&with_messages(&request, &question), &ANY_MODEL)?;
    }
    let model = args.model.for_answers(&args.generate);
    let chat = Chat {
        messages,
        system: system.into_iter().collect(),
        request,
        generate: args.generate,
    };
    with_model(&model, chat).await
}

struct Chat {
    /// One request's, or a conversation's if absent.
    messages: Option<Vec<Value>>,
    /// What a conversation starts with.
    system: Vec<Value>,
    /// Requests' bodies, but for the messages.
    request: Value,
    generate: GenerateArgs,
}

impl Task for Chat {
    async fn run<O: Device>(self, loaded: Loaded<O>) -> anyhow::Result<Status> {
        let engine = loaded.engine;
        match &self.messages {
            Some(messages) => {
                let request = with_messages(&self.request, messages);
                Ok(answer(&engine, &request, &self.generate).await?.0)
            }
            None => self.converse(&engine).await,
        }
    }
}

fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// A file with a JSON list of what `of` says.
fn read_list(file: &Path, of: &str) -> anyhow::Result<Vec<Value>> {
    let parsed = parse_body(&read_file(file)?)
        .map_err(|error| anyhow::Error::from(error).context(file.display().to_string()))?;
    match parsed {
        Value::Array(entries) => Ok(entries),
        _ => Err(invalid(format!(
            "{}: a JSON list of {of} is needed",
            file.display()
        ))),
    }
}

fn with_messages(request: &Value, messages: &[Value]) -> Value {
    let mut body = request.clone();
    body["messages"] = messages.into();
    body
}

/// What the model said, for the next question: its text and its calls, as templates show them. They show no reasoning of
/// answers before.
fn said(message: AssistantMessage) -> Value {
    let mut said = self::message("assistant", &message.content);
    if !message.tool_calls.is_empty() {
        said["tool_calls"] = json!(message.tool_calls);
    }
    said
}

/// Puts one answer out and returns it as a message too.
async fn answer<O: Device>(
    engine: &Engine<O>,
    body: &Value,
    generate: &GenerateArgs,
) -> anyhow::Result<(Status, Value)> {
    let request = ChatCompletionRequest::parse(body, &engine.limits())?;
    let abort = interrupt::take();
    let mut generation = engine.chat(&request, abort)?;
    let status = deliver(&mut generation, generate).await;
    let last = generation.so_far().choices.pop();
    interrupt::release();
    let said = last.map_or_else(|| message("assistant", ""), |choice| said(choice.message));
    Ok((status?, said))
}

impl Chat {
    /// Questions from the terminal until `/quit` or the end of input. Ctrl-C ends an answer, which stays in
    /// the conversation as far as it came; between answers it ends the process.
    async fn converse<O: Device>(&self, engine: &Engine<O>) -> anyhow::Result<Status> {
        stderr::line(format_args!(
            "{}: /reset starts anew, /quit ends, Ctrl-C stops an answer",
            engine.model_name()
        ));
        let mut messages = self.system.clone();
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
                (_, "/reset") => messages = self.system.clone(),
                (_, command) if command.starts_with('/') => {
                    stderr::line(format_args!(
                        "error: no command {command:?}; there are /reset and /quit"
                    ));
                }
                (_, question) => {
                    messages.push(message("user", question));
                    let request = with_messages(&self.request, &messages);
                    match answer(engine, &request, &self.generate).await {
                        Ok((_, said)) => {
                            messages.push(said);
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
}

fn is_about_the_request(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<foretoken_engine::Error>()
        .is_some_and(foretoken_engine::Error::is_request_error)
}

#[cfg(test)]
mod tests {
    use foretoken_engine::response::{CalledFunction, ChatToolCall};

    use super::*;

    #[test]
    fn calls_stay_in_the_conversation() {
        let mut answer = AssistantMessage {
            role: "assistant",
            content: "It is".to_owned(),
            reasoning_content: Some("hm".to_owned()),
            tool_calls: Vec::new(),
            refusal: None,
        };
        assert_eq!(said(answer.clone()), message("assistant", "It is"));
        answer.tool_calls.push(ChatToolCall {
            index: None,
            id: "call-1-0-0".to_owned(),
            r#type: "function",
            function: CalledFunction {
                name: "get_weather".to_owned(),
                arguments: r#"{"city":"Oslo"}"#.to_owned(),
            },
        });
        let said = said(answer);
        assert_eq!(said["content"], "It is");
        assert_eq!(said["tool_calls"][0]["function"]["name"], "get_weather");
        // And the next question can be asked with it.
        let messages = [message("user", "?"), said, message("user", "?")];
        let request = with_messages(&json!({ "model": "m" }), &messages);
        ChatCompletionRequest::parse(&request, &ANY_MODEL).unwrap();
    }
}
