//! Models of a hub, against one of this file's own on a port of this machine.

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use common::{DATA, Output};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Debug, Clone)]
struct Request {
    path: String,
    headers: HashMap<String, String>,
}

impl Request {
    /// Where the bytes begin that are asked for.
    fn from(&self) -> usize {
        let range = self.headers.get("range").map(|range| {
            let range = range.strip_prefix("bytes=").unwrap();
            range.strip_suffix('-').unwrap().parse().unwrap()
        });
        range.unwrap_or(0)
    }
}

#[derive(Default)]
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Closes the connection after so many bytes of the body.
    cut: Option<usize>,
}

fn status(status: u16) -> Reply {
    Reply {
        status,
        ..Reply::default()
    }
}

/// All of `bytes`, or what a range asks of it.
fn file(request: &Request, bytes: &[u8]) -> Reply {
    let from = request.from();
    let mut reply = status(if from > 0 { 206 } else { 200 });
    if from > 0 {
        let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
        reply.headers.push(("Content-Range", range));
    }
    reply.body = bytes[from..].to_vec();
    reply
}

/// A server that lives as long as the test's process.
struct Hub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Hub {
    fn new(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &log, &*answer));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The ranges that were asked of files, 0 for all.
    fn ranges(&self) -> Vec<usize> {
        let requests = self.requests();
        let files = requests
            .iter()
            .filter(|request| request.path.contains("/resolve/"));
        files.map(Request::from).collect()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> Reply) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let headers = lines.take_while(|line| !line.is_empty());
    let request = Request {
        path: first.split(' ').nth(1).unwrap().to_owned(),
        headers: headers
            .filter_map(|line| {
                line.split_once(": ")
                    .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            })
            .collect(),
    };
    log.lock().unwrap().push(request.clone());
    let reply = answer(&request);
    let mut head = format!(
        "HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {}\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = &stream;
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
    // Who asked may have gone.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(body);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn large(name: &str, bytes: &[u8]) -> Value {
    json!({ "rfilename": name, "size": bytes.len(), "blobId": "0".repeat(40),
        "lfs": { "sha256": hex(&Sha256::digest(bytes)), "size": bytes.len(), "pointerSize": 130 } })
}

fn small(name: &str, bytes: &[u8]) -> Value {
    let object = [format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat();
    json!({ "rfilename": name, "size": bytes.len(), "blobId": hex(&Sha1::digest(object)) })
}

fn listing(files: &[Value]) -> Reply {
    let body = json!({ "sha": COMMIT, "siblings": files, "cardData": { "license": "apache-2.0" } });
    let mut reply = status(200);
    reply.body = body.to_string().into_bytes();
    reply
}

fn tiny() -> Vec<u8> {
    std::fs::read(format!("{DATA}/tiny_q8_0.gguf")).unwrap()
}

/// A hub with TINY as its repository's only model, which `file` answers for.
fn hub_of_tiny(answer: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static) -> Hub {
    let bytes = tiny();
    Hub::new(move |request| match request.path.starts_with("/api/") {
        true => listing(&[small("README.md", b"hello"), large("tiny.gguf", &bytes)]),
        false => answer(request, &bytes),
    })
}

/// An empty home.
fn home(test: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("hub")
        .join(test);
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).unwrap();
    home
}

