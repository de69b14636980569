//! What every response and every chunk must look like, and the identities of its figures. Unknown members are violations:
//! strict clients reject them.

use serde_json::{Map, Value};

const HEADER: [&str; 5] = ["id", "object", "created", "model", "system_fingerprint"];

/// Fails on any violation in a whole response.
pub fn check_response(object: &str, response: &Value) {
    let chat = object == "chat.completion";
    let response = members(
        response,
        &[&HEADER[..], &["choices", "usage"]].concat(),
        &["metrics", "prompt_token_ids"],
    );
    check_header(object, response);
    let choices = response["choices"].as_array().unwrap();
    assert!(!choices.is_empty());
    let mut completion_tokens = 0;
    let mut all_ids = true;
    for (i, choice) in choices.iter().enumerate() {
        let text = if chat { "message" } else { "text" };
        let choice = members(
            choice,
            &["index", text, "logprobs", "finish_reason"],
            &["token_ids", "token_provenance"],
        );
        assert_eq!(choice["index"], i);
        if chat {
            let message = members(
                &choice["message"],
                &["role", "content", "refusal"],
                &["reasoning_content", "tool_calls"],
            );
            assert_eq!(message["role"], "assistant");
            check_parts(message, false);
            assert_eq!(
                choice["finish_reason"] == "tool_calls",
                message.contains_key("tool_calls") && choice["finish_reason"] != "length"
            );
            assert!(message["content"].is_string() && message["refusal"].is_null());
        } else {
            assert!(choice["text"].is_string());
        }
        let reason = choice["finish_reason"].as_str().unwrap();
        let reasons = ["stop", "length", "tool_calls", "abort"];
        assert!(reasons.contains(&reason), "{reason}");
        match choice.get("token_ids") {
            Some(ids) => completion_tokens += ids.as_array().unwrap().len() as u64,
            None => all_ids = false,
        }
        check_tokens(chat, choice);
    }
    check_usage(&response["usage"]);
    if all_ids {
        let prompt = response["prompt_token_ids"].as_array().unwrap();
        assert_eq!(response["usage"]["completion_tokens"], completion_tokens);
        assert_eq!(response["usage"]["prompt_tokens"], prompt.len());
    }
    if let Some(metrics) = response.get("metrics") {
        check_metrics(metrics, choices.len());
    }
}

/// Fails on any violation in the chunks of one stream.
pub fn check_chunks(object: &str, chunks: &[Value]) {
    let chat = object == "chat.completion.chunk";
    let mut finished = std::collections::BTreeMap::new();
    let mut choices_seen = 0;
    for (i, chunk) in chunks.iter().enumerate() {
        let chunk = members(
            chunk,
            &[&HEADER[..], &["choices"]].concat(),
            &["usage", "metrics", "prompt_token_ids"],
        );
        check_header(object, chunk);
        for name in HEADER {
            assert_eq!(chunk[name], chunks[0][name], "{name} is one in a stream");
        }
        assert!(i == 0 || !chunk.contains_key("prompt_token_ids"));
        let choices = chunk["choices"].as_array().unwrap();
        assert!(choices.len() <= 1);
        let Some(choice) = choices.first() else {
            assert_eq!(i + 1, chunks.len(), "only the last has no choice");
            check_usage(&chunk["usage"]);
            if let Some(metrics) = chunk.get("metrics") {
                check_metrics(metrics, choices_seen);
            }
            continue;
        };
        assert!(
            !chunk.contains_key("usage") && !chunk.contains_key("metrics"),
            "usage and metrics ride on the last chunk only"
        );
        let text = if chat { "delta" } else { "text" };
        let choice = members(
            choice,
            &["index", text, "logprobs", "finish_reason"],
            &["token_ids", "token_provenance"],
        );
        let index = choice["index"].as_u64().unwrap();
        let opens = index as usize == choices_seen;
        choices_seen = choices_seen.max(index as usize + 1);
        assert_eq!(index as usize + 1, choices_seen, "one after another");
        if chat {
            let delta = members(
                &choice["delta"],
                &["content"],
                &["role", "reasoning_content", "tool_calls"],
            );
            check_parts(delta, true);
            assert!(delta["content"].is_string());
            assert_eq!(
                delta.get("role"),
                opens.then(|| Value::from("assistant")).as_ref(),
                "the first delta of a choice has its role"
            );
        } else {
            assert!(choice["text"].is_string());
        }
        assert!(!finished.contains_key(&index), "nothing after the end");
        if let Some(reason) = choice["finish_reason"].as_str() {
            finished.insert(index, reason.to_owned());
        } else {
            assert!(choice["finish_reason"].is_null());
        }
        check_tokens(chat, choice);
    }
    assert_eq!(finished.len(), choices_seen, "every choice ends");
}

