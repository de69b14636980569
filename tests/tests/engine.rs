//! The engine on TINY and `CpuOps`: requests in, OpenAI-shaped answers out. Ids are held against what
//! transformers computed.

use foretoken_engine::{
    AbortSignal, ChatCompletionRequest, CompletionRequest, Engine, EngineOptions, Error,
    RowInvariance,
};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{TinyGolden, data_file, read_golden};
use foretoken_weights::{BytesSource, FileSource};
use pollster::block_on;
use serde_json::{Value, json};

/// `<|endoftext|>`, `<|im_start|>`, `<|im_end|>`.
const CONTROL: [u64; 3] = [0, 1, 2];

fn options() -> EngineOptions {
    EngineOptions {
        model_name: "tiny".to_owned(),
        context_length: None,
        device: "cpu reference".to_owned(),
        check_row_invariance: true,
    }
}

fn engine() -> Engine<CpuOps> {
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |_| {},
    ))
    .unwrap()
}

fn complete(engine: &mut Engine<CpuOps>, body: &Value) -> Result<Value, Error> {
    let request = CompletionRequest::parse(body, &engine.limits())?;
    let mut generation = engine.complete(&request, AbortSignal::new())?;
    let response = serde_json::to_value(block_on(generation.response())?).unwrap();
    check_usage(&response);
    Ok(response)
}

fn chat(engine: &mut Engine<CpuOps>, body: &Value) -> Result<Value, Error> {
    let request = ChatCompletionRequest::parse(body, &engine.limits())?;
    let mut generation = engine.chat(&request, AbortSignal::new())?;
    let response = serde_json::to_value(block_on(generation.response())?).unwrap();
    check_usage(&response);
    Ok(response)
}

fn stream_completion(engine: &mut Engine<CpuOps>, body: &Value) -> Vec<Value> {
    let request = CompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = block_on(generation.next_chunk()).unwrap() {
        chunks.push(serde_json::to_value(chunk).unwrap());
    }
    chunks
}

fn stream_chat(engine: &mut Engine<CpuOps>, body: &Value) -> Vec<Value> {
    let request = ChatCompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.chat(&request, AbortSignal::new()).unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = block_on(generation.next_chunk()).unwrap() {
        chunks.push(serde_json::to_value(chunk).unwrap());
    }
    chunks
}

/// Identities of every response.
fn check_usage(response: &Value) {
    let usage = &response["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(
        count("total_tokens"),
        count("prompt_tokens") + count("completion_tokens")
    );
    let choice = &response["choices"][0];
    if let Some(ids) = choice["token_ids"].as_array() {
        assert_eq!(count("completion_tokens"), ids.len() as u64);
        assert_eq!(
            count("prompt_tokens"),
            response["prompt_token_ids"].as_array().unwrap().len() as u64
        );
    }
}

fn ids(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect()
}

fn refused(error: Result<Value, Error>) -> (String, String, String) {
    let object = serde_json::to_value(error.unwrap_err().to_object()).unwrap();
    let body = &object["error"];
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let message = text("message");
    assert!(
        !message.contains('\n') && !message.is_empty(),
        "one line: {message:?}"
    );
    (text("code"), text("param"), message)
}

#[test]
fn ids_equal_the_reference_and_the_context_ends_the_answer() {
    let golden: TinyGolden = read_golden("tiny.json");
    let mut engine = engine();
    for (name, case) in &golden.files["tiny.gguf"] {
        let prompt = &golden.prompts[name];
        let body = json!({
            "prompt": prompt.text, "temperature": 0, "ignore_eos": true, "max_tokens": 20,
            "return_token_ids": true,
        });
        let response = complete(&mut engine, &body).unwrap();
        assert_eq!(
            response["prompt_token_ids"],
            json!(prompt.prompt_ids),
            "{name}"
        );
        // Prompt and answer together fill the context and no more.
        let room = 64 - prompt.prompt_ids.len();
        let expected = &case.output_ids[..case.output_ids.len().min(room)];
        assert_eq!(
            response["choices"][0]["token_ids"],
            json!(expected),
            "{name}"
        );
        assert_eq!(response["choices"][0]["finish_reason"], "length");

        let by_ids = json!({
            "prompt": prompt.prompt_ids, "temperature": 0, "ignore_eos": true, "max_tokens": 20,
            "return_token_ids": true,
        });
        assert_eq!(
            complete(&mut engine, &by_ids).unwrap()["choices"],
            response["choices"],
            "{name}"
        );
    }
}

