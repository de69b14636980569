//! `bench --compare`: llama.cpp on the same file and the same tokens, in turn with this engine.
//!
//! It runs through the npm package `node-llama-cpp`, which carries compiled binaries: nothing of it is built here, and
//! it is kept in a folder of its own. Both engines get the same token ids and choose greedily, neither stops at the
//! end of its answer, and each pair of runs is one after the other, so that a change of the machine's speed meets both.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use foretoken_core::TokenId;
use foretoken_engine::Engine;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::speculative::{self, BenchPrompt};
use super::median;
use crate::args::Peer;
use crate::device::Device;

const PACKAGE: &str = "node-llama-cpp";
const VERSION: &str = "3.22.1";
const SCRIPT: &str = include_str!("llama_cpp.mjs");
/// Pairs of runs a prompt; the medians are shown. The first prompt has one more pair before them, to warm up.
const PAIRS: usize = 3;
/// Tokens generated a run, at most: enough for a rate, and the slower engine may make five a second.
const MAX_TOKENS: u32 = 64;
/// Threads that one engine leaves spinning have stopped by then.
const PAUSE: Duration = Duration::from_millis(200);

/// The script, running.
pub struct LlamaCpp {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// What it said of itself.
    hello: Hello,
}

#[derive(Deserialize)]
struct Hello {
    backend: String,
    devices: Vec<String>,
    gpu_layers: u32,
    threads: u32,
    release: Value,
}

#[derive(Deserialize)]
struct Answer {
    first_token_ms: f64,
    decode_ms: f64,
    tokens: Vec<TokenId>,
}