fn run(address: SocketAddr, home: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("FORETOKEN_MODELS", home)
        .env("HF_ENDPOINT", format!("http://{address}"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let output = Output {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    output
}

const TOKEN: [(&str, &str); 1] = [("HF_TOKEN", "hf_secret")];

/// Four tokens of a model, with further arguments.
fn complete_with(hub: &Hub, home: &Path, more: &[&str], variables: &[(&str, &str)]) -> Output {
    let args = [
        "complete",
        "--device",
        "cpu",
        "--prompt",
        "The",
        "--max-tokens",
        "4",
        "--temperature",
        "0",
        "--json",
    ];
    run(hub.address, home, &[&args, more].concat(), variables)
}

/// Four tokens of a model.
fn complete(hub: &Hub, home: &Path, model: &str, variables: &[(&str, &str)]) -> Output {
    complete_with(hub, home, &["--model", model], variables)
}

/// The same of TINY, with a draft model.
fn complete_with_draft(hub: &Hub, home: &Path, draft: &str) -> Output {
    let model = format!("{DATA}/tiny.gguf");
    let more = [
        "--per-request-spec-decode-metrics",
        "detailed",
        "--speculative-config",
        r#"{"method": "draft_model", "num_speculative_tokens": 2}"#,
        "--model",
        &model,
        "--draft-model",
        draft,
    ];
    complete_with(hub, home, &more, &[])
}

fn assert_text(output: &Output) {
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.json()["usage"]["completion_tokens"], 4);
}

/// Fails with `code`, and a last line on stderr that has all of `words`.
fn assert_error(output: &Output, code: &str, words: &[&str]) {
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert_eq!(output.json()["error"]["code"], code, "{}", output.stderr);
    let last = output.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: "), "{last}");
    for word in words {
        assert!(last.contains(word), "{word:?} in {last:?}");
    }
}

fn blobs(home: &Path) -> PathBuf {
    home.join(".cache/huggingface/hub/models--owner--repo/blobs")
}

#[test]
fn fetched_once_and_laid_out_as_the_hubs_tools_do() {
    let hub = hub_of_tiny(file);
    let home = home("once");
    let first = complete(&hub, &home, "hf:owner/repo", &[]);
    assert_text(&first);
    let said = "fetching tiny.gguf of owner/repo (128 kB; licence: apache-2.0) into";
    assert!(first.stderr.contains(said), "{}", first.stderr);
    assert_eq!(first.json()["model"], "tiny");
    let folder = home.join(".cache/huggingface/hub/models--owner--repo");
    let blob = folder.join("blobs").join(hex(&Sha256::digest(tiny())));
    assert_eq!(std::fs::read(&blob).unwrap(), tiny());
    assert_eq!(
        std::fs::read_to_string(folder.join("refs/main")).unwrap(),
        COMMIT
    );
    let link = folder.join("snapshots").join(COMMIT).join("tiny.gguf");
    assert_eq!(
        std::fs::canonicalize(&link).unwrap(),
        std::fs::canonicalize(&blob).unwrap()
    );
    if cfg!(unix) {
        assert!(
            std::fs::read_link(&link)
                .unwrap()
                .starts_with("../../blobs")
        );
    }
    let again = complete(&hub, &home, "hf:owner/repo/tiny.gguf", &[]);
    assert_text(&again);
    assert_eq!(again.stderr, "");
    assert_eq!(hub.ranges(), [0], "fetched once");
    // Neither a hub that is not there nor none that is to be asked keeps the model from running.
    let offline = complete(&hub, &home, "hf:owner/repo", &[("HF_HUB_OFFLINE", "1")]);
    assert_text(&offline);
    let asked = hub.requests().len();
    let nowhere = complete(
        &hub,
        &home,
        "hf:owner/repo",
        &[("HF_ENDPOINT", "http://127.0.0.1:9")],
    );
    assert_text(&nowhere);
    assert!(
        nowhere.stderr.contains("no answer") && nowhere.stderr.contains("fetched before is taken"),
        "{}",
        nowhere.stderr
    );
    assert_eq!(hub.requests().len(), asked);
}

/// A hub in trouble: what was fetched before runs, and stderr says why it was taken.
#[test]
fn what_was_fetched_before_runs_while_the_hub_fails() {
    type Trouble = fn() -> Reply;
    let page = || {
        let mut reply = status(200);
        reply.body = b"<html>maintenance</html>".to_vec();
        reply
    };
    let troubles: [(&str, Trouble); 6] = [
        ("408", || status(408)),
        ("429", || status(429)),
        ("500", || status(500)),
        ("503", || status(503)),
        ("no JSON", page),
        ("lists no files", || {
            let mut reply = status(200);
            reply.body = json!({ "sha": COMMIT }).to_string().into_bytes();
            reply
        }),
    ];
    let home = home("trouble");
    assert_text(&complete(&hub_of_tiny(file), &home, "hf:owner/repo", &[]));
    for (word, trouble) in troubles {
        let hub = Hub::new(move |_| trouble());
        let output = complete(&hub, &home, "hf:owner/repo", &[]);
        assert_text(&output);
        let warned = output.stderr.lines().any(|line| {
            line.starts_with("warning: ")
                && line.contains(word)
                && line.contains("what was fetched before is taken")
        });
        assert!(warned, "{word}: {}", output.stderr);
        // What was not fetched before does not run.
        let other = complete(&hub, &home, "hf:owner/other", &[]);
        assert_error(&other, "network", &[word]);
    }
    // A newer commit that cannot be had: the older one is there.
    let newer = Hub::new(|request| match request.path.starts_with("/api/") {
        true => listing(&[large("tiny.gguf", b"newer bytes")]),
        false => status(503),
    });
    let output = complete(&newer, &home, "hf:owner/repo", &[]);
    assert_text(&output);
    assert!(
        output.stderr.contains("fetched before"),
        "{}",
        output.stderr
    );
    // An answer that says no is none of these.
    for code in [401, 403, 404] {
        let hub = Hub::new(move |_| status(code));
        let output = complete(&hub, &home, "hf:owner/repo", &[]);
        assert_error(&output, "model_not_found", &[&code.to_string()]);
    }
}

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let bytes = tiny();
    let store = Hub::new(move |request| file(request, &bytes));
    let elsewhere = store.address;
    let hub = hub_of_tiny(move |_, _| {
        let mut reply = status(302);
        reply.headers.push((
            "Location",
            format!("http://{elsewhere}/resolve/there?signature=1"),
        ));
        reply
    });
    assert_text(&complete(&hub, &home("token"), "hf:owner/repo", &TOKEN));
    for request in hub.requests() {
        assert_eq!(
            request.headers["authorization"], "Bearer hf_secret",
            "{}",
            request.path
        );
    }
    let requests = store.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].headers.get("authorization"), None);

    // The one that the hub's own tools keep.
    let home = home("token_file");
    std::fs::create_dir_all(home.join(".cache/huggingface")).unwrap();
    std::fs::write(home.join(".cache/huggingface/token"), "hf_kept\n").unwrap();
    assert_text(&complete(&hub, &home, "hf:owner/repo", &[]));
    assert_eq!(
        hub.requests().last().unwrap().headers["authorization"],
        "Bearer hf_kept"
    );
}

