//! The binary from outside: exit status, one line on stderr, nothing but the object on stdout. Runs the
//! TINY model on `--device cpu`, so no GPU is needed.

mod common;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{DATA, Output};
use serde_json::Value;

/// Far more than any of these takes.
const LIMIT: Duration = Duration::from_secs(60);

impl Output {
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
    spawn_with_stderr(args, Stdio::piped())
}

fn spawn_with_stderr(args: &[&str], stderr: Stdio) -> Child {
    // What is tuned here must not be taken elsewhere.
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(args)
        .env("FORETOKEN_MODELS", DATA)
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
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
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        // A terminal repeats what was typed, be it text or not.
        output.stdout = String::from_utf8_lossy(&bytes).into_owned();
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut output.stderr).unwrap();
    }
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
        "--temperature",
        "0",
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

    let plain = tiny(&[
        "complete",
        "--prompt",
        "The keeper",
        "--max-tokens",
        "8",
        "--temperature",
        "0",
    ]);
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
            "--temperature",
            "0",
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
    // This template does not look at the variable, and shows no tools.
    let variables = ["--chat-template-kwargs", "{\"x\": 1}", "What is 7?"];
    assert_eq!(chat(&variables, ""), expected);
    let tools = br#"[{"type": "function", "function": {"name": "f"}}]"#;
    let tools = write_file("tools.json", tools);
    let refused = tiny(&["chat", "--tools", path_str(&tools), "What is 7?"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("`tools`"), "{}", refused.stderr);

    let file = write_file("prompt.txt", b"The keeper");
    let complete = |args: &[&str]| {
        let output = tiny(
            &[
                &["complete", "--max-tokens", "4", "--seed", "1", "--json"],
                args,
            ]
            .concat(),
        );
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
        "--temperature",
        "0",
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
        "--temperature",
        "0",
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
    cpu("nowhere").assert_error(1, &["nowhere", "hf:owner/repository", "smollm2-135m"]);
    cpu("gemma3-none").assert_error(1, &["gemma3-none", "licence has to be accepted"]);
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
    run(&["chat", "--temperature", "2.5", "x"]).assert_error(2, &["--temperature", "0..=2"]);
    run(&["chat", "--temperature", "NaN", "x"]).assert_error(2, &["--temperature"]);
    run(&["chat", "--top-k", "many", "x"]).assert_error(2, &["--top-k"]);
    run(&["chat", "--presence-penalty", "-2.1", "x"]).assert_error(2, &["--presence-penalty"]);
    run(&["chat", "--seed", "1.5", "x"]).assert_error(2, &["--seed", "64 bits"]);
    run(&["chat", "--n", "9", "x"]).assert_error(2, &["--n"]);
    run(&["chat", "--logprobs", "21", "x"]).assert_error(2, &["--logprobs"]);
    run(&["chat", "--logit-bias", "[1]", "x"]).assert_error(2, &["--logit-bias", "object"]);
    run(&["chat", "--prefix-reuse", "some", "x"]).assert_error(2, &["--prefix-reuse", "exact"]);
    run(&["chat", "--per-request-spec-decode-metrics", "all", "x"]).assert_error(2, &["summary"]);
    for (config, word) in [
        ("{", "JSON"),
        ("{\"method\": \"guess\"}", "speculative_config.method"),
        (
            "{\"method\": \"ngram\", \"num_speculative_tokens\": 16}",
            "speculative_config.num_speculative_tokens",
        ),
        (
            "{\"method\": \"ngram\", \"num_speculative_tokens\": 1, \"k\": 1}",
            "speculative_config.k",
        ),
    ] {
        run(&["chat", "--speculative-config", config, "x"])
            .assert_error(2, &["--speculative-config", word]);
    }
    run(&["bench", "--prompts", "x.json"]).assert_error(2, &["--speculative-config"]);
    let methods = |methods: &str, more: &[&str]| {
        let fixed = ["bench", "--prompts", "x.json", "--methods", methods];
        run(&[&fixed[..], more].concat())
    };
    let config = |config: &str| methods("suffix,auto", &["--speculative-config", config]);
    methods("ngram", &[]).assert_error(2, &["--speculative-config"]);
    methods("ngram,guess", &SPECULATIVE[..2]).assert_error(2, &["--methods", "guess", "suffix"]);
    methods("", &SPECULATIVE[..2]).assert_error(2, &["--methods"]);
    methods("ngram,suffix,ngram", &SPECULATIVE[..2]).assert_error(2, &["--methods", "ngram twice"]);
    methods("draft_model", &SPECULATIVE[..2]).assert_error(2, &["--methods", "--draft-model"]);
    config(r#"{"method": "suffix", "num_speculative_tokens": 3, "adaptive": false}"#)
        .assert_error(2, &["--methods", "adaptive"]);
    run(&[&["bench", "--methods", "ngram"], &SPECULATIVE[..2]].concat())
        .assert_error(2, &["--prompts"]);
    run(&["inspect"]).assert_error(2, &["MODEL"]);
    let help = run(&["chat", "--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("--temperature") && help.stdout.contains("greedy"));
    assert_eq!(run(&["--version"]).code, Some(0));
}

/// An option's values: refused ones, one beyond each limit, with what has to be said about them; and values that
/// are taken, at each limit.
struct OptionValues {
    option: &'static str,
    said: &'static str,
    refused: &'static [&'static str],
    taken: &'static [&'static str],
}

const OPTION_VALUES: [OptionValues; 13] = [
    OptionValues {
        option: "--tier",
        said: "base, f16, subgroup, subgroup-f16",
        refused: &["fast", "", "BASE", "int8", "quantum"],
        taken: &["base", "f16", "subgroup", "subgroup-f16"],
    },
    OptionValues {
        option: "--tier",
        said: "not built",
        refused: &["int8"],
        taken: &[],
    },
    OptionValues {
        option: "--device",
        said: "foretoken devices",
        refused: &["", " "],
        taken: &["cpu", "0"],
    },
    OptionValues {
        option: "--temperature",
        said: "0..=2",
        refused: &["-0.1", "2.1", "NaN", "inf", ""],
        taken: &["0", "2"],
    },
    OptionValues {
        option: "--top-p",
        said: "above 0, up to 1,",
        refused: &["0", "-0.5", "1.1", "NaN", "many"],
        taken: &["0.000001", "1"],
    },
    OptionValues {
        option: "--min-p",
        said: "0..=1",
        refused: &["-0.1", "1.1"],
        taken: &["0", "1"],
    },
    OptionValues {
        option: "--repetition-penalty",
        said: "above 0, up to 10,",
        refused: &["0", "-1", "10.1", "inf"],
        taken: &["0.000001", "10"],
    },
    OptionValues {
        option: "--presence-penalty",
        said: "-2..=2",
        refused: &["-2.1", "2.1"],
        taken: &["-2", "2"],
    },
    OptionValues {
        option: "--frequency-penalty",
        said: "-2..=2",
        refused: &["-2.1", "2.1"],
        taken: &["-2", "2"],
    },
    OptionValues {
        option: "--top-k",
        said: "-1 or 0 (off), or 1 up to the size of the model's vocabulary",
        refused: &["-2", "1.5", "many", "4294967296", ""],
        taken: &["-1", "0", "1", "512"],
    },
    OptionValues {
        option: "--n",
        said: "1..=8",
        refused: &["-1", "0", "9"],
        taken: &["1", "8"],
    },
    OptionValues {
        option: "--logprobs",
        said: "0..=20",
        refused: &["-1", "21"],
        taken: &["0", "20"],
    },
    OptionValues {
        option: "--logit-bias",
        said: "logit_bias",
        refused: &[
            "{\"1\": 100.5}",
            "{\"1\": -101}",
            "{\"x\": 1}",
            "{\"1\": \"2\"}",
        ],
        taken: &["{}", "{\"1\": 100}", "{\"1\": -100}"],
    },
];

#[test]
fn a_wrong_value_is_wrong_usage_before_a_model_is_sought() {
    let chat = |args: &[&str]| run(&[&["chat", "--model", "nowhere", "x"], args].concat());
    for values in &OPTION_VALUES {
        for value in values.refused {
            chat(&[values.option, value]).assert_error(2, &[values.option, values.said]);
        }
        for value in values.taken {
            chat(&[values.option, value]).assert_error(1, &["nowhere"]);
        }
    }

    let stops = |texts: &[String]| {
        let args: Vec<&str> = texts.iter().flat_map(|text| ["--stop", text]).collect();
        chat(&args)
    };
    let of = |count: usize| ["\u{e9}".repeat(count)];
    stops(&of(0)).assert_error(2, &["--stop", "1..=256"]);
    stops(&of(257)).assert_error(2, &["--stop", "1..=256"]);
    stops(&of(1)).assert_error(1, &["nowhere"]);
    stops(&of(256)).assert_error(1, &["nowhere"]);
    stops(&["a"; 5].map(str::to_owned)).assert_error(2, &["--stop", "at most 4"]);
    stops(&["a"; 4].map(str::to_owned)).assert_error(1, &["nowhere"]);

    chat(&["--device", "cpu", "--tier", "base"]).assert_error(2, &["--tier", "--device cpu"]);
}

/// Where stderr cannot be written, nothing else changes.
#[cfg(target_os = "linux")]
#[test]
fn a_stderr_that_cannot_be_written_is_no_panic() {
    let full = || {
        let full = std::fs::File::options().write(true).open("/dev/full");
        Stdio::from(full.unwrap())
    };
    // The reading end is dropped.
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let ends: [(&str, &dyn Fn() -> Stdio); 2] = [("full", &full), ("closed", &closed)];
    for (name, stderr) in ends {
        let end = |args: &[&str]| {
            let mut child = spawn_with_stderr(args, stderr());
            drop(child.stdin.take());
            finish(child)
        };
        let complete = [
            "complete",
            "--model",
            "tiny",
            "--device",
            "cpu",
            "--prompt",
            "a",
            "--max-tokens",
            "4",
        ];
        let object = end(&[&complete[..], &["--json"]].concat());
        assert_eq!(object.code, Some(0), "{name}");
        assert_eq!(object.json()["usage"]["completion_tokens"], 4, "{name}");
        let text = end(&[&complete[..], &["--show-drafts=always"]].concat());
        assert_eq!(text.code, Some(0), "{name}");
        assert!(text.stdout.ends_with('\n'), "{name}: {:?}", text.stdout);
        let missing = end(&["chat", "--model", "nowhere", "--json", "x"]);
        assert_eq!(missing.code, Some(1), "{name}");
        assert_eq!(missing.json()["error"]["code"], "model_not_found", "{name}");
        assert_eq!(end(&["chat", "--frobnicate"]).code, Some(2), "{name}");
        assert_eq!(end(&[]).code, Some(2), "{name}");
    }
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
    let tools = write_file("bad-tools.json", br#"[{"type": "function"}]"#);
    let with_tools = ["chat", "--model", "nowhere", "--tools", path_str(&tools)];
    run(&[&with_tools[..], &["x"]].concat()).assert_error(1, &["tools[0].function"]);
    let variables = ["chat", "--model", "nowhere", "--chat-template-kwargs"];
    run(&[&variables[..], &["[1]", "x"]].concat()).assert_error(2, &["--chat-template-kwargs"]);
    run(&[&variables[..], &[r#"{"tools": 1}"#, "x"]].concat())
        .assert_error(1, &["chat_template_kwargs", "\"tools\""]);
    let missing = run(&["chat", "--messages", "no-such.json"]);
    missing.assert_error(1, &["no-such.json"]);
    run_with_input(&["chat", "--model", "nowhere"], b"\xff\xfe").assert_error(1, &["UTF-8"]);
    run_with_input(&["chat", "--model", "nowhere"], b"\n").assert_error(1, &["empty"]);
}

#[test]
fn no_such_device() {
    let output = run(&["chat", "--model", "tiny", "--device", "99", "--json", "x"]);
    output.assert_error(1, &["adapter"]);
    assert_eq!(output.json()["error"]["code"], "webgpu_unavailable");
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
    let tokens = &inspect["model"]["special_tokens"];
    assert_eq!(tokens["end_of_generation"][0]["id"], 2);
    assert_eq!(tokens["end_of_generation"][0]["text"], "<|im_end|>");
    assert_eq!(inspect["model"]["template"]["marks"][0], "<|im_start|>");
    assert!(
        text.stdout.contains("2 <|im_end|>") && text.stdout.contains("<|im_start|>"),
        "{}",
        text.stdout
    );
    // Only where there is a device that could be planned for.
    if let Some(plans) = inspect["memory"]["contexts"].as_array() {
        assert_eq!(plans.len(), 1);
        assert_eq!(plans[0]["context_length"], 64);
        // Two caches a layer, [2 heads of 16 dimensions, 64 positions], each of f32.
        let bytes = |name: &str| plans[0][name].as_u64().unwrap();
        assert_eq!(bytes("kv_cache_f32_bytes") % (2 * 64 * 4), 0);
        assert_eq!(bytes("kv_cache_f32_bytes"), 2 * bytes("kv_cache_f16_bytes"));
        assert!(bytes("total_bytes") > bytes("weights_bytes") + bytes("kv_cache_f16_bytes"));
        assert!(text.stdout.contains("scratch"), "{}", text.stdout);
    }
    let devices = run(&["devices", "--json"]);
    assert_eq!(devices.code, Some(0));
    assert!(devices.json()["adapters"].is_array());
    assert!(run(&["devices"]).stdout.contains("--device cpu"));
}

/// Of two layers the second is of no use: a model that would answer, and wrongly.
#[test]
fn inspect_says_that_a_tensor_would_be_left_out() {
    let mut bytes = std::fs::read(format!("{DATA}/tiny.gguf")).unwrap();
    let key = b"llama.block_count";
    let at = bytes.windows(key.len()).position(|window| window == key);
    // Behind the key its type, then the number.
    let count = at.unwrap() + key.len() + 4;
    assert_eq!(bytes[count], 2);
    bytes[count] = 1;
    let file = write_file("one_layer.gguf", &bytes);
    let inspect = run(&["inspect", path_str(&file), "--json"]).json();
    assert_eq!(inspect["runs"], false);
    let problem = inspect["model"]["problems"][0].as_str().unwrap();
    assert!(problem.contains("tensor `blk.1."), "{problem}");
    let text = run(&["inspect", path_str(&file)]).stdout;
    assert!(
        text.contains(&format!("does not load: {problem}\n")),
        "{text}"
    );
    assert!(!text.contains("would run"), "{text}");
    let args = ["complete", "--device", "cpu", "--prompt", "x", "--model"];
    run(&[&args[..], &[path_str(&file)]].concat()).assert_error(1, &[problem]);
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
        ["counters", "roofline", "tuning"]
            .iter()
            .all(|key| report.get(key).is_none()),
        "the reference counts nothing, has no device to probe and no kernels to tune"
    );
}

#[test]
fn bench_holds_passes_against_the_device() {
    let output = run(&["bench", "--model", "tiny", "--json"]);
    if output.code != Some(0) && output.json()["error"]["code"] == "webgpu_unavailable" {
        let required = std::env::var_os("FORETOKEN_REQUIRE_GPU").is_some_and(|value| value == "1");
        assert!(!required, "there is no GPU adapter");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no GPU adapter to bench on");
        return;
    }
    let report = output.json();
    let positive = |pointer: String| {
        let value = report.pointer(&pointer).and_then(Value::as_f64);
        assert!(
            value.is_some_and(|value| value.is_finite() && value > 0.0),
            "{pointer}: {value:?}"
        );
        value.unwrap()
    };
    let tuning = &report["tuning"];
    assert!(
        tuning["shape"]
            .as_str()
            .is_some_and(|shape| shape.starts_with("split="))
    );
    assert!(["measured", "kept", "class_default"].contains(&tuning["source"].as_str().unwrap()));
    for name in ["read_gb_per_s", "fma_gflop_per_s", "dispatch_us"] {
        positive(format!("/roofline/{name}"));
    }
    assert!(positive("/roofline/decode_fraction".to_owned()) < 1.0);
    for rows in [1, 2, 4, 8] {
        // The device cannot be faster than itself, but for what a noisy clock says.
        assert!(positive(format!("/roofline/excess/{rows}")) > 0.5);
    }
    for (rows, most) in [(1, 1.0), (4, 1.0), (8, 2.0), (16, 4.0)] {
        let factor = positive(format!("/counters/weight_read_factor/{rows}"));
        assert!(factor <= most, "{rows} rows read weights {factor} times");
    }
}

/// Drafts that a model which repeats itself accepts.
const SPECULATIVE: [&str; 4] = [
    "--speculative-config",
    r#"{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 3}"#,
    "--frequency-penalty",
    "-2",
];

#[test]
fn speculation_changes_no_text_and_is_told_of() {
    let complete = [
        "complete",
        "--prompt",
        "The keeper",
        "--max-tokens",
        "40",
        "--seed",
        "7",
    ];
    let plain = tiny(&[&complete[..], &["--frequency-penalty", "-2"]].concat());
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    assert!(!plain.stderr.contains("drafts"), "{}", plain.stderr);
    let drafted = tiny(&[&complete[..], &SPECULATIVE].concat());
    assert_eq!(drafted.stdout, plain.stdout);
    assert!(
        drafted.stderr.contains("drafts accepted")
            && drafted.stderr.contains("tokens a verify step")
            && drafted.stderr.contains("tok/s"),
        "{}",
        drafted.stderr
    );

    let details = [
        "--json",
        "--per-request-spec-decode-metrics",
        "detailed",
        "--enable-per-request-metrics",
        "--logprobs",
        "2",
    ];
    let whole = tiny(&[&complete[..], &SPECULATIVE, &details].concat()).json();
    assert_eq!(
        format!("{}\n", whole["choices"][0]["text"].as_str().unwrap()),
        plain.stdout
    );
    let metrics = &whole["metrics"];
    assert!(metrics["speculative_decoding"]["num_draft_tokens"].as_u64() > Some(0));
    assert_eq!(metrics["foretoken"]["seed"], 7);
    assert!(metrics["tokens_per_second"].is_f64());
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["token_logprobs"].as_array().unwrap().len(), 40);
}

#[test]
fn drafts_are_shown_in_colours_where_they_can_be_seen() {
    let complete = [
        "complete",
        "--prompt",
        "The keeper",
        "--max-tokens",
        "40",
        "--temperature",
        "0",
    ];
    let plain = tiny(&[&complete[..], &SPECULATIVE].concat());
    let piped = tiny(&[&complete[..], &SPECULATIVE, &["--show-drafts"]].concat());
    assert_eq!(piped.stdout, plain.stdout, "no colours into a pipe");
    let coloured = tiny(&[&complete[..], &SPECULATIVE, &["--show-drafts=always"]].concat());
    let mut text = String::new();
    for part in coloured.stdout.split('\u{1b}') {
        text += part.split_once('m').map_or(
            part,
            |(code, rest)| {
                if code.starts_with('[') { rest } else { part }
            },
        );
    }
    assert_eq!(text, plain.stdout);
    assert!(coloured.stdout.contains("\u{1b}[32m"), "accepted drafts");
    assert!(
        coloured.stderr.contains("draft accepted"),
        "the legend: {}",
        coloured.stderr
    );
    let json = tiny(&[&complete[..], &SPECULATIVE, &["--show-drafts", "--json"]].concat()).json();
    assert_eq!(json["choices"][0]["token_provenance"][0], "prefill");
}

#[test]
fn a_drawn_seed_is_said_and_gives_the_answer_again() {
    let complete = ["complete", "--prompt", "The keeper", "--max-tokens", "12"];
    let drawn = tiny(&complete);
    let seed = drawn.stderr.split("seed ").nth(1).expect("it is said");
    let seed = seed.trim_end().trim_end_matches(']');
    let again = tiny(&[&complete[..], &["--seed", seed]].concat());
    assert_eq!(again.stdout, drawn.stdout);
    assert!(!again.stderr.contains("seed"), "{}", again.stderr);
    let json = tiny(&[&complete[..], &["--json"]].concat());
    assert!(json.stderr.starts_with("seed "), "{}", json.stderr);
    assert_eq!(json.json()["object"], "text_completion");
    let other = tiny(&[&complete[..], &["--seed", "-1"]].concat());
    assert_ne!(other.stdout, drawn.stdout);
}

#[test]
fn every_sampling_option_reaches_the_engine() {
    let choose = |args: &[&str]| {
        let fixed = [
            "complete",
            "--prompt",
            "The keeper",
            "--max-tokens",
            "12",
            "--seed",
            "3",
            "--json",
            "--return-token-ids",
        ];
        let output = tiny(&[&fixed[..], args].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.json()["choices"].clone()
    };
    let (free, greedy) = (choose(&[]), choose(&["--temperature", "0"]));
    assert_ne!(free, greedy);
    for args in [
        ["--top-k", "1"],
        ["--top-p", "0.000001"],
        ["--min-p", "1"],
        ["--temperature", "0.000001"],
    ] {
        assert_eq!(choose(&args), greedy, "{args:?}");
    }
    assert_eq!(
        choose(&["--top-k", "-1", "--top-p", "1", "--min-p", "0"]),
        free
    );
    for args in [
        ["--presence-penalty", "-2"],
        ["--frequency-penalty", "-2"],
        ["--repetition-penalty", "0.5"],
        ["--logit-bias", "{\"100\": 100}"],
    ] {
        assert_ne!(choose(&args), free, "{args:?}");
    }
    let three = choose(&["--n", "3"]);
    assert_eq!(three.as_array().unwrap().len(), 3);
    assert_eq!(three[0], free[0]);
    let text = tiny(&[
        "complete",
        "--prompt",
        "a",
        "--max-tokens",
        "3",
        "--temperature",
        "0",
        "--n",
        "2",
    ]);
    let (first, second) = text.stdout.split_once("\n\n").expect("two answers");
    assert_eq!(first, second.trim_end_matches('\n'));
}

const DRAFT_MODEL: &str = "{\"method\": \"draft_model\", \"num_speculative_tokens\": 3}";

#[test]
fn a_draft_model_is_named_once_and_with_what_it_is_for() {
    let chat = |args: &[&str]| run(&[&["chat", "--model", "nowhere", "x"], args].concat());
    chat(&["--draft-model", "tiny"])
        .assert_error(2, &["--draft-model", "--speculative-config", "draft_model"]);
    chat(&["--speculative-config", DRAFT_MODEL])
        .assert_error(2, &["draft_model", "--draft-model", "model"]);
    let named = "{\"method\": \"draft_model\", \"num_speculative_tokens\": 3, \"model\": \"tiny\"}";
    chat(&["--speculative-config", named, "--draft-model", "tiny"])
        .assert_error(2, &["--draft-model", "speculative_config.model"]);
    let wrong = named.replace("draft_model", "ngram");
    chat(&["--speculative-config", &wrong])
        .assert_error(2, &["--speculative-config", "speculative_config.model"]);
    chat(&["--speculative-config", named]).assert_error(1, &["nowhere"]);

    let nowhere = ["--speculative-config", DRAFT_MODEL, "--draft-model"];
    for model in ["nowhere", "no/such.gguf"] {
        tiny(&[&["chat", "x"], &nowhere[..], &[model]].concat())
            .assert_error(1, &["--draft-model", model]);
    }
}

#[test]
fn a_draft_model_that_cannot_be_used_is_said_once_and_the_run_goes_on() {
    let complete = |more: &[&str]| {
        let fixed = [
            "complete",
            "--prompt",
            "The keeper",
            "--max-tokens",
            "6",
            "--temperature",
            "0",
            "--json",
            "--return-token-ids",
            "--per-request-spec-decode-metrics",
            "detailed",
        ];
        let output = tiny(&[&fixed[..], more].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output
    };
    let ids = |output: &Output| output.json()["choices"][0]["token_ids"].clone();
    let plain = ids(&complete(&[]));
    let drafting = |draft: &str| {
        let args = ["--speculative-config", DRAFT_MODEL, "--draft-model", draft];
        let output = complete(&args);
        assert_eq!(ids(&output), plain, "{draft}");
        let ours = output.json()["metrics"]["foretoken"].clone();
        assert_eq!(ours["method"], "draft_model", "{draft}");
        (output.stderr, ours)
    };
    // The folder's vocabulary is another one, which is mapped.
    let mapped = "folder has another vocabulary: both models write 73 % of a sample text in the same tokens, and only those are drafted\n";
    for (draft, said) in [("tiny_q4_0", ""), ("folder", mapped)] {
        let (stderr, ours) = drafting(draft);
        assert_eq!(
            (stderr.as_str(), &ours["active"]),
            (said, &Value::Bool(true))
        );
    }
    let text = write_file("draft.gguf", b"this is no model, it is a line of text\n");
    let empty = write_file("empty-draft.gguf", b"");
    for (draft, word) in [
        (path_str(&text), "not a GGUF file"),
        (path_str(&empty), "is empty"),
    ] {
        let (stderr, ours) = drafting(draft);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("warning: speculation is off: the draft model"));
        assert!(stderr.contains(word), "{word:?} in {stderr}");
        let reason = ours["reason"].as_str().unwrap();
        assert!(stderr.contains(reason) && ours["active"] == false, "{ours}");
    }
    let with_ngram = [&SPECULATIVE[..2], &["--draft-model", path_str(&text)]].concat();
    let output = complete(&with_ngram);
    assert!(output.stderr.starts_with("warning: the draft model"));
    assert_eq!(output.json()["metrics"]["foretoken"]["active"], true);
}

#[test]
fn bench_compares_plain_and_speculative_runs() {
    let prompts = write_file(
        "prompts.json",
        br#"[{"id": "repeats", "prompt": "The keeper the keeper the keeper the", "max_tokens": 30},
            {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}], "max_tokens": 2}]"#,
    );
    let args = ["bench", "--json", "--prompts", path_str(&prompts)];
    let report = tiny(&[&args[..], &SPECULATIVE[..2]].concat()).json();
    let cost = report["verify_cost"].as_object().unwrap();
    assert_eq!(cost.keys().collect::<Vec<_>>(), ["1", "2", "4", "8"]);
    assert_eq!(cost["1"], 1.0);
    // The model's context has no room for 100 tokens.
    assert!(report["model"]["context_length"].as_u64() < Some(100));
    assert_eq!(report["decode_at_context"], serde_json::json!([]));
    let entries = report["speculative"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["prompt"], "repeats");
    for entry in entries {
        assert_eq!(entry["outputs_equal"], true);
        let verified = entry["speculative_decoding"]["num_draft_tokens"].as_u64() > Some(0);
        assert_eq!(entry.get("speedup").is_some(), verified, "{entry}");
        assert_eq!(entry.get("predicted_speedup").is_some(), verified);
    }
    assert!(entries[0].get("speedup").is_some());

    // Suffix decoding is not shown the same prompt's answer of the run before: it would accept nearly all of it.
    let suffix = r#"{"method": "suffix", "num_speculative_tokens": 7, "adaptive": false}"#;
    let report = tiny(&[&args[..], &["--speculative-config", suffix]].concat()).json();
    let entry = &report["speculative"][0];
    assert_eq!(entry["outputs_equal"], true);
    let steps = entry["speculative_decoding"]["num_spec_steps"].as_u64();
    let accepted = entry["speculative_decoding"]["num_accepted_draft_tokens"].as_u64();
    assert!(steps > Some(0) && accepted < Some(15), "{entry}");

    let bad = |content: &[u8], word: &str| {
        let file = write_file(&format!("prompts-{}.json", content.len()), content);
        let args = ["bench", "--prompts", path_str(&file)];
        tiny(&[&args[..], &SPECULATIVE[..2]].concat()).assert_error(1, &[word]);
    };
    bad(b"{}", "list");
    bad(b"[]", "no prompt");
    bad(b"[{}]", "entry 0");
    bad(br#"[{"prompt": "x", "tokens": 1}]"#, "tokens");
    bad(br#"[{"prompt": "x", "max_tokens": 0}]"#, "max_tokens");
}

#[test]
fn bench_compares_methods() {
    let prompts = write_file(
        "prompts-of-methods.json",
        br#"[{"id": "copy-1", "prompt": "The keeper the keeper the keeper the", "max_tokens": 24},
            {"id": "chat-1", "messages": [{"role": "user", "content": "x"}], "max_tokens": 6},
            {"id": "copy-2", "prompt": "a b a b a b a", "max_tokens": 16}]"#,
    );
    let fixed = [
        "bench",
        "--prompts",
        path_str(&prompts),
        "--draft-model",
        "tiny_q4_0",
        "--speculative-config",
    ];
    let bench = |config: &str, more: &[&str]| {
        let output = tiny(&[&fixed[..], &[config], more].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output
    };
    let config = r#"{"method": "auto", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 3}"#;
    let names = ["suffix", "draft_model", "auto", "ngram"];
    let methods = ["--methods", "suffix,draft_model,auto,ngram"];
    let report = bench(config, &[&methods[..], &["--json"]].concat()).json();
    let cost = report["draft_cost"].as_f64().unwrap();
    assert!(cost > 0.0 && cost.is_finite(), "{cost}");

    let entries = report["speculative"].as_array().unwrap();
    let of = |entry: &Value| (entry["prompt"].clone(), entry["method"].clone());
    let expected = ["copy-1", "chat-1", "copy-2"]
        .into_iter()
        .flat_map(|prompt| names.map(|method| (prompt.into(), method.into())));
    assert_eq!(
        entries.iter().map(of).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
    for entry in entries {
        assert_eq!(entry["outputs_equal"], true, "{entry}");
        let verified = entry["speculative_decoding"]["num_draft_tokens"].as_u64() > Some(0);
        assert_eq!(entry.get("speedup").is_some(), verified, "{entry}");
        assert_eq!(entry.get("predicted_speedup").is_some(), verified);
        // Each is plain decoding's rate of the same round.
        assert!(entry["plain_tokens_per_second"].as_f64() > Some(0.0));
        assert!(entry.get("speculation").is_none(), "{entry}");
    }

    let summaries = report["speculative_summary"].as_array().unwrap();
    let kinds: Vec<_> = summaries
        .iter()
        .map(|summary| (summary["method"].clone(), summary["kind"].clone()))
        .collect();
    let expected = names
        .into_iter()
        .flat_map(|method| ["copy", "chat", "all"].map(|kind| (method.into(), kind.into())));
    assert_eq!(kinds, expected.collect::<Vec<(Value, Value)>>());
    for summary in summaries {
        let prompts = summary["prompts"].as_u64();
        assert_eq!(summary["outputs_equal"].as_u64(), prompts);
        assert_eq!(
            summary.get("speedup").is_some(),
            summary["speedups"].as_u64() > Some(0)
        );
        let steps: u64 =
            serde_json::from_value::<Vec<u64>>(summary["acceptance_histogram"].clone())
                .unwrap()
                .iter()
                .sum();
        assert_eq!(summary["num_spec_steps"].as_u64(), Some(steps));
        let rates: Vec<f64> =
            serde_json::from_value(summary["acceptance_per_pos"].clone()).unwrap();
        assert_eq!(rates.len(), 4);
        assert!(rates.is_sorted_by(|a, b| a >= b), "{summary}");
        let length = 1.0 + rates.iter().sum::<f64>();
        let mean = summary["mean_acceptance_length"].as_f64().unwrap();
        assert!((length - mean).abs() < 1e-9, "{summary}");
    }

    let text = bench(config, &methods).stdout;
    assert!(text.contains("draft model tiny_q4_0: "), "{text}");
    for name in names {
        // Of copy, chat and all, and of acceptance by position.
        let lines = text.lines().filter(|line| line.starts_with(name));
        assert_eq!(lines.count(), 4, "{name} in {text}");
    }

    // One configuration has the entries that it always had.
    let fixed_k = r#"{"method": "draft_model", "num_speculative_tokens": 3, "adaptive": false}"#;
    let report = bench(fixed_k, &["--json"]).json();
    assert!(report.get("speculative_summary").is_none());
    let entry = &report["speculative"][0];
    assert!(entry.get("method").is_none() && entry["outputs_equal"] == true);
    // Each step takes a pass of four rows, or what more rows take where noise makes that less, and three passes of the draft model.
    let number = |value: &Value| value.as_f64().unwrap();
    let steps = number(&entry["speculative_decoding"]["num_spec_steps"]);
    let pass = |rows: &str| number(&report["verify_cost"][rows]);
    let step = pass("4").min(pass("8")) + 3.0 * number(&report["draft_cost"]);
    let predicted = (number(&entry["tokens"]) - 1.0) / (steps * step);
    let found = number(&entry["predicted_speedup"]);
    assert!(
        found <= 1.2 * predicted,
        "{found}, by hand {predicted}: {report}"
    );
}

#[test]
fn bench_says_of_a_method_that_it_is_off() {
    let prompts = write_file(
        "prompts-without-draft.json",
        br#"[{"id": "copy-1", "prompt": "The keeper the keeper the keeper the", "max_tokens": 12}]"#,
    );
    let text = write_file("draft-of-bench.gguf", b"this is no model\n");
    let args = [
        "bench",
        "--json",
        "--prompts",
        path_str(&prompts),
        "--draft-model",
        path_str(&text),
        "--methods",
        "draft_model,ngram",
    ];
    let report = tiny(&[&args[..], &SPECULATIVE[..2]].concat()).json();
    let [model, ngram] = &report["speculative"].as_array().unwrap()[..] else {
        panic!("two methods: {report}");
    };
    assert_eq!(model["speculation"]["active"], false);
    let reason = model["speculation"]["reason"].as_str().unwrap();
    assert!(reason.contains("not a GGUF file"), "{reason}");
    assert!(model.get("speedup").is_none() && model["outputs_equal"] == true);
    assert!(ngram.get("speculation").is_none() && ngram.get("speedup").is_some());
    assert!(report.get("draft_cost").is_none());
    assert_eq!(report["speculative_summary"][0]["speedups"], 0);
}

/// The interactive chat wants a terminal; `script` of util-linux is one.
#[cfg(target_os = "linux")]
#[test]
fn a_conversation_keeps_its_history_until_reset() {
    let command = format!(
        "exec {} chat --model tiny --device cpu --max-tokens 4 --temperature 0 --system s",
        env!("CARGO_BIN_EXE_foretoken")
    );
    let child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("FORETOKEN_MODELS", DATA)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        // Not `eprintln!`, which the test harness would keep to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: there is no `script`, so no terminal"
        );
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let lines: [&[u8]; 7] = [
        b"hi\n",
        b"/bogus\n",
        b"h\xff\n",
        b"hi\n",
        b"/reset\n",
        b"hi\n",
        b"/quit\n",
    ];
    for line in lines {
        // What is typed while an answer is made waits in the terminal.
        input.write_all(line).unwrap();
    }
    let output = finish(child);
    drop(input);
    assert_eq!(output.code, Some(0), "{}", output.stdout);
    assert!(
        output.stdout.contains("no command \"/bogus\""),
        "{}",
        output.stdout
    );
    assert_eq!(
        output.stdout.matches("no UTF-8").count(),
        1,
        "{}",
        output.stdout
    );
    let prompts: Vec<&str> = output
        .stdout
        .split('[')
        .filter_map(|part| part.split_once(" prompt tokens").map(|(count, _)| count))
        .collect();
    let [first, second, third] = prompts[..] else {
        panic!("three answers: {}", output.stdout);
    };
    assert!(second.parse::<u32>().unwrap() > first.parse::<u32>().unwrap());
    assert_eq!(third, first, "after /reset");
}

/// Wants a model that takes its time.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_an_answer_and_keeps_it() {
    let models = std::env::var_os("FORETOKEN_MODELS").map(PathBuf::from);
    let models = models
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/foretoken/models")));
    let model = models.unwrap_or_default().join("smollm2-135m.gguf");
    // `exec`: a shell that waits for the chat would end by the same Ctrl-C.
    let command = format!(
        "exec {} chat --model {} --device cpu --temperature 0 --max-tokens 200",
        env!("CARGO_BIN_EXE_foretoken"),
        model.display()
    );
    let script = model.is_file().then(|| {
        Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    let Some(Ok(mut child)) = script else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} or `script` is missing",
            model.display()
        );
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // What it has put out so far, read as it comes.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stdout.read(&mut bytes) {
            if sender.send(bytes[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut shown = String::new();
    let mut wait_for = |from: usize, what: &str| -> usize {
        let start = Instant::now();
        loop {
            if let Some(at) = shown.get(from..).and_then(|rest| rest.find(what)) {
                return from + at + what.len();
            }
            assert!(start.elapsed() < LIMIT, "no {what:?} in {shown:?}");
            if let Ok(bytes) = receiver.recv_timeout(Duration::from_secs(1)) {
                shown += &String::from_utf8_lossy(&bytes);
            }
        }
    };
    let asked = wait_for(0, "> ");
    input.write_all(b"Count from 1 to 1000.\n").unwrap();
    let answered = wait_for(asked, " 2");
    input.write_all(b"\x03").unwrap();
    // The whole closing line: its rate may have the digit that is waited for next.
    let stopped = wait_for(answered, ", interrupted");
    let stopped = wait_for(stopped, "]");
    // What the second answer says depends on where the first was cut; it ends by itself.
    input.write_all(b"Go on.\n").unwrap();
    let end = wait_for(stopped, " prompt tokens");
    let end = wait_for(end, "]");
    input.write_all(b"/quit\n").unwrap();
    let output = finish(child);
    assert_eq!(output.code, Some(0));
    let count = |text: &str| -> u32 {
        let (before, _) = text.split_once(" prompt tokens").expect("a closing line");
        let digits = before.rsplit('[').next().unwrap_or_default();
        digits.parse().unwrap()
    };
    let (first, second) = (count(&shown[..stopped]), count(&shown[stopped..end]));
    assert!(
        second > first + 10,
        "the answer so far is kept: {first}, {second}"
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

/// What `folder/` holds and answers, against transformers (`golden/folder.json`).
#[test]
fn a_safetensors_folder_is_a_model() {
    let golden = std::fs::read(format!("{DATA}/../golden/folder.json")).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    for name in ["folder", "folder_shards"] {
        let complete = [
            "complete",
            "--prompt",
            golden["prompt"]["text"].as_str().unwrap(),
            "--max-tokens",
            "16",
            "--temperature",
            "0",
            "--json",
            "--return-token-ids",
            "--device",
            "cpu",
            "--model",
        ];
        let path = format!("{DATA}/{name}/");
        for model in [name, &path] {
            let answer = run(&[&complete[..], &[model]].concat()).json();
            assert_eq!(answer["model"], name);
            let choice = &answer["choices"][0];
            assert_eq!(answer["prompt_token_ids"], golden["prompt"]["prompt_ids"]);
            let expected = golden["folders"][name]["output_ids"].as_array().unwrap();
            let ids = choice["token_ids"].as_array().unwrap();
            assert!(
                !ids.is_empty() && expected.starts_with(ids),
                "{ids:?}, {expected:?}"
            );
        }
        let inspect = run(&["inspect", name, "--json"]).json();
        let report = &inspect["model"];
        assert_eq!(inspect["runs"], true, "{report}");
        assert_eq!(report["gguf_version"], Value::Null);
        assert_eq!(report["architecture"], "llama");
        assert_eq!(report["vocabulary"], 320);
        assert_eq!(report["chat"], true);
        assert_eq!(report["loaded_bytes"], report["weight_bytes"]);
        let quantized = run(&["inspect", name, "--quantize", "q4_0", "--json"]).json();
        let bytes = |report: &Value| report["loaded_bytes"].as_u64().unwrap();
        assert!(bytes(&quantized["model"]) < bytes(report));
    }
    let text = run(&["inspect", "folder"]);
    assert!(
        text.stdout.contains("safetensors folder"),
        "{}",
        text.stdout
    );
    // The conversation as the template writes it, until any of the ids that `generation_config.json` names.
    let messages = write_file(
        "messages.json",
        golden["chat"]["messages"].to_string().as_bytes(),
    );
    let chat = run(&[
        "chat",
        "--messages",
        path_str(&messages),
        "--model",
        "folder",
        "--device",
        "cpu",
        "--json",
        "--return-token-ids",
    ]);
    let chat = chat.json();
    assert_eq!(chat["prompt_token_ids"], golden["chat"]["prompt_ids"]);
}

#[test]
fn matrices_are_quantised_while_they_are_loaded() {
    let complete = |args: &[&str]| {
        let fixed = [
            "complete",
            "--prompt",
            "The keeper",
            "--device",
            "cpu",
            "--json",
        ];
        let greedy = ["--temperature", "0", "--max-tokens", "4", "--logprobs", "1"];
        run(&[&fixed[..], &greedy, args].concat())
    };
    let plain = complete(&["--model", "folder"]).json();
    let quantized = complete(&["--model", "folder", "--quantize", "q8_0"]).json();
    let logprobs = |answer: &Value| answer["choices"][0]["logprobs"]["token_logprobs"].clone();
    assert_ne!(logprobs(&plain), logprobs(&quantized));
    let fingerprint = |answer: &Value| answer["system_fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(
        fingerprint(&quantized),
        format!("{} quantize=q8_0", fingerprint(&plain))
    );
    complete(&["--model", "tiny_q4_0", "--quantize", "q8_0"])
        .assert_error(1, &["quantize", "q8_0", "Q4_0", "leave"]);
    complete(&["--model", "folder", "--quantize", "q2_k"]).assert_error(2, &["q8_0 or q4_0"]);
    let compare = ["--compare", "llama-cpp", "--device", "cpu"];
    for args in [
        &["--model", "folder"][..],
        &["--model", "tiny", "--quantize", "q8_0"],
    ] {
        run(&[&["bench"], &compare[..], args].concat()).assert_error(1, &["--compare", ".gguf"]);
    }
}
