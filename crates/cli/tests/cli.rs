//! The binary from outside: exit status, one line on stderr, nothing but the object on stdout. Runs the
//! TINY model on `--device cpu`, so no GPU is needed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");
/// Far more than any of these takes.
const LIMIT: Duration = Duration::from_secs(60);

struct Output {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Output {
    /// The one object on stdout.
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.stdout))
    }

    /// Fails with `code` and one line on stderr that has all of `words`.
    fn assert_error(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(
            self.stderr.lines().count(),
            1,
            "one line: {:?}",
            self.stderr
        );
        assert!(self.stderr.starts_with("error: "), "{:?}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} in {:?}", self.stderr);
        }
    }
}

fn spawn(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(args)
        .env("FORETOKEN_MODELS", DATA)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// Waits, but not for ever. The outputs are far smaller than a pipe.
fn finish(mut child: Child) -> Output {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it hung");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut output = Output {
        code: status.code(),
        stdout: String::new(),
        stderr: String::new(),
    };
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut output.stdout).unwrap();
    }
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut output.stderr)
        .unwrap();
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    output
}

fn run_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(args);
    // It may have failed before it read anything.
    let _ = child.stdin.take().unwrap().write_all(input);
    finish(child)
}

fn run(args: &[&str]) -> Output {
    run_with_input(args, b"")
}

/// `args` on TINY and the reference.
fn tiny(args: &[&str]) -> Output {
    run(&[args, &["--model", "tiny", "--device", "cpu"]].concat())
}

