//! The endpoints on TINY and `CpuOps`.

use foretoken_core::Ops;
use foretoken_reference::CpuOps;
use foretoken_weights::BytesSource;
use pollster::block_on;
use serde_json::{Value, json};

use super::*;
use crate::{EngineOptions, MAX_WAITING, SpeculativeConfig};

fn routes() -> Routes<CpuOps> {
    routes_with(EngineOptions::new("tiny", "cpu reference"))
}

fn routes_with(options: EngineOptions) -> Routes<CpuOps> {
    let source = BytesSource(include_bytes!("../../../../tests/data/tiny.gguf"));
    let ops = CpuOps::with_threads(1);
    Routes::new(block_on(Engine::load(ops, &source, options, &mut |_| {})).unwrap())
}

fn handle(routes: &Routes<CpuOps>, method: &str, path: &str, body: &str) -> Reply<CpuOps> {
    let body = body.as_bytes();
    block_on(routes.handle(Request { method, path, body }, AbortSignal::new()))
}

fn whole<O: Ops>(reply: Reply<O>) -> (u16, Value) {
    let Body::Whole(text) = reply.body else {
        panic!("a stream where a whole reply is due");
    };
    assert_eq!(reply.content_type, JSON);
    (reply.status, serde_json::from_str(&text).unwrap())
}

fn events(reply: Reply<CpuOps>) -> Vec<String> {
    assert_eq!((reply.status, reply.content_type), (200, EVENT_STREAM));
    let Body::Events(mut events) = reply.body else {
        panic!("a whole reply where a stream is due");
    };
    std::iter::from_fn(|| block_on(events.next())).collect()
}

fn data(event: &str) -> &str {
    let line = event.strip_prefix("data: ").unwrap();
    let line = line.strip_suffix("\n\n").unwrap();
    assert!(!line.contains('\n'), "{event}");
    line
}

#[test]
fn a_stream_says_what_the_whole_says_and_ends_with_done() {
    let routes = routes();
    let mut body = json!({ "prompt": "the cat", "max_tokens": 9, "temperature": 0 });
    let (status, answer) = whole(handle(
        &routes,
        "POST",
        "/v1/completions",
        &body.to_string(),
    ));
    assert_eq!(status, 200, "{answer}");

    body["stream"] = true.into();
    let events = events(handle(
        &routes,
        "POST",
        "/v1/completions",
        &body.to_string(),
    ));
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "data: [DONE]\n\n");
    let texts = chunks.iter().map(|chunk| {
        let chunk: Value = serde_json::from_str(data(chunk)).unwrap();
        chunk["choices"][0]["text"].as_str().unwrap().to_owned()
    });
    assert_eq!(
        texts.collect::<String>(),
        answer["choices"][0]["text"].as_str().unwrap()
    );
}

#[test]
fn the_model_is_listed_and_found_by_its_name() {
    let routes = routes();
    let (status, list) = whole(handle(&routes, "GET", "/v1/models", ""));
    assert_eq!((status, &list["object"]), (200, &json!("list")));
    assert_eq!(list["data"][0]["id"], "tiny");
    assert_eq!(list["data"][0]["max_model_len"], 64);
    let (status, model) = whole(handle(&routes, "GET", "/v1/models/tiny", ""));
    assert_eq!((status, &model), (200, &list["data"][0]));
    assert!(model.get("speculation").is_none(), "it was not asked for");
    let drafting = json!({"method": "ngram", "num_speculative_tokens": 2});
    let drafting = routes_with(EngineOptions {
        speculative_config: Some(SpeculativeConfig::parse(&drafting).unwrap()),
        ..EngineOptions::new("tiny", "cpu reference")
    });
    let (_, model) = whole(handle(&drafting, "GET", "/v1/models/tiny", ""));
    let expected = json!({"active": true, "method": "ngram", "reason": null});
    assert_eq!(model["speculation"], expected);
    let (status, error) = whole(handle(&routes, "GET", "/v1/models/gpt", ""));
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("model_not_found"))
    );
}