/// Reasoning and calls are there or not, never empty.
fn check_parts(message: &Map<String, Value>, chunk: bool) {
    if let Some(reasoning) = message.get("reasoning_content") {
        assert!(!reasoning.as_str().unwrap().is_empty());
    }
    let Some(calls) = message.get("tool_calls") else {
        return;
    };
    let calls = calls.as_array().unwrap();
    assert!(!calls.is_empty());
    for call in calls {
        let known = ["index", "id", "type", "function"];
        let call = members(call, &known[usize::from(!chunk)..], &[]);
        assert!(call["id"].as_str().unwrap().starts_with("call-") && call["type"] == "function");
        let function = members(&call["function"], &["name", "arguments"], &[]);
        let arguments = function["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Map<String, Value>>(arguments).is_ok());
    }
}

/// What is said of tokens is said of each.
fn check_tokens(chat: bool, choice: &Map<String, Value>) {
    let len = |name: &str| choice.get(name).map(|list| list.as_array().unwrap().len());
    let ids = len("token_ids");
    if let Some(provenance) = choice.get("token_provenance") {
        let provenance = provenance.as_array().unwrap();
        assert!(ids.is_none_or(|ids| ids == provenance.len()));
        let names = ["prefill", "plain", "draft", "recovered", "bonus"];
        assert!(
            provenance
                .iter()
                .all(|name| names.contains(&name.as_str().unwrap()))
        );
    }
    let logprobs = &choice["logprobs"];
    if logprobs.is_null() {
        return;
    }
    let number = |value: &Value| {
        let logprob = value.as_f64().unwrap();
        assert!(logprob <= 1e-6, "{logprob}");
        logprob
    };
    if chat {
        let logprobs = members(logprobs, &["content", "refusal"], &[]);
        let content = logprobs["content"].as_array().unwrap();
        assert!(ids.is_none_or(|ids| ids == content.len()));
        for token in content {
            let token = members(token, &["token", "logprob", "bytes", "top_logprobs"], &[]);
            assert!(token["token"].is_string() && token["bytes"].is_array());
            number(&token["logprob"]);
            let top = token["top_logprobs"].as_array().unwrap();
            let mut mass = 0.0;
            let mut last = f64::INFINITY;
            for alternative in top {
                let alternative = members(alternative, &["token", "logprob", "bytes"], &[]);
                let logprob = number(&alternative["logprob"]);
                assert!(logprob <= last, "the most probable first");
                last = logprob;
                mass += logprob.exp();
            }
            assert!(mass <= 1.0 + 1e-4, "{mass}");
        }
    } else {
        let lists = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];
        let logprobs = members(logprobs, &lists, &[]);
        let lens = lists.map(|list| logprobs[list].as_array().unwrap().len());
        assert!(
            lens.iter()
                .all(|len| *len == lens[0] && ids.is_none_or(|ids| ids == *len))
        );
        let offsets: Vec<u64> = logprobs["text_offset"]
            .as_array()
            .unwrap()
            .iter()
            .map(|offset| offset.as_u64().unwrap())
            .collect();
        assert!(offsets.is_sorted());
        logprobs["token_logprobs"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(|l| {
                number(l);
            });
    }
}

fn check_header(object: &str, value: &Map<String, Value>) {
    assert_eq!(value["object"], object);
    assert!(value["id"].as_str().is_some_and(|id| id.len() > 8));
    assert!(value["created"].as_u64().is_some_and(|s| s > 1_700_000_000));
    assert!(value["model"].is_string() && value["system_fingerprint"].is_string());
}

fn check_usage(usage: &Value) {
    let usage = members(
        usage,
        &[
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_tokens_details",
        ],
        &["completion_tokens_details"],
    );
    let count = |name: &str| usage[name].as_u64().unwrap();
    let details = members(&usage["prompt_tokens_details"], &["cached_tokens"], &[]);
    if let Some(details) = usage.get("completion_tokens_details") {
        let details = members(details, &["reasoning_tokens"], &[]);
        assert!(details["reasoning_tokens"].as_u64().unwrap() <= count("completion_tokens"));
    }
    assert_eq!(
        count("total_tokens"),
        count("prompt_tokens") + count("completion_tokens")
    );
    assert!(details["cached_tokens"].as_u64().unwrap() < count("prompt_tokens"));
}

/// The metrics of a response with `n` choices.
pub fn check_metrics(metrics: &Value, n: usize) {
    const TIMING: [&str; 5] = [
        "time_to_first_token_ms",
        "generation_time_ms",
        "queue_time_ms",
        "mean_itl_ms",
        "tokens_per_second",
    ];
    let metrics = members(
        metrics,
        &[],
        &[&TIMING[..], &["speculative_decoding", "foretoken"]].concat(),
    );
    assert!(!metrics.is_empty(), "no metrics rather than none within");
    if metrics.contains_key(TIMING[0]) {
        for name in TIMING {
            let value = &metrics[name];
            assert!(value.is_null() || (n == 1 && value.as_f64().is_some_and(|v| v >= 0.0)));
        }
    }
    if let Some(foretoken) = metrics.get("foretoken") {
        let foretoken = members(
            foretoken,
            &[
                "method",
                "active",
                "reason",
                "seed",
                "draft_time_ms",
                "verify_time_ms",
                "sync_time_ms",
                "plain_steps",
                "num_emitted_from_drafts",
                "dispatches",
                "submits",
                "readbacks",
            ],
            &[],
        );
        assert!(foretoken["seed"].is_u64() && foretoken["active"].is_boolean());
        assert!(
            metrics
                .get("speculative_decoding")
                .is_some_and(|s| s.is_null())
                || foretoken["active"] == true
        );
    }
    let Some(found) = metrics.get("speculative_decoding").filter(|s| !s.is_null()) else {
        return;
    };
    assert_eq!(n, 1, "null for several choices");
    let found = members(
        found,
        &[
            "mean_acceptance_length",
            "draft_acceptance_rate",
            "acceptance_histogram",
            "acceptance_histogram_by_draft_length",
            "num_spec_steps",
            "num_accepted_draft_tokens",
            "num_draft_tokens",
            "num_spec_tokens",
        ],
        &["per_step_accepted", "per_step_drafted"],
    );
    let list = |value: &Value| -> Vec<u64> {
        let values = value.as_array().unwrap().iter();
        values.map(|value| value.as_u64().unwrap()).collect()
    };
    let count = |name: &str| found[name].as_u64().unwrap();
    let (steps, accepted, drafted, k) = (
        count("num_spec_steps"),
        count("num_accepted_draft_tokens"),
        count("num_draft_tokens"),
        count("num_spec_tokens"),
    );
    let histogram = list(&found["acceptance_histogram"]);
    assert_eq!(histogram.len() as u64, k + 1);
    assert_eq!(histogram.iter().sum::<u64>(), steps);
    let weighted: u64 = (0..).zip(&histogram).map(|(j, count)| j * count).sum();
    assert_eq!(weighted, accepted);
    let mut summed = vec![0; histogram.len()];
    let mut by_length = 0;
    for (length, row) in found["acceptance_histogram_by_draft_length"]
        .as_object()
        .unwrap()
    {
        let (length, row) = (length.parse::<u64>().unwrap(), list(row));
        assert_eq!(row.len() as u64, length + 1);
        assert!(row.iter().sum::<u64>() > 0, "only observed lengths");
        by_length += length * row.iter().sum::<u64>();
        for (sum, count) in summed.iter_mut().zip(row) {
            *sum += count;
        }
    }
    assert_eq!((summed, by_length), (histogram, drafted));
    let ratio = |part: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    assert_eq!(
        found["mean_acceptance_length"],
        1.0 + ratio(accepted, steps)
    );
    assert_eq!(found["draft_acceptance_rate"], ratio(accepted, drafted));
    assert_eq!(
        found.contains_key("per_step_accepted"),
        metrics.contains_key("foretoken"),
        "both belong to the level `detailed`"
    );
    if let Some(per_step) = found.get("per_step_accepted") {
        let (per_step, drafts) = (list(per_step), list(&found["per_step_drafted"]));
        assert_eq!((per_step.len() as u64, drafts.len() as u64), (steps, steps));
        assert_eq!(per_step.iter().sum::<u64>(), accepted);
        assert_eq!(drafts.iter().sum::<u64>(), drafted);
        assert!(per_step.iter().zip(&drafts).all(|(a, d)| a <= d && *d <= k));
    }
}

/// The object, if it has all of `required` and nothing but those and `optional`.
fn members<'a>(value: &'a Value, required: &[&str], optional: &[&str]) -> &'a Map<String, Value> {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("an object: {value}"));
    for name in required {
        assert!(object.contains_key(*name), "{name} is missing: {value}");
    }
    for name in object.keys() {
        let known = required.contains(&&**name) || optional.contains(&&**name);
        assert!(known, "{name} is unknown: {value}");
    }
    object
}