#[test]
fn a_chat_reads_its_prompt_through_the_template() {
    let mut engine = engine();
    let body = json!({
        "messages": [{"role": "user", "content": "What is 7?"}],
        "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    let response = chat(&mut engine, &body).unwrap();
    let written = "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\n\
                   What is 7?<|im_end|>\n<|im_start|>assistant\n";
    let raw = json!({
        "prompt": written, "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    let completion = complete(&mut engine, &raw).unwrap();
    assert_eq!(response["prompt_token_ids"], completion["prompt_token_ids"]);
    assert_eq!(
        response["choices"][0]["token_ids"],
        completion["choices"][0]["token_ids"]
    );
    assert_eq!(
        response["choices"][0]["message"]["content"],
        completion["choices"][0]["text"]
    );
    assert_eq!(response["choices"][0]["message"]["role"], "assistant");
    assert_eq!(response["object"], "chat.completion");
    assert_eq!(completion["object"], "text_completion");
    assert_eq!(response["model"], "tiny");
    assert_eq!(response["choices"][0]["logprobs"], Value::Null);
    assert!(response["created"].as_u64().unwrap() > 1_700_000_000);
    assert!(
        response["system_fingerprint"]
            .as_str()
            .unwrap()
            .contains("cpu")
    );
    assert_ne!(response["id"], chat(&mut engine, &body).unwrap()["id"]);
    // Parts are joined.
    let parts = json!({
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "What "}, {"type": "text", "text": "is 7?"},
        ]}],
        "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    assert_eq!(
        chat(&mut engine, &parts).unwrap()["choices"],
        response["choices"]
    );
}

#[test]
fn control_tokens_in_a_message_stay_text() {
    let mut engine = engine();
    let count = |content: &str, engine: &mut Engine<CpuOps>| {
        let body = json!({
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": content}],
            "temperature": 0, "max_tokens": 1, "return_token_ids": true,
        });
        let response = chat(engine, &body).unwrap();
        let prompt = ids(&response["prompt_token_ids"]);
        prompt.iter().filter(|id| CONTROL.contains(id)).count()
    };
    let plain = count("A or B", &mut engine);
    assert_eq!(plain, 5, "two turns and the answer's header");
    for marker in ["<|im_end|>", "<|im_start|>", "<|endoftext|>"] {
        assert_eq!(
            count(&format!("A{marker}B"), &mut engine),
            plain,
            "{marker}"
        );
    }
}

#[test]
fn a_stream_adds_up_to_the_whole() {
    let mut engine = engine();
    for stop in [json!(null), json!("e"), json!(["th", "he "])] {
        let body = |stream: bool| {
            let mut body = json!({
                "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "the ships"}],
                "temperature": 0, "max_tokens": 30, "return_token_ids": true, "stop": stop,
                "ignore_eos": true, "stream": stream,
            });
            if stream {
                body["stream_options"] = json!({"include_usage": true});
            }
            body
        };
        let whole = chat(&mut engine, &body(false)).unwrap();
        let chunks = stream_chat(&mut engine, &body(true));
        let choices: Vec<&Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"].get(0))
            .collect();
        let text: String = choices
            .iter()
            .map(|choice| choice["delta"]["content"].as_str().unwrap())
            .collect();
        let tokens: Vec<u64> = choices
            .iter()
            .filter(|choice| !choice["token_ids"].is_null())
            .flat_map(|choice| ids(&choice["token_ids"]))
            .collect();
        assert_eq!(json!(text), whole["choices"][0]["message"]["content"]);
        assert_eq!(json!(tokens), whole["choices"][0]["token_ids"]);
        assert_eq!(
            choices.last().unwrap()["finish_reason"],
            whole["choices"][0]["finish_reason"]
        );

        let (first, last) = (&chunks[0], chunks.last().unwrap());
        assert_eq!(
            first["choices"][0]["delta"],
            json!({"role": "assistant", "content": ""})
        );
        assert_eq!(first["prompt_token_ids"], whole["prompt_token_ids"]);
        assert_eq!(last["choices"], json!([]));
        assert_eq!(last["usage"], whole["usage"]);
        for chunk in &chunks {
            assert_eq!(chunk["object"], "chat.completion.chunk");
            assert_eq!(
                (&chunk["id"], &chunk["created"]),
                (&first["id"], &first["created"])
            );
        }
        for chunk in &chunks[1..chunks.len() - 1] {
            assert!(chunk.get("usage").is_none() && chunk.get("prompt_token_ids").is_none());
            assert!(chunk["choices"][0]["delta"].get("role").is_none());
        }
        for choice in &choices[..choices.len() - 1] {
            assert_eq!(choice["finish_reason"], Value::Null);
        }
    }
}

#[test]
fn a_text_stream_without_extras_has_neither_usage_nor_ids() {
    let mut engine = engine();
    let body =
        json!({"prompt": "The keeper", "temperature": 0, "max_tokens": 8, "ignore_eos": true});
    let whole = complete(&mut engine, &body).unwrap();
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let chunks = stream_completion(&mut engine, &streamed);
    let text: String = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(json!(text), whole["choices"][0]["text"]);
    for chunk in &chunks {
        assert!(chunk.get("usage").is_none() && chunk["choices"][0].get("token_ids").is_none());
    }
    assert!(
        whole.get("prompt_token_ids").is_none() && whole["choices"][0].get("token_ids").is_none()
    );
}

#[test]
fn stop_strings_cut_the_text_wherever_they_fall() {
    let mut engine = engine();
    let body = |stop: Value| {
        json!({
            "prompt": "The keeper wrote the numbers in a book", "temperature": 0, "max_tokens": 40,
            "ignore_eos": true, "stop": stop, "return_token_ids": true,
        })
    };
    let free = complete(&mut engine, &body(Value::Null)).unwrap();
    let text = free["choices"][0]["text"].as_str().unwrap().to_owned();
    let all = ids(&free["choices"][0]["token_ids"]);
    let characters: Vec<char> = text.chars().collect();
    assert!(characters.len() > 30, "enough text to cut: {text:?}");
    let mut across_tokens = 0;
    // Every pair of neighbouring characters as a stop string: many lie across two tokens.
    for pair in characters.windows(2) {
        let stop: String = pair.iter().collect();
        if stop.contains(char::REPLACEMENT_CHARACTER) {
            continue;
        }
        let response = complete(&mut engine, &body(json!(stop))).unwrap();
        let choice = &response["choices"][0];
        assert_eq!(
            choice["text"].as_str().unwrap(),
            &text[..text.find(&stop).unwrap()],
            "{stop:?}"
        );
        assert_eq!(choice["finish_reason"], "stop");
        let kept = ids(&choice["token_ids"]);
        assert_eq!(
            kept,
            all[..kept.len()],
            "the tokens of the stop string are there, later ones not"
        );
        let shorter: Vec<u32> = kept[..kept.len() - 1].iter().map(|&id| id as u32).collect();
        let before = engine.tokenizer().decode(&shorter);
        assert!(!before.contains(&stop), "no token too many");
        across_tokens += usize::from(before.ends_with(pair[0]));
    }
    assert!(across_tokens > 0, "some stop strings lie across tokens");
    let never = complete(&mut engine, &body(json!("\u{1F600} never"))).unwrap();
    assert_eq!(
        never["choices"], free["choices"],
        "what is held back comes out in the end"
    );
}

#[test]
fn stop_tokens_and_end_of_generation_are_counted_but_no_text() {
    let mut engine = engine();
    let body = json!({
        "prompt": "The keeper wrote the numbers in a book", "temperature": 0, "max_tokens": 20,
        "ignore_eos": true, "return_token_ids": true,
    });
    let free = complete(&mut engine, &body).unwrap();
    let all = ids(&free["choices"][0]["token_ids"]);
    let nth = (1..all.len())
        .find(|&i| !all[..i].contains(&all[i]))
        .unwrap();
    let mut stopped = body.clone();
    stopped["stop_token_ids"] = json!([all[nth]]);
    let response = complete(&mut engine, &stopped).unwrap();
    let choice = &response["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(ids(&choice["token_ids"]), all[..=nth]);
    let text: Vec<u32> = all[..nth].iter().map(|&id| id as u32).collect();
    assert_eq!(
        choice["text"].as_str().unwrap(),
        engine.tokenizer().decode(&text)
    );
    assert_eq!(engine.tokenizer().end_of_generation(), [2, 0]);
}

#[test]
fn max_tokens_in_both_spellings() {
    let mut engine = engine();
    for field in ["max_tokens", "max_completion_tokens"] {
        for (value, ok) in [(0, false), (1, true), (64, true), (65, false)] {
            let mut body = json!({
                "messages": [{"role": "user", "content": "x"}], "temperature": 0, "ignore_eos": true,
            });
            body[field] = json!(value);
            let response = chat(&mut engine, &body);
            if ok {
                let room = 64
                    - response.as_ref().unwrap()["usage"]["prompt_tokens"]
                        .as_u64()
                        .unwrap();
                let made = response.unwrap()["usage"]["completion_tokens"]
                    .as_u64()
                    .unwrap();
                assert_eq!(made, room.min(value));
            } else {
                let (code, param, message) = refused(response);
                assert_eq!((&*code, &*param), ("invalid_request", field));
                assert!(
                    message.contains(&value.to_string()) && message.contains("1..=64"),
                    "{message}"
                );
            }
        }
    }
    let both = json!({
        "messages": [{"role": "user", "content": "x"}], "temperature": 0,
        "max_tokens": 3, "max_completion_tokens": 4,
    });
    assert_eq!(refused(chat(&mut engine, &both)).1, "max_tokens");
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    let mut engine = engine();
    for len in [62, 63, 64, 65] {
        let body = json!({"prompt": vec![5; len], "temperature": 0, "ignore_eos": true});
        let response = complete(&mut engine, &body);
        if len < 64 {
            let response = response.unwrap();
            assert_eq!(response["usage"]["total_tokens"], 64);
            assert_eq!(response["choices"][0]["finish_reason"], "length");
        } else {
            let (code, param, message) = refused(response);
            assert_eq!((&*code, &*param), ("context_length_exceeded", "prompt"));
            assert!(
                message.contains(&len.to_string()) && message.contains("64"),
                "{message}"
            );
        }
    }
    let long =
        json!({"messages": [{"role": "user", "content": "ship ".repeat(40)}], "temperature": 0});
    let (code, param, _) = refused(chat(&mut engine, &long));
    assert_eq!((&*code, &*param), ("context_length_exceeded", "messages"));
}

#[test]
fn requests_are_refused_by_the_name_of_the_field() {
    let mut engine = engine();
    let user = json!([{"role": "user", "content": "x"}]);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("tools", json!([]), "tools"),
        ("frequency", json!(1), "frequency"),
        ("n", json!(2), "n"),
        ("top_p", json!(0.5), "top_p"),
        ("top_k", json!(40), "top_k"),
        ("logprobs", json!(true), "logprobs"),
        ("logit_bias", json!({}), "logit_bias"),
        ("temperature", json!(0.7), "temperature"),
        ("temperature", json!(-1), "temperature"),
        ("temperature", json!("0"), "temperature"),
        ("temperature", Value::Null, "temperature"),
        ("max_tokens", json!(1.5), "max_tokens"),
        ("max_tokens", json!("5"), "max_tokens"),
        ("max_tokens", json!(1_u64 << 60), "max_tokens"),
        ("seed", json!(1.5), "seed"),
        ("stop", json!(5), "stop"),
        ("stop", json!(["a", "b", "c", "d", "e"]), "stop"),
        ("stop", json!(""), "stop"),
        ("stop", json!("x".repeat(257)), "stop"),
        ("stop_token_ids", json!([512]), "stop_token_ids"),
        ("stop_token_ids", json!([-1]), "stop_token_ids"),
        ("stop_token_ids", json!(vec![1; 65]), "stop_token_ids"),
        ("stream", json!("yes"), "stream"),
        (
            "stream_options",
            json!({"include_usage": true}),
            "stream_options",
        ),
        ("metadata", json!("x"), "metadata"),
        ("user", json!(7), "user"),
        ("model", json!("gpt-4"), "model"),
        ("messages", json!("hello"), "messages"),
        ("messages", json!([]), "messages"),
        ("messages", json!([{"role": "user"}]), "messages[0].content"),
        (
            "messages",
            json!([{"role": "user", "content": null}]),
            "messages[0].content",
        ),
        (
            "messages",
            json!([{"role": "robot", "content": "x"}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user", "content": "x", "tool_calls": []}]),
            "messages[0].tool_calls",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
            "messages[0].content[0].type",
        ),
        (
            "messages",
            json!(vec![json!({"role": "user", "content": "x"}); 2049]),
            "messages",
        ),
    ];
    for (field, value, param) in cases {
        let mut body = json!({"messages": user, "temperature": 0});
        body[field] = value.clone();
        let (code, found, message) = refused(chat(&mut engine, &body));
        let expected = if field == "model" {
            "model_not_found"
        } else {
            "invalid_request"
        };
        assert_eq!(
            (&*code, &*found),
            (expected, param),
            "{field} = {value}: {message}"
        );
        assert!(message.contains(param), "{message}");
    }
    let missing = refused(chat(&mut engine, &json!({"temperature": 0})));
    assert_eq!(missing.1, "messages");
    let body = refused(chat(&mut engine, &json!([1])));
    assert_eq!((&*body.0, &*body.1), ("invalid_request", ""));

    // At the limits, and what changes nothing.
    let mut body = json!({
        "model": "tiny", "messages": user, "temperature": 0.0, "max_tokens": 2, "n": 1, "top_p": 1.0,
        "top_k": 0, "presence_penalty": 0, "seed": 18_446_744_073_709_551_615_u64, "user": "u",
        "metadata": {"a": "b"}, "stop": ["x".repeat(256)], "stop_token_ids": vec![511; 64],
        "logprobs": false, "store": false, "stream": false, "max_completion_tokens": 2,
    });
    chat(&mut engine, &body).unwrap();
    body["seed"] = json!(i64::MIN);
    body["stop"] = Value::Null;
    chat(&mut engine, &body).unwrap();
}

#[test]
fn an_abort_is_told_apart_and_the_engine_stays_usable() {
    let mut engine = engine();
    let body =
        json!({"prompt": "The keeper", "temperature": 0, "max_tokens": 8, "ignore_eos": true});
    let whole = complete(&mut engine, &body).unwrap();
    let request = CompletionRequest::parse(&body, &engine.limits()).unwrap();
    let abort = AbortSignal::new();
    let mut generation = engine.complete(&request, abort.clone()).unwrap();
    for _ in 0..3 {
        block_on(generation.next_piece()).unwrap();
    }
    abort.abort();
    assert!(block_on(generation.next_piece()).unwrap_err().is_abort());
    let so_far = serde_json::to_value(generation.so_far()).unwrap();
    assert_eq!(so_far["choices"][0]["finish_reason"], "abort");
    assert_eq!(so_far["usage"]["completion_tokens"], 3);
    assert!(
        whole["choices"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with(so_far["choices"][0]["text"].as_str().unwrap())
    );
    drop(generation);
    assert_eq!(
        complete(&mut engine, &body).unwrap()["choices"],
        whole["choices"]
    );
}

#[test]
fn requests_one_after_another_equal_a_fresh_engine() {
    let mut used = engine();
    let prompts = [
        "The keeper wrote",
        "There were seven of them, and each one",
        "The keeper wrote",
        "The",
    ];
    for prompt in prompts {
        let body = json!({
            "prompt": prompt, "temperature": 0, "max_tokens": 12, "ignore_eos": true,
            "return_token_ids": true,
        });
        let expected = complete(&mut engine(), &body).unwrap();
        assert_eq!(
            complete(&mut used, &body).unwrap()["choices"],
            expected["choices"],
            "{prompt}"
        );
    }
}

#[test]
fn loading_reports_progress_and_checks_rows() {
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    let mut seen = Vec::new();
    let engine = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |p| seen.push(p),
    ))
    .unwrap();
    assert_eq!(engine.row_invariance(), RowInvariance::Holds);
    let uploads: Vec<_> = seen.iter().filter(|p| p.total > 0).collect();
    let last = uploads.last().expect("weights are reported");
    assert_eq!(last.loaded, last.total);
    assert!(
        uploads
            .windows(2)
            .all(|pair| pair[0].loaded <= pair[1].loaded)
    );
}

fn load_error(bytes: Vec<u8>) -> Error {
    let source = BytesSource(bytes);
    block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |_| {},
    ))
    .unwrap_err()
}