#[test]
fn a_models_name_in_a_path_may_be_percent_encoded() {
    for (part, text) in [
        ("tiny", "tiny"),
        ("%74in%79", "tiny"),
        ("my%207%25", "my 7%"),
        ("a%2Fb%2fc", "a/b/c"),
        ("%E2%82%AC", "\u{20ac}"),
        // What is no encoding, or encodes no text, is a name as it is.
        ("7%", "7%"),
        ("%2", "%2"),
        ("%+1", "%+1"),
        ("%\u{20ac}", "%\u{20ac}"),
        ("%ff%20", "%ff%20"),
        ("%25%32%30", "%20"),
    ] {
        assert_eq!(super::decoded(part), text);
    }
    let (status, _) = whole(handle(&routes(), "GET", "/v1/models/%74in%79", ""));
    assert_eq!(status, 200);
    let (status, _) = whole(handle(&routes(), "GET", "/v1/models/v1/models/tiny", ""));
    assert_eq!(status, 404);
}

#[test]
fn metrics_are_prometheus_text() {
    let reply = handle(&routes(), "GET", "/metrics", "");
    assert!(reply.content_type.starts_with("text/plain; version=0.0.4"));
    let Body::Whole(text) = reply.body else {
        panic!("metrics are whole");
    };
    assert!(text.contains("vllm:generation_tokens_total{model_name=\"tiny\"} 0"));
}

#[test]
fn every_fault_is_openais_error_object_under_its_status() {
    let routes = routes();
    let long = json!({ "prompt": vec![1; 64] }).to_string();
    let post = "POST";
    for (method, path, body, status, code, param) in [
        (post, "/v1/completions", "{", 400, "invalid_request", None),
        (
            post,
            "/v1/completions",
            r#"{"prompt": "a", "temperature": 9}"#,
            400,
            "invalid_request",
            Some("temperature"),
        ),
        (
            post,
            "/v1/completions",
            r#"{"prompt": "a", "model": "gpt"}"#,
            404,
            "model_not_found",
            Some("model"),
        ),
        (
            post,
            "/v1/completions",
            &long,
            400,
            "context_length_exceeded",
            Some("prompt"),
        ),
        (post, "/v1/embeddings", "{}", 404, "invalid_request", None),
        (
            "GET",
            "/v1/chat/completions",
            "",
            405,
            "invalid_request",
            None,
        ),
        (post, "/v1/models", "", 405, "invalid_request", None),
    ] {
        let reply = handle(&routes, method, path, body);
        assert_eq!(reply.allow.is_some(), status == 405, "{path}");
        let (found, object) = whole(reply);
        assert_eq!(found, status, "{path} {body}: {object}");
        let error = &object["error"];
        assert_eq!(error["code"], code, "{path} {body}");
        assert_eq!(error["param"], json!(param), "{path} {body}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|m| !m.contains('\n')));
    }
}

#[test]
fn a_full_queue_is_429_and_a_dropped_stream_makes_room() {
    let routes = routes();
    let stream = r#"{"prompt": "the cat", "stream": true}"#;
    let mut replies: Vec<_> = (0..=MAX_WAITING)
        .map(|_| handle(&routes, "POST", "/v1/completions", stream))
        .collect();
    let (status, error) = whole(handle(&routes, "POST", "/v1/completions", stream));
    assert_eq!((status, &error["error"]["code"]), (429, &json!("busy")));
    replies.remove(0);
    assert_eq!(
        handle(&routes, "POST", "/v1/completions", stream).status,
        200
    );
}

#[test]
fn an_aborted_stream_ends_without_a_word_more() {
    let routes = routes();
    let abort = AbortSignal::new();
    let request = Request {
        method: "POST",
        path: "/v1/completions",
        body: br#"{"prompt": "the cat", "stream": true}"#,
    };
    let reply = block_on(routes.handle(request, abort.clone()));
    let Body::Events(mut events) = reply.body else {
        panic!("a stream is due");
    };
    assert!(block_on(events.next()).is_some());
    abort.abort();
    assert_eq!(block_on(events.next()), None);
    assert_eq!(block_on(events.next()), None);
    assert_eq!(routes.engine().metrics().requests.abort, 1);
}
