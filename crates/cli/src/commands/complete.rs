//! `foretoken complete`: raw text in, its continuation out.

use foretoken_engine::CompletionRequest;
use serde_json::Value;

use super::{ANY_MODEL, body, read_file, utf8};
use crate::answer::deliver;
use crate::args::{CompleteArgs, GenerateArgs};
use crate::device::{Device, Loaded, Task, with_model};
use crate::failure::Status;
use crate::interrupt;

/// Runs it.
pub async fn run(args: CompleteArgs) -> anyhow::Result<Status> {
    let prompt = match (args.prompt, args.prompt_file) {
        (Some(prompt), _) => prompt,
        (None, Some(file)) => utf8(read_file(&file)?, &file.display().to_string())?,
        (None, None) => String::new(),
    };
    let mut body = body(&args.generate);
    body["prompt"] = prompt.into();
    if let Some(logprobs) = args.generate.logprobs {
        body["logprobs"] = logprobs.into();
    }
    CompletionRequest::parse(&body, &ANY_MODEL)?;
    let model = args.model.for_answers(&args.generate);
    let task = Complete {
        body,
        generate: args.generate,
    };
    with_model(&model, task).await
}

struct Complete {
    body: Value,
    generate: GenerateArgs,
}

impl Task for Complete {
    async fn run<O: Device>(self, loaded: Loaded<O>) -> anyhow::Result<Status> {
        let engine = loaded.engine;
        let request = CompletionRequest::parse(&self.body, &engine.limits())?;
        let abort = interrupt::take();
        let mut generation = engine.complete(&request, abort)?;
        deliver(&mut generation, &self.generate).await
    }
}