impl LlamaCpp {
    /// Installs the package where it is missing, and loads the model.
    pub fn start(peer: Peer, model: &Path, context: u32) -> anyhow::Result<Self> {
        let folder = install(peer)?;
        let script = folder.join("bench.mjs");
        std::fs::write(&script, SCRIPT).with_context(|| script.display().to_string())?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let model = std::path::absolute(model)?;
        let mut command = Command::new("node");
        command
            .arg(&script)
            .arg(&model)
            .arg(backend(peer))
            .args([threads.to_string(), context.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if peer == Peer::LlamaCppVulkan && std::env::var_os(VISIBLE_DEVICES).is_none() {
            // Otherwise it passes over devices that compute on the CPU.
            command.env(VISIBLE_DEVICES, "0");
        }
        let mut child = command.spawn().context(NEEDS_NODE)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("node gave no pipes")
        };
        let mut answers = BufReader::new(answers);
        let hello: Hello = line(&mut answers)?;
        if hello.backend != backend(peer) {
            bail!(
                "llama.cpp took the backend {:?} where {:?} was asked for: is there a Vulkan driver it accepts?",
                hello.backend,
                backend(peer)
            );
        }
        Ok(Self {
            child,
            requests,
            answers,
            hello,
        })
    }

    fn run(&mut self, prompt: &[TokenId], max_tokens: usize) -> anyhow::Result<Answer> {
        let request = json!({ "prompt": prompt, "max_tokens": max_tokens });
        writeln!(self.requests, "{request}")?;
        self.requests.flush()?;
        line(&mut self.answers)
    }

    /// Runs every prompt with both engines in turn.
    pub async fn compare<O: Device>(
        &mut self,
        engine: &Engine<O>,
        prompts: &[BenchPrompt],
    ) -> anyhow::Result<Value> {
        let mut entries = Vec::new();
        for (i, prompt) in prompts.iter().enumerate() {
            let warm_up = usize::from(i == 0);
            entries.push(self.compare_one(engine, prompt, warm_up).await?);
        }
        let ratio = |name: &str| {
            let ratios: Vec<f64> = entries
                .iter()
                .filter_map(|entry: &Value| entry[name].as_f64())
                .collect();
            (!ratios.is_empty()).then(|| median(ratios.into_iter()))
        };
        Ok(json!({
            "engine": "llama.cpp",
            "release": self.hello.release,
            "package": format!("{PACKAGE} {VERSION}"),
            "backend": self.hello.backend,
            "devices": self.hello.devices,
            "gpu_layers": self.hello.gpu_layers,
            "threads": self.hello.threads,
            "prefill_ratio": ratio("prefill_ratio"),
            "decode_ratio": ratio("decode_ratio"),
            "prompts": entries,
        }))
    }

    async fn compare_one<O: Device>(
        &mut self,
        engine: &Engine<O>,
        prompt: &BenchPrompt,
        warm_up: usize,
    ) -> anyhow::Result<Value> {
        let changes = json!({
            "max_tokens": prompt.max_tokens().min(MAX_TOKENS),
            "speculative_config": null,
            "ignore_eos": true,
            "return_token_ids": true,
        });
        let (mut ours, mut theirs) = (Rates::default(), Rates::default());
        let (mut prompt_tokens, mut tokens, mut equal) = (0, 0, 0);
        for pair in 0..warm_up + PAIRS {
            let run = speculative::run(engine, prompt, &changes).await?;
            std::thread::sleep(PAUSE);
            let answer = self.run(&run.prompt, run.tokens.len())?;
            std::thread::sleep(PAUSE);
            (prompt_tokens, tokens) = (run.prompt.len(), run.tokens.len());
            let pairs = run.tokens.iter().zip(&answer.tokens);
            equal = pairs.take_while(|(ours, theirs)| ours == theirs).count();
            if pair >= warm_up {
                ours.add(prompt_tokens, run.first_token_ms, run.rate);
                let decoded = answer.tokens.len().saturating_sub(1) as f64;
                let rate = (decoded > 0.0).then(|| decoded * 1e3 / answer.decode_ms);
                theirs.add(prompt_tokens, Some(answer.first_token_ms), rate);
            }
        }
        let ratio = |ours: Option<f64>, theirs: Option<f64>| ours.zip(theirs).map(|(o, t)| o / t);
        Ok(json!({
            "prompt": prompt.id(),
            "prompt_tokens": prompt_tokens,
            "tokens": tokens,
            "equal_tokens": equal,
            "ours": ours.shown(),
            "theirs": theirs.shown(),
            "prefill_ratio": ratio(ours.prefill(), theirs.prefill()),
            "decode_ratio": ratio(ours.decode(), theirs.decode()),
        }))
    }
}

impl Drop for LlamaCpp {
    fn drop(&mut self) {
        // It has nothing to save; errors here would hide the one that matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tokens a second, of the runs of one engine.
#[derive(Default)]
struct Rates {
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

impl Rates {
    fn add(&mut self, prompt_tokens: usize, first_token_ms: Option<f64>, decode: Option<f64>) {
        let prefill = first_token_ms.map(|ms| prompt_tokens as f64 * 1e3 / ms);
        self.prefill.extend(prefill);
        self.decode.extend(decode);
    }

    fn prefill(&self) -> Option<f64> {
        (!self.prefill.is_empty()).then(|| median(self.prefill.iter().copied()))
    }

    fn decode(&self) -> Option<f64> {
        (!self.decode.is_empty()).then(|| median(self.decode.iter().copied()))
    }

    fn shown(&self) -> Value {
        json!({
            "prefill_tokens_per_second": self.prefill(),
            "decode_tokens_per_second": self.decode(),
        })
    }
}

/// llama.cpp's choice of Vulkan devices.
const VISIBLE_DEVICES: &str = "GGML_VK_VISIBLE_DEVICES";
const NEEDS_NODE: &str =
    "--compare runs llama.cpp in Node: install Node 20 or newer, with npm, and pass it again";

fn backend(peer: Peer) -> &'static str {
    match peer {
        Peer::LlamaCpp => "cpu",
        Peer::LlamaCppVulkan => "vulkan",
    }
}

/// The folder where the package is, after installing it if it was not.
fn install(peer: Peer) -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home =
        home.context("neither HOME nor USERPROFILE is set: there is no place to keep llama.cpp")?;
    let name = format!("{PACKAGE}-{VERSION}-{}", backend(peer));
    let folder = Path::new(&home).join(".cache/foretoken/tools").join(name);
    let installed = folder.join("installed");
    if installed.exists() {
        return Ok(folder);
    }
    let packages = [PACKAGE.to_owned(), binaries(peer)?];
    eprintln!(
        "installing {} {VERSION} into {} (only there)",
        packages.join(" and "),
        folder.display()
    );
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    std::fs::write(
        folder.join("package.json"),
        r#"{"private": true, "type": "module"}"#,
    )?;
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    // Without optional packages: they are the binaries of every other machine, CUDA's among them.
    let status = Command::new(npm)
        .current_dir(&folder)
        .args(["install", "--ignore-scripts", "--omit=optional"])
        .args(["--no-audit", "--no-fund", "--loglevel=error"])
        .args(packages.map(|package| format!("{package}@{VERSION}")))
        .stdout(Stdio::null())
        .status()
        .context(NEEDS_NODE)?;
    if !status.success() {
        bail!("npm could not install {PACKAGE} ({status})");
    }
    std::fs::write(installed, VERSION)?;
    Ok(folder)
}

/// The package with the binaries of this machine.
fn binaries(peer: Peer) -> anyhow::Result<String> {
    let platform = match (std::env::consts::OS, std::env::consts::ARCH, peer) {
        ("linux", "x86_64", Peer::LlamaCpp) => "linux-x64",
        ("linux", "x86_64", Peer::LlamaCppVulkan) => "linux-x64-vulkan",
        ("linux", "aarch64", Peer::LlamaCpp) => "linux-arm64",
        ("macos", "x86_64", Peer::LlamaCpp) => "mac-x64",
        ("macos", "aarch64", Peer::LlamaCpp) => "mac-arm64-metal",
        ("windows", "x86_64", Peer::LlamaCpp) => "win-x64",
        ("windows", "x86_64", Peer::LlamaCppVulkan) => "win-x64-vulkan",
        (os, arch, peer) => bail!(
            "{PACKAGE} has no binaries with the backend {} for {os} on {arch}: leave --compare out",
            backend(peer)
        ),
    };
    Ok(format!("@{PACKAGE}/{platform}"))
}

/// The next line, which is an object.
fn line<T: for<'de> Deserialize<'de>>(answers: &mut impl BufRead) -> anyhow::Result<T> {
    let mut text = String::new();
    answers.read_line(&mut text)?;
    if text.is_empty() {
        bail!("llama.cpp ended; what it said is above");
    }
    serde_json::from_str(&text).with_context(|| format!("llama.cpp answered {text:?}"))
}

/// For people.
pub fn describe(report: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let mut text = format!(
        "against llama.cpp {} ({} backend, {} threads): prefill {:.2}, decode {:.2} times as fast (medians)\n",
        report["release"].as_str().unwrap_or_default(),
        report["backend"].as_str().unwrap_or_default(),
        report["threads"],
        number(&report["prefill_ratio"]),
        number(&report["decode_ratio"]),
    );
    text += &format!(
        "{:<14} {:>7} {:>18} {:>18} {:>12}\n",
        "prompt", "tokens", "prefill tok/s", "decode tok/s", "equal tokens"
    );
    for entry in report["prompts"].as_array().into_iter().flatten() {
        let pair = |name: &str| {
            let (ours, theirs) = (number(&entry["ours"][name]), number(&entry["theirs"][name]));
            format!("{ours:.1} / {theirs:.1}")
        };
        text += &format!(
            "{:<14} {:>7} {:>18} {:>18} {:>12}\n",
            speculative::shown_id(&entry["prompt"]),
            format!("{}+{}", entry["prompt_tokens"], entry["tokens"]),
            pair("prefill_tokens_per_second"),
            pair("decode_tokens_per_second"),
            entry["equal_tokens"].to_string(),
        );
    }
    text
}