#[test]
fn what_broke_off_goes_on_from_there() {
    let hub = hub_of_tiny(|request, bytes| {
        let mut reply = file(request, bytes);
        if request.from() == 0 {
            reply.cut = Some(bytes.len() * 2 / 5);
        }
        reply
    });
    let home = home("resume");
    assert_text(&complete(&hub, &home, "hf:owner/repo", &[]));
    assert_eq!(hub.ranges(), [0, tiny().len() * 2 / 5]);

    // And so does what another process left.
    let bytes = tiny();
    let name = hex(&Sha256::digest(&bytes));
    std::fs::remove_file(blobs(&home).join(&name)).unwrap();
    std::fs::write(
        blobs(&home).join(format!("{name}.incomplete")),
        &bytes[..1000],
    )
    .unwrap();
    assert_text(&complete(&hub, &home, "hf:owner/repo", &[]));
    assert_eq!(hub.ranges()[2..], [1000]);
    // Unless it is something else: then all of it comes again.
    std::fs::remove_file(blobs(&home).join(&name)).unwrap();
    std::fs::write(blobs(&home).join(format!("{name}.incomplete")), [7; 1000]).unwrap();
    assert_text(&complete(&hub, &home, "hf:owner/repo", &[]));
    assert_eq!(hub.ranges()[3..5], [1000, 0]);
}

/// Ctrl-C while bytes come: what came stays, and the next attempt goes on from there.
#[cfg(unix)]
#[test]
fn an_interrupted_download_goes_on_from_there() {
    let (sent, interrupted) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(())));
    let (count, wait) = (sent.clone(), interrupted.clone());
    let hub = hub_of_tiny(move |request, bytes| {
        let mut reply = file(request, bytes);
        let mut count = count.lock().unwrap();
        *count += 1;
        match *count {
            1 => reply.cut = Some(5000),
            // The second attempt hangs until it is over.
            2 => drop(wait.lock().unwrap()),
            _ => {}
        }
        reply
    });
    let home = home("interrupted");
    let hanging = interrupted.lock().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(["inspect", "hf:owner/repo"])
        .env_clear()
        .env("HOME", &home)
        .env("HF_ENDPOINT", format!("http://{}", hub.address))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while hub.ranges().len() < 2 {
        assert!(start.elapsed().as_secs() < 60, "no second attempt");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(hanging);
    assert_text(&complete(&hub, &home, "hf:owner/repo", &[]));
    assert_eq!(hub.ranges(), [0, 5000, 5000]);
}