#[test]
fn files_that_cannot_be_loaded_have_a_code() {
    let tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    assert_eq!(
        load_error(b"not a model at all".to_vec()).code(),
        "corrupt_weights"
    );
    assert_eq!(
        load_error(tiny[..tiny.len() / 2].to_vec()).code(),
        "corrupt_weights"
    );
    assert_eq!(
        load_error(replaced(&tiny, b"llama", b"lhama")).code(),
        "unsupported_architecture"
    );
    assert_eq!(
        load_error(replaced(&tiny, b"smollm", b"smollx")).code(),
        "unsupported_architecture"
    );
    let source = BytesSource(tiny);
    let options = EngineOptions {
        context_length: Some(65),
        ..options()
    };
    let error = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options,
        &mut |_| {},
    ))
    .unwrap_err();
    assert_eq!(error.code(), "invalid_request");
}

/// The first occurrence replaced by something as long.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .expect("it is in the file");
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn a_template_that_raises_is_a_request_error_with_its_words() {
    let tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    let source = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}";
    let source = source.replace("\\n", "\n");
    let raising = "{{ raise_exception('roles must alternate') }}";
    let padded = format!("{raising:width$}", width = source.len());
    let bytes = replaced(&tiny, source.as_bytes(), padded.as_bytes());
    let source = BytesSource(bytes);
    let mut engine = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |_| {},
    ))
    .unwrap();
    let body = json!({"messages": [{"role": "user", "content": "x"}], "temperature": 0});
    let (code, param, message) = refused(chat(&mut engine, &body));
    assert_eq!((&*code, &*param), ("invalid_request", "messages"));
    assert!(message.contains("roles must alternate"), "{message}");
    // Text completions do without a template.
    complete(
        &mut engine,
        &json!({"prompt": "x", "temperature": 0, "max_tokens": 1}),
    )
    .unwrap();
}
