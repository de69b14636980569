//! Parts of an answer: its reasoning, what it says, the tools it calls. The tokens are scripted, so that the model says what
//! is to be told apart.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use foretoken_engine::{AbortSignal, ChatCompletionRequest, Engine, EngineOptions};
use foretoken_tests::golden::data_file;
use foretoken_weights::BytesSource;
use pollster::block_on;
use serde_json::{Value, json};

use crate::rig::{chat, refused, stream_chat};
use crate::watched_ops::WatchedOps;

/// Shows what requests may set, in few tokens.
const SHOWS: &str = "{% for m in messages %}{{ m.role[0]+m.content }}{% for c in m.tool_calls or [] %}\
{{ c.function.arguments.a }}{% endfor %}{{ m.tool_call_id }}{% endfor %}{{ tools[0].function.name if tools }}\
{{ documents|length if documents }}{{ effort }}{{ '>' if add_generation_prompt }}{#</think><tool_call>#}";
/// Opens the reasoning for the model.
const OPENS: &str =
    "{{ messages[0].content }}{% if add_generation_prompt %}a<think>{% endif %}{# </think> #}";
const PLAIN: &str = "{{ messages[0].content }}>";

struct Scripted {
    engine: Engine<WatchedOps>,
    script: Rc<RefCell<VecDeque<u32>>>,
}

impl Scripted {
    /// TINY with another chat template in its file.
    fn new(template: &str) -> Self {
        Self::with_token(template, b"<|im_start|>")
    }

    /// And with `spelling` for that of the control token 1.
    fn with_token(template: &str, spelling: &[u8; 12]) -> Self {
        let mut bytes = std::fs::read(data_file("tiny.gguf")).unwrap();
        let start = find(&bytes, b"{% for message in messages %}");
        let end = start + find(&bytes[start..], b"assistant\n' }}{% endif %}") + 25;
        let padded = format!(
            "{template}{{#{:1$}#}}",
            "",
            end - start - template.len() - 4
        );
        bytes[start..end].copy_from_slice(padded.as_bytes());
        let token = find(&bytes, b"<|im_start|>");
        bytes[token..token + 12].copy_from_slice(spelling);
        let source = BytesSource(bytes);
        let ops = WatchedOps::new();
        let script = Rc::clone(&ops.script);
        let options = EngineOptions {
            steps_a_wait: Some(0),
            ..EngineOptions::new("tiny", "cpu reference")
        };
        let engine = block_on(Engine::load(ops, &source, options, &mut |_| {})).unwrap();
        Self { engine, script }
    }

    /// Makes the next answer say `text`, and end.
    fn says(&self, text: &str) {
        let mut tokens = self.engine.tokenizer().encode(text, true).unwrap();
        tokens.push(2);
        *self.script.borrow_mut() = tokens.into();
    }

    /// The message of the answer, which is the same streamed.
    fn answer(&self, text: &str, body: &Value) -> Value {
        let mut body = body.clone();
        body["temperature"] = json!(0);
        self.says(text);
        let whole = chat(&self.engine, &body).unwrap();
        let mut message = whole["choices"][0]["message"].clone();
        let usage = &whole["usage"];
        message["finish_reason"] = whole["choices"][0]["finish_reason"].clone();
        message["reasoning_tokens"] =
            usage["completion_tokens_details"]["reasoning_tokens"].clone();

        self.says(text);
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        let chunks = stream_chat(&self.engine, &body);
        let (mut reasoning, mut content) = (String::new(), String::new());
        let mut calls: Vec<Value> = Vec::new();
        for chunk in &chunks {
            let Some(choice) = chunk["choices"].get(0) else {
                assert_eq!(chunk["usage"], *usage);
                continue;
            };
            let delta = &choice["delta"];
            content += delta["content"].as_str().unwrap();
            reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                assert_eq!(call["index"], calls.len());
                calls.push(call["function"].clone());
            }
            if !choice["finish_reason"].is_null() {
                assert_eq!(choice["finish_reason"], message["finish_reason"]);
            }
        }
        assert_eq!(content, message["content"].as_str().unwrap());
        assert_eq!(
            reasoning,
            message["reasoning_content"].as_str().unwrap_or_default()
        );
        let whole_calls = message["tool_calls"].as_array().into_iter().flatten();
        let whole_calls: Vec<Value> = whole_calls.map(|call| call["function"].clone()).collect();
        assert_eq!(calls, whole_calls);
        message
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut windows = bytes.windows(wanted.len());
    windows.position(|window| window == wanted).unwrap()
}

fn user() -> Value {
    json!({"messages": [{"role": "user", "content": "x"}]})
}