#[test]
fn an_alias_is_its_publishers_repository_unless_the_models_folder_has_it() {
    let bytes = tiny();
    let hub = Hub::new(move |request| match request.path.starts_with("/api/") {
        true => listing(&[
            large("qwen-q2_k.gguf", b"x"),
            large("qwen-q4_k_m.gguf", &bytes),
        ]),
        false => file(request, &bytes),
    });
    let home = home("alias");
    assert_text(&complete(&hub, &home, "qwen2.5-coder-0.5b", &[]));
    let paths: Vec<String> = hub
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    let repository = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF";
    assert_eq!(
        paths,
        [
            format!("/api/models/{repository}/revision/main?blobs=true"),
            format!("/{repository}/resolve/{COMMIT}/qwen-q4_k_m.gguf")
        ]
    );
    std::fs::write(home.join("qwen2.5-coder-0.5b.gguf"), tiny()).unwrap();
    assert_text(&complete(&hub, &home, "qwen2.5-coder-0.5b", &[]));
    assert_eq!(hub.requests().len(), 2);
}

#[test]
fn a_draft_model_is_fetched_as_a_model_is_and_left_out_where_it_cannot_be() {
    let hub = hub_of_tiny(file);
    let home_of = home("draft");
    let output = complete_with_draft(&hub, &home_of, "hf:owner/repo");
    assert_text(&output);
    let active = |output: &Output| output.json()["metrics"]["foretoken"]["active"].clone();
    assert_eq!((active(&output), hub.ranges()), (json!(true), vec![0]));

    let failing = Hub::new(|_| status(503));
    let wrong = hub_of_tiny(|request, bytes| file(request, &bytes[1..]));
    // Where a file is, no folder can be made.
    let unwritable = home("draft-disk");
    std::fs::create_dir(unwritable.join(".cache")).unwrap();
    std::fs::write(unwritable.join(".cache/huggingface"), "").unwrap();
    for (home, hub) in [
        (home("draft-503"), &failing),
        (home("draft-hash"), &wrong),
        (unwritable, &hub),
    ] {
        let output = complete_with_draft(hub, &home, "hf:owner/repo");
        assert_text(&output);
        assert_eq!(active(&output), false, "{}", home.display());
        let last = output.stderr.lines().last().unwrap();
        let warned = last.starts_with("warning: speculation is off: the draft model hf:owner/repo");
        assert!(warned, "{}: {last}", home.display());
    }
    // Where there is no such repository, the name is wrong.
    let nothing = Hub::new(|_| status(404));
    let output = complete_with_draft(&nothing, &home("draft-404"), "hf:owner/repo");
    assert_error(&output, "model_not_found", &["--draft-model", "owner/repo"]);
}

#[test]
fn two_processes_fetch_a_model_once() {
    let hub = hub_of_tiny(|request, bytes| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        file(request, bytes)
    });
    let home = home("two");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_text(&complete(&hub, &home, "hf:owner/repo", &[])));
        }
    });
    assert_eq!(hub.ranges(), [0]);
}

#[test]
fn a_server_that_cuts_no_ranges_sends_all_again() {
    let hub = hub_of_tiny(|request, bytes| {
        let mut reply = status(200);
        reply.body = bytes.to_vec();
        reply.cut = (request.from() == 0).then_some(500);
        reply
    });
    assert_text(&complete(&hub, &home("no_ranges"), "hf:owner/repo", &[]));
    assert_eq!(hub.ranges(), [0, 500]);
}

#[test]
fn bytes_with_another_hash_are_thrown_away() {
    let hub = hub_of_tiny(|request, bytes| {
        let mut other = bytes.to_vec();
        *other.last_mut().unwrap() ^= 1;
        file(request, &other)
    });
    let home = home("hash");
    let output = complete(&hub, &home, "hf:owner/repo", &[]);
    assert_error(
        &output,
        "integrity",
        &["tiny.gguf", &hex(&Sha256::digest(tiny())), "thrown away"],
    );
    assert_eq!(std::fs::read_dir(blobs(&home)).unwrap().count(), 0);
}

