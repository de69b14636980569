//! Answers, whole and streamed, held against what transformers computed.

use foretoken_engine::Engine;
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{TinyGolden, read_golden};
use serde_json::{Value, json};

use crate::rig::{chat, complete, engine, ids, stream_chat, stream_completion};

/// `<|endoftext|>`, `<|im_start|>`, `<|im_end|>`.
const CONTROL: [u64; 3] = [0, 1, 2];

#[test]
fn ids_equal_the_reference_and_the_context_ends_the_answer() {
    let golden: TinyGolden = read_golden("tiny.json");
    let engine = engine();
    for (name, case) in &golden.files["tiny.gguf"] {
        let prompt = &golden.prompts[name];
        let body = json!({
            "prompt": prompt.text, "temperature": 0, "ignore_eos": true, "max_tokens": 20,
            "return_token_ids": true,
        });
        let response = complete(&engine, &body).unwrap();
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
            complete(&engine, &by_ids).unwrap()["choices"],
            response["choices"],
            "{name}"
        );
    }
}

#[test]
fn a_chat_reads_its_prompt_through_the_template() {
    let engine = engine();
    let body = json!({
        "messages": [{"role": "user", "content": "What is 7?"}],
        "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    let response = chat(&engine, &body).unwrap();
    let written = "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\n\
                   What is 7?<|im_end|>\n<|im_start|>assistant\n";
    let raw = json!({
        "prompt": written, "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    let completion = complete(&engine, &raw).unwrap();
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
    assert_ne!(response["id"], chat(&engine, &body).unwrap()["id"]);
    // Parts are lines, as in vLLM.
    let parts = json!({
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "What"}, {"type": "text", "text": "is 7?"},
        ]}],
        "temperature": 0, "max_tokens": 6, "return_token_ids": true,
    });
    let mut lines = parts.clone();
    lines["messages"][0]["content"] = json!("What\nis 7?");
    let (parts, lines) = (chat(&engine, &parts), chat(&engine, &lines));
    let (parts, lines) = (parts.unwrap(), lines.unwrap());
    assert_eq!(parts["prompt_token_ids"], lines["prompt_token_ids"]);
    assert_eq!(parts["choices"], lines["choices"]);
}

#[test]
fn control_tokens_in_a_message_stay_text() {
    let engine = engine();
    let count = |content: &str, engine: &Engine<CpuOps>| {
        let body = json!({
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": content}],
            "temperature": 0, "max_tokens": 1, "return_token_ids": true,
        });
        let response = chat(engine, &body).unwrap();
        let prompt = ids(&response["prompt_token_ids"]);
        prompt.iter().filter(|id| CONTROL.contains(id)).count()
    };
    let plain = count("A or B", &engine);
    assert_eq!(plain, 5, "two turns and the answer's header");
    for marker in ["<|im_end|>", "<|im_start|>", "<|endoftext|>"] {
        assert_eq!(count(&format!("A{marker}B"), &engine), plain, "{marker}");
    }
}

#[test]
fn a_stream_adds_up_to_the_whole() {
    let engine = engine();
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
        let whole = chat(&engine, &body(false)).unwrap();
        let chunks = stream_chat(&engine, &body(true));
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
    let engine = engine();
    let body =
        json!({"prompt": "The keeper", "temperature": 0, "max_tokens": 8, "ignore_eos": true});
    let whole = complete(&engine, &body).unwrap();
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let chunks = stream_completion(&engine, &streamed);
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
    let engine = engine();
    let body = |stop: Value| {
        json!({
            "prompt": "The keeper wrote the numbers in a book", "temperature": 0, "max_tokens": 40,
            "ignore_eos": true, "stop": stop, "return_token_ids": true,
        })
    };
    let free = complete(&engine, &body(Value::Null)).unwrap();
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
        let response = complete(&engine, &body(json!(stop))).unwrap();
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
    let never = complete(&engine, &body(json!("\u{1F600} never"))).unwrap();
    assert_eq!(
        never["choices"], free["choices"],
        "what is held back comes out in the end"
    );
}

#[test]
fn stop_tokens_and_end_of_generation_are_counted_but_no_text() {
    let engine = engine();
    let body = json!({
        "prompt": "The keeper wrote the numbers in a book", "temperature": 0, "max_tokens": 20,
        "ignore_eos": true, "return_token_ids": true,
    });
    let free = complete(&engine, &body).unwrap();
    let all = ids(&free["choices"][0]["token_ids"]);
    let nth = (1..all.len())
        .find(|&i| !all[..i].contains(&all[i]))
        .unwrap();
    let mut stopped = body.clone();
    stopped["stop_token_ids"] = json!([all[nth]]);
    let response = complete(&engine, &stopped).unwrap();
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