/// A file of this test's own.
fn write_file(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn path_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn completes_and_streams_the_same() {
    let args = [
        "complete",
        "--prompt",
        "The keeper",
        "--max-tokens",
        "8",
        "--return-token-ids",
        "--json",
    ];
    let whole = tiny(&args);
    assert_eq!((whole.code, whole.stderr.as_str()), (Some(0), ""));
    let whole = whole.json();
    assert_eq!(whole["usage"]["completion_tokens"], 8);
    let ids = whole["choices"][0]["token_ids"].as_array().unwrap().clone();
    assert_eq!(ids.len(), 8);

    let streamed = tiny(&[&args[..], &["--stream"]].concat());
    let mut text = String::new();
    let mut tokens = Vec::new();
    for line in streamed.stdout.lines() {
        let chunk: Value = serde_json::from_str(line).unwrap();
        text += chunk["choices"][0]["text"].as_str().unwrap();
        tokens.extend(chunk["choices"][0]["token_ids"].as_array().unwrap().clone());
    }
    assert_eq!(whole["choices"][0]["text"], text);
    assert_eq!(tokens, ids);

    let plain = tiny(&["complete", "--prompt", "The keeper", "--max-tokens", "8"]);
    assert_eq!((plain.code, plain.stdout), (Some(0), format!("{text}\n")));
    assert!(
        plain.stderr.contains("8 tokens") && plain.stderr.contains("tok/s"),
        "{}",
        plain.stderr
    );
}

#[test]
fn a_prompt_comes_as_an_argument_a_file_a_pipe_or_messages() {
    let chat = |args: &[&str], input: &str| {
        let fixed = [
            "chat",
            "--model",
            "tiny",
            "--device",
            "cpu",
            "--max-tokens",
            "6",
            "--json",
        ];
        let output = run_with_input(&[&fixed[..], args].concat(), input.as_bytes());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.json()["choices"][0]["message"]["content"].clone()
    };
    let expected = chat(&["What is 7?"], "");
    assert_eq!(chat(&[], "What is 7?\n"), expected);
    let messages = write_file(
        "messages.json",
        br#"[{"role": "user", "content": "What is 7?"}]"#,
    );
    assert_eq!(chat(&["--messages", path_str(&messages)], ""), expected);
    assert_ne!(chat(&["--system", "Be short", "What is 7?"], ""), expected);

    let file = write_file("prompt.txt", b"The keeper");
    let complete = |args: &[&str]| {
        let output = tiny(&[&["complete", "--max-tokens", "4", "--json"], args].concat());
        output.json()["choices"].clone()
    };
    assert_eq!(
        complete(&["--prompt-file", path_str(&file)]),
        complete(&["--prompt", "The keeper"])
    );
}

#[test]
fn stop_can_be_repeated() {
    let free = tiny(&[
        "complete",
        "--prompt",
        "The keeper",
        "--max-tokens",
        "12",
        "--json",
    ])
    .json();
    let text = free["choices"][0]["text"].as_str().unwrap().to_owned();
    let stop: String = text.chars().skip(5).take(2).collect();
    let output = tiny(&[
        "complete",
        "--prompt",
        "The keeper",
        "--json",
        "--stop",
        "\u{1F600}",
        "--stop",
        &stop,
    ]);
    let stopped = output.json();
    assert_eq!(
        stopped["choices"][0]["text"],
        text[..text.find(&stop).unwrap()]
    );
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
}

#[test]
fn files_that_are_no_model() {
    let cpu = |model: &str| run(&["chat", "--model", model, "--device", "cpu", "x"]);
    cpu("nowhere").assert_error(1, &["nowhere", "cargo xtask model nowhere"]);
    cpu("no/such.gguf").assert_error(1, &["no/such.gguf", "no such file"]);
    cpu(DATA).assert_error(1, &["directory"]);
    let empty = write_file("empty.gguf", b"");
    cpu(path_str(&empty)).assert_error(1, &["empty"]);
    let text = write_file("text.gguf", b"this is no model, it is a line of text\n");
    cpu(path_str(&text)).assert_error(1, &["not a GGUF file"]);
    let bytes = std::fs::read(format!("{DATA}/tiny.gguf")).unwrap();
    for (name, len) in [
        ("header.gguf", 40),
        ("half.gguf", bytes.len() / 2),
        ("last.gguf", bytes.len() - 1),
    ] {
        let cut = write_file(name, &bytes[..len]);
        cpu(path_str(&cut)).assert_error(1, &[name]);
    }
    let output = run(&["chat", "--model", "nowhere", "--json", "x"]);
    output.assert_error(1, &["nowhere"]);
    assert_eq!(output.json()["error"]["code"], "model_not_found");
    let output = run(&["inspect", path_str(&text), "--json"]);
    output.assert_error(1, &["not a GGUF file"]);
    assert_eq!(output.json()["error"]["code"], "corrupt_weights");
}

#[test]
fn a_prompt_beyond_the_context() {
    let long = "the ".repeat(50);
    tiny(&["chat", &long]).assert_error(1, &["context"]);
    let output = tiny(&["complete", "--prompt", &"1".repeat(64), "--json"]);
    output.assert_error(1, &["64"]);
    let error = &output.json()["error"];
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(error["type"], "invalid_request_error");
    assert_eq!(error["param"], "prompt");
    tiny(&["chat", "x", "--context-length", "65"]).assert_error(1, &["65", "64"]);
    tiny(&["chat", "x", "--max-tokens", "65"]).assert_error(1, &["max_tokens", "65"]);
}

#[test]
fn wrong_usage_is_two() {
    run(&["chat", "--frobnicate"]).assert_error(2, &["--frobnicate"]);
    run(&["sing"]).assert_error(2, &["sing"]);
    run(&[]).assert_error(2, &["chat"]);
    run(&["complete"]).assert_error(2, &["--prompt"]);
    run(&["complete", "--prompt", "a", "--prompt-file", "b"]).assert_error(2, &["--prompt"]);
    run(&["chat", "--max-tokens", "0", "x"]).assert_error(2, &["--max-tokens"]);
    run(&["chat", "--max-tokens", "many", "x"]).assert_error(2, &["--max-tokens"]);
    run(&["chat", "--context-length", "0", "x"]).assert_error(2, &["--context-length"]);
    run(&["chat", "--temperature", "0.8", "x"]).assert_error(2, &["sampling is not built yet"]);
    run(&["chat", "--temperature", "NaN", "x"]).assert_error(2, &["--temperature"]);
    run(&["chat", "--top-k", "5", "x"]).assert_error(2, &["--top-k"]);
    run(&["inspect"]).assert_error(2, &["MODEL"]);
    let help = run(&["chat", "--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("--temperature") && help.stdout.contains("greedy"));
    assert_eq!(run(&["--version"]).code, Some(0));
}

#[test]
fn what_is_wrong_with_messages_is_said_before_a_model_is_loaded() {
    let messages = |content: &[u8]| {
        let name = format!("bad-{}.json", content.len());
        let file = write_file(&name, content);
        run(&[
            "chat",
            "--model",
            "tiny",
            "--device",
            "cpu",
            "--json",
            "--messages",
            path_str(&file),
        ])
    };
    messages(b"[{").assert_error(1, &["no JSON"]);
    messages(b"{\"role\": 1}").assert_error(1, &["list"]);
    messages(b"[]").assert_error(1, &["messages"]);
    messages(br#"[{"role": "user"}]"#).assert_error(1, &["messages[0].content"]);
    let output = messages(br#"[{"role": "user", "content": 5}]"#);
    output.assert_error(1, &["messages[0].content"]);
    assert_eq!(output.json()["error"]["param"], "messages[0].content");
    let missing = run(&["chat", "--messages", "no-such.json"]);
    missing.assert_error(1, &["no-such.json"]);
    let stops = ["a"; 5].map(|stop| ["--stop", stop]).concat();
    run(&[&["chat", "--model", "nowhere", "x"], &stops[..]].concat()).assert_error(1, &["stop"]);
    run_with_input(&["chat", "--model", "nowhere"], b"\xff\xfe").assert_error(1, &["UTF-8"]);
    run_with_input(&["chat", "--model", "nowhere"], b"\n").assert_error(1, &["empty"]);
}

#[test]
fn no_such_device() {
    let output = run(&["chat", "--model", "tiny", "--device", "99", "--json", "x"]);
    output.assert_error(1, &["adapter"]);
    assert_eq!(output.json()["error"]["code"], "webgpu_unavailable");
    run(&["chat", "--model", "tiny", "--tier", "quantum", "x"])
        .assert_error(1, &["quantum", "base"]);
    tiny(&["chat", "--tier", "base", "x"]).assert_error(1, &["--tier"]);
}

#[test]
fn a_template_that_raises() {
    let bytes = std::fs::read(format!("{DATA}/tiny.gguf")).unwrap();
    let from = b"{{ '<|im_start|>' + message['role'] + '";
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .expect("the template is there");
    let mut raising = bytes.clone();
    // The rest of the original expression stays behind it.
    let call = format!(
        "{:<width$}+ '",
        "{{ raise_exception('no, thanks')",
        width = from.len() - 3
    );
    assert_eq!(call.len(), from.len());
    raising[at..at + from.len()].copy_from_slice(call.as_bytes());
    let file = write_file("raising.gguf", &raising);
    let output = run(&[
        "chat",
        "--model",
        path_str(&file),
        "--device",
        "cpu",
        "--json",
        "x",
    ]);
    output.assert_error(1, &["template", "no, thanks"]);
    assert_eq!(output.json()["error"]["code"], "invalid_request");
    let file = path_str(&file);
    let complete = run(&[
        "complete",
        "--model",
        file,
        "--device",
        "cpu",
        "--prompt",
        "x",
        "--max-tokens",
        "1",
    ]);
    assert_eq!(complete.code, Some(0), "{}", complete.stderr);
}

#[test]
fn inspect_and_devices() {
    let inspect = run(&["inspect", "tiny", "--json"]).json();
    assert_eq!(inspect["model"]["architecture"], "llama");
    assert_eq!(inspect["model"]["vocabulary"], 512);
    assert_eq!(inspect["runs"], true);
    let text = run(&["inspect", "tiny"]);
    assert_eq!(text.code, Some(0));
    assert!(
        text.stdout.contains("smollm") && text.stdout.contains("F16"),
        "{}",
        text.stdout
    );
    let devices = run(&["devices", "--json"]);
    assert_eq!(devices.code, Some(0));
    assert!(devices.json()["adapters"].is_array());
    assert!(run(&["devices"]).stdout.contains("--device cpu"));
}

#[test]
fn bench_reports_what_it_measured() {
    let report = tiny(&["bench", "--json"]).json();
    assert_eq!(report["prefill"][0]["tokens"], 32);
    for pointer in [
        "/load_ms",
        "/time_to_first_token_ms",
        "/prefill/0/tokens_per_second",
        "/decode/tokens_per_second",
    ] {
        let value = report.pointer(pointer).and_then(Value::as_f64);
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{pointer}: {value:?}"
        );
    }
    assert!(
        report.get("counters").is_none(),
        "the reference counts nothing"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = spawn(&[
        "complete", "--model", "tiny", "--device", "cpu", "--prompt", "a",
    ]);
    drop(child.stdout.take());
    let output = finish(child);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn an_interrupt_is_130() {
    // It waits for the rest of the prompt.
    let child = spawn(&["chat", "--model", "tiny", "--device", "cpu"]);
    std::thread::sleep(Duration::from_millis(1500));
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_eq!(finish(child).code, Some(130));
}