/// What an abort finds held back (the beginning of a mark, of a call, of a stop string) is a part of the answer.
#[test]
fn an_abort_keeps_what_was_held_back() {
    let tiny = Scripted::new(SHOWS);
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let call = r#"<tool_call>{"name": "f", "argu"#;
    let whole_call = r#"ok<tool_call>{"name": "f"}</tool_call> <too"#;
    for (text, stop, content, reasoning, calls) in [
        ("hello wor", json!(["world"]), "hello wor", "", 0),
        ("<think>hm</thi", json!([]), "", "hm</thi", 0),
        ("ok <tool", json!([]), "ok <tool", "", 0),
        (call, json!([]), call, "", 0),
        (whole_call, json!([]), "ok <too", "", 1),
    ] {
        let body = json!({"messages": [{"role": "user", "content": "x"}], "temperature": 0, "tools": tools, "stop": stop});
        let request = ChatCompletionRequest::parse(&body, &tiny.engine.limits()).unwrap();
        tiny.says(text);
        let tokens = tiny.script.borrow().len() - 1;
        let abort = AbortSignal::new();
        let mut generation = tiny.engine.chat(&request, abort.clone()).unwrap();
        let mut given = String::new();
        for _ in 0..tokens {
            let piece = block_on(generation.next_piece()).unwrap().unwrap();
            assert!(piece.finish.is_none(), "{text}");
            given += &piece.text;
        }
        abort.abort();
        assert!(block_on(generation.next_piece()).unwrap_err().is_abort());
        let so_far = serde_json::to_value(generation.so_far()).unwrap();
        let choice = &so_far["choices"][0];
        let message = &choice["message"];
        assert_eq!(message["content"], content, "{text}");
        let found = message["reasoning_content"].as_str();
        assert_eq!(found.unwrap_or_default(), reasoning, "{text}");
        let found = message["tool_calls"].as_array();
        assert_eq!(found.map_or(0, Vec::len), calls, "{text}");
        assert_eq!(choice["finish_reason"], "abort");
        assert_eq!(generation.text(), content);
        assert!(content.starts_with(&given) && given.len() + reasoning.len() < text.len());
    }
}

#[test]
fn reasoning_is_told_apart_where_it_is_marked() {
    let tiny = Scripted::new(SHOWS);
    for (text, reasoning, content) in [
        ("<think>hm</think>ok", "hm", "ok"),
        ("\n<think>\nhm\n</think>\n\nok", "\nhm\n", "\n\nok"),
        ("<think>hm", "hm", ""),
        ("<think>a</thin", "a</thin", ""),
        ("<think></think>ok", "", "ok"),
        ("ok <think>no</think>", "", "ok <think>no</think>"),
        ("hm</think>ok", "", "hm</think>ok"),
        (" <thin ", "", " <thin "),
        ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
        ("", "", ""),
    ] {
        let message = tiny.answer(text, &user());
        assert_eq!(
            message["reasoning_content"].as_str().unwrap_or_default(),
            reasoning
        );
        assert_eq!(message["content"], content, "{text:?}");
        assert_eq!(message["finish_reason"], "stop");
        let counted = message["reasoning_tokens"].as_u64().unwrap();
        assert_eq!(
            counted > 0,
            text.trim_start().starts_with("<think>"),
            "{text:?}"
        );
    }
    // A stop string is looked for in all of the text.
    for (stop, reasoning, content) in [("m", "h", ""), ("</thi", "hm", ""), ("k>o", "hm</thin", "")]
    {
        let mut body = user();
        body["stop"] = json!(stop);
        let message = tiny.answer("<think>hm</think>ok", &body);
        assert_eq!(message["reasoning_content"], reasoning, "{stop}");
        assert_eq!(message["content"], content);
    }
    let plain = Scripted::new(PLAIN);
    let message = plain.answer("<think>hm</think>ok", &user());
    assert_eq!(message["content"], "<think>hm</think>ok");
    assert!(message["reasoning_tokens"].is_null());
}

#[test]
fn a_prompt_may_open_the_reasoning() {
    let tiny = Scripted::new(OPENS);
    let message = tiny.answer("hm</think>ok", &user());
    assert_eq!(message["reasoning_content"], "hm");
    assert_eq!(message["content"], "ok");
    let message = tiny.answer("hm", &user());
    assert_eq!(
        (&message["reasoning_content"], &message["content"]),
        (&json!("hm"), &json!(""))
    );
    // Without its turn's header nothing is open, even if somebody says so.
    let body = json!({
        "messages": [{"role": "user", "content": "<think>"}], "add_generation_prompt": false,
    });
    assert_eq!(
        tiny.answer("hm</think>ok", &body)["content"],
        "hm</think>ok"
    );
}

#[test]
fn a_final_message_goes_on_where_it_ended() {
    let tiny = Scripted::new(SHOWS);
    for (said, text, reasoning, content) in [
        ("<think>h", "m</think>ok", "m", "ok"),
        ("<think>h</think>", "ok", "", "ok"),
        ("it is ", "<think>1</think>", "", "<think>1</think>"),
        ("", "<think>1</think>2", "1", "2"),
    ] {
        let body = json!({
            "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": said}],
            "continue_final_message": true, "return_token_ids": true,
        });
        let message = tiny.answer(text, &body);
        assert_eq!(
            message["reasoning_content"].as_str().unwrap_or_default(),
            reasoning
        );
        assert_eq!(message["content"], content, "{said:?}");
        tiny.says(text);
        let response = chat(&tiny.engine, &body).unwrap();
        let written = tiny.engine.tokenizer().encode(&format!("uxa{said}"), false);
        assert_eq!(response["prompt_token_ids"], json!(written.unwrap()));
    }
    let lost = json!({
        "messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}],
        "continue_final_message": true,
    });
    let plain = Scripted::new(PLAIN);
    let (code, param, _) = refused(chat(&plain.engine, &lost));
    assert_eq!(
        (&*code, &*param),
        ("invalid_request", "continue_final_message")
    );
}