#[test]
fn what_the_hub_refuses_is_said_with_what_to_do() {
    let refusing = |status_code: u16, code: Option<&'static str>| {
        Hub::new(move |_| {
            let mut reply = status(status_code);
            reply
                .headers
                .extend(code.map(|code| ("X-Error-Code", code.to_owned())));
            reply
        })
    };
    let expect = |status: u16,
                  code: Option<&'static str>,
                  variables: &[(&str, &str)],
                  kind: &str,
                  words: &[&str]| {
        let hub = refusing(status, code);
        let output = complete(&hub, &home("refused"), "hf:owner/repo", variables);
        assert_error(&output, kind, words);
        assert!(!output.stderr.contains("hf_secret"), "{}", output.stderr);
    };
    let gated = Some("GatedRepo");
    expect(
        401,
        gated,
        &[],
        "model_not_found",
        &[
            "accept it at http://",
            "owner/repo",
            "HF_TOKEN",
            "no token is set",
        ],
    );
    expect(
        403,
        gated,
        &TOKEN,
        "model_not_found",
        &["accept it at", "the token that is set has no access"],
    );
    expect(
        401,
        None,
        &[],
        "model_not_found",
        &["does not exist, or is private or gated", "HF_TOKEN"],
    );
    expect(
        404,
        None,
        &[],
        "model_not_found",
        &["no repository owner/repo"],
    );
    expect(
        404,
        Some("RevisionNotFound"),
        &[],
        "model_not_found",
        &["no revision main"],
    );
    expect(429, None, &[], "network", &["asked too often"]);
    expect(503, None, &[], "network", &["503", "try again"]);

    let hub = hub_of_tiny(|_, _| status(403));
    let output = complete(&hub, &home("refused_file"), "hf:owner/repo", &[]);
    assert_error(
        &output,
        "model_not_found",
        &["private or gated", "accept the licence at", "HF_TOKEN"],
    );
    let output = complete(
        &hub,
        &home("nobody"),
        "hf:owner/repo",
        &[("HF_ENDPOINT", "http://127.0.0.1:9")],
    );
    assert_error(&output, "network", &["127.0.0.1:9", "check the network"]);
    let output = complete(
        &hub,
        &home("nothing"),
        "hf:owner/repo",
        &[("HF_HUB_OFFLINE", "1")],
    );
    assert_error(&output, "model_not_found", &["HF_HUB_OFFLINE"]);
}

#[test]
fn answers_that_are_none_are_refused() {
    let page = || {
        let mut reply = status(200);
        reply
            .headers
            .push(("Content-Type", "text/html; charset=utf-8".to_owned()));
        reply.body = b"<html>Please log in</html>".to_vec();
        reply
    };
    let portal = Hub::new(move |_| page());
    let output = complete(&portal, &home("portal"), "hf:owner/repo", &[]);
    assert_error(&output, "network", &["no JSON"]);
    let hub = hub_of_tiny(move |_, _| page());
    let home_of_page = home("page");
    let output = complete(&hub, &home_of_page, "hf:owner/repo", &[]);
    assert_error(&output, "network", &["web page", "tiny.gguf"]);
    assert!(
        !blobs(&home_of_page)
            .join(hex(&Sha256::digest(tiny())))
            .exists()
    );
    let longer = hub_of_tiny(|request, bytes| file(request, &[bytes, b"more"].concat()));
    let output = complete(&longer, &home("longer"), "hf:owner/repo", &[]);
    assert_error(&output, "network", &["where"]);

    for name in [
        "../../escaped.gguf",
        "/escaped.gguf",
        "a/../../../escaped.gguf",
    ] {
        let hostile = Hub::new(move |request| match request.path.starts_with("/api/") {
            true => listing(&[large(name, &tiny())]),
            false => file(request, &tiny()),
        });
        let output = complete(&hostile, &home("escape"), "hf:owner/repo", &[]);
        assert_error(&output, "network", &["escaped.gguf", "leaves the folder"]);
        assert!(hostile.ranges().is_empty());
    }
}

#[test]
fn a_folder_is_fetched_with_what_a_model_has() {
    let names = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ];
    let files: Vec<(String, Vec<u8>)> = names
        .iter()
        .filter_map(|name| {
            Some((
                (*name).to_owned(),
                std::fs::read(format!("{DATA}/folder/{name}")).ok()?,
            ))
        })
        .collect();
    let listed = files.clone();
    let hub = Hub::new(move |request| {
        if request.path.starts_with("/api/") {
            let mut all = vec![
                small("README.md", b"hello"),
                large("pytorch_model.bin", b"x"),
            ];
            all.extend(
                listed
                    .iter()
                    .map(|(name, bytes)| match name.ends_with(".json") {
                        true => small(name, bytes),
                        false => large(name, bytes),
                    }),
            );
            return listing(&all);
        }
        let found = listed
            .iter()
            .find(|(name, _)| request.path == format!("/owner/repo/resolve/{COMMIT}/{name}"));
        found.map_or_else(|| status(404), |(_, bytes)| file(request, bytes))
    });
    let home = home("folder");
    let output = complete(&hub, &home, "hf:owner/repo@main", &[]);
    assert_text(&output);
    assert_eq!(output.json()["model"], "repo");
    assert_eq!(hub.ranges().len(), files.len());
}