fn tools() -> Value {
    let mut body = user();
    body["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
    body
}

#[test]
fn tools_are_called() {
    let tiny = Scripted::new(SHOWS);
    let call = r#"<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>"#;
    let message = tiny.answer(call, &tools());
    assert_eq!(message["content"], "");
    assert_eq!(message["finish_reason"], "tool_calls");
    let function = json!({"name": "f", "arguments": r#"{"a":1}"#});
    assert_eq!(message["tool_calls"][0]["function"], function);
    for (text, content, calls) in [
        ("k\n<tool_call>\n{\"name\":\"f\"}\n</tool_call>\n", "k\n", 1),
        ("<tool_call>{\"name\":\"f\"}", "", 1),
        (
            "<tool_call>{\"name\":\"f\"}</tool_call> <tool_call>{\"name\":\"g\"}</tool_call>",
            "",
            2,
        ),
    ] {
        let message = tiny.answer(text, &tools());
        assert_eq!(message["content"], content, "{text:?}");
        assert_eq!(
            message["tool_calls"].as_array().unwrap().len(),
            calls,
            "{text:?}"
        );
        assert_eq!(message["finish_reason"], "tool_calls");
    }
}

#[test]
fn what_is_no_call_stays_text() {
    let tiny = Scripted::new(SHOWS);
    let call = "<tool_call>{\"name\":\"f\"}</tool_call>";
    for text in [
        "\n<tool_call>{\"name\":7}</tool_call>",
        "<tool_call>f(1)</tool_call> k",
        "<tool_call>",
        "k </tool_call> <tool_c",
        "  \n",
    ] {
        let message = tiny.answer(text, &tools());
        assert_eq!(message["content"], text);
        assert!(message["tool_calls"].is_null() && message["finish_reason"] == "stop");
    }
    // Nobody asked for calls.
    let mut none = tools();
    none["tool_choice"] = json!("none");
    assert_eq!(tiny.answer(call, &none)["content"], call);
    assert_eq!(tiny.answer(call, &user())["content"], call);
    // Cut short.
    let mut short = tools();
    short["max_tokens"] = json!(12);
    let message = tiny.answer(call, &short);
    assert_eq!(message["finish_reason"], "length");
    assert!(call.starts_with(message["content"].as_str().unwrap()));
}

/// What a request adds reaches the template: arguments as objects, tools with `tool_choice: "none"` too, parts one a line.
#[test]
fn the_template_sees_what_the_request_says() {
    let tiny = Scripted::new(SHOWS);
    let prompt = |body: &Value| {
        let mut body = body.clone();
        body["return_token_ids"] = json!(true);
        body["max_tokens"] = json!(1);
        let response = chat(&tiny.engine, &body).unwrap();
        let ids: Vec<u32> = serde_json::from_value(response["prompt_token_ids"].clone()).unwrap();
        tiny.engine.tokenizer().decode(&ids)
    };
    assert_eq!(prompt(&tools()), "uxf>");
    let mut none = tools();
    none["tool_choice"] = json!("none");
    assert_eq!(prompt(&none), "uxf>");
    let mut empty = user();
    empty["tools"] = json!([]);
    empty["add_generation_prompt"] = json!(false);
    assert_eq!(prompt(&empty), "ux");
    let calls = json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 5}"}}]);
    let body = json!({"messages": [
        {"role": "developer", "content": "d"},
        {"role": "assistant", "content": null, "tool_calls": calls, "reasoning_content": "r", "refusal": null},
        {"role": "tool", "content": [{"type": "text", "text": "y"}, {"type": "text", "text": "z"}], "tool_call_id": "1"},
    ]});
    assert_eq!(prompt(&body), "sda5ty\nz1>");
    let mut body = user();
    body["documents"] = json!([{"text": "t"}, {"text": "u"}]);
    body["chat_template_kwargs"] = json!({"effort": "<|im_end|>"});
    // Ten bytes or so, and no control token, which would have no text.
    assert_eq!(prompt(&body), "ux2<|im_end|>>");
}

/// Some vocabularies have marks as control tokens, which are no text otherwise.
#[test]
fn marks_may_be_control_tokens() {
    let tiny = Scripted::with_token(SHOWS, b"</tool_call>");
    let call = "<tool_call>{\"name\":\"f\"}</tool_call> k";
    let tokens = tiny.engine.tokenizer().encode(call, true).unwrap();
    assert!(tokens.contains(&1));
    let message = tiny.answer(call, &tools());
    assert_eq!(message["content"], " k");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "f");
    // Where no calls are looked for, it stays without text.
    let message = tiny.answer(call, &user());
    assert_eq!(message["content"], "<tool_call>{\"name\":\"f\"} k");
}
