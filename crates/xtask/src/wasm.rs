//! A toolchain that builds for wasm32-unknown-unknown.
//!
//! On most machines that is rustup's own, with the target added. Where its host cannot be reached, Debian's compiler
//! for browsers builds the target's standard library once, from Debian's sources, into a folder of its own that is
//! passed as the sysroot; nothing of the system's toolchain is written to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Consent, SystemPackage};
use crate::process;
use crate::workspace::{self, Workspace};

/// The target's name.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// How long rustup may take before it counts as unreachable.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(20);
const DOWNLOAD_LIMIT_WITHOUT_FALL_BACK: Duration = Duration::from_secs(300);

/// Where Debian installs.
const DEBIAN_BIN: &str = "/usr/bin";

const DEBIAN_PACKAGES: [SystemPackage; 6] = [
    debian_package("rustc-web", "a Rust compiler for the wasm32 build"),
    debian_package("cargo-web", "its cargo"),
    debian_package("rust-web-clippy", "its clippy"),
    debian_package("rust-web-llvm", "its LLVM"),
    debian_package("rust-web-src", "the sources of its standard library"),
    debian_package("lld-22", "the linker of the wasm32 build"),
];

const fn debian_package(name: &'static str, why: &'static str) -> SystemPackage {
    SystemPackage {
        debian: name,
        fedora: "rust-std-static-wasm32-unknown-unknown",
        arch: "rust-wasm",
        why,
    }
}

/// A cargo that builds for [`TARGET`].
pub struct Toolchain {
    root: PathBuf,
    /// Where it builds to: not where the native toolchain does, whose version may differ.
    pub target: PathBuf,
    /// The standard library that was built here, with Debian's toolchain.
    sysroot: Option<PathBuf>,
}

impl Toolchain {
    /// Finds a toolchain, or makes one.
    pub fn find(workspace: &Workspace, consent: Consent) -> Result<Toolchain> {
        let toolchain = |sysroot| Toolchain {
            root: workspace.root.clone(),
            target: workspace.target.join("wasm"),
            sysroot,
        };
        if has_target(workspace) {
            return Ok(toolchain(None));
        }
        if let Ok(sysroot) = debian_sysroot()
            && is_complete(&sysroot)
        {
            return Ok(toolchain(Some(sysroot)));
        }
        if process::find_program(&["rustup"]).is_some() {
            eprintln!("adding rustup's target {TARGET}");
            let mut add = Command::new("rustup");
            add.current_dir(&workspace.root)
                .args(["target", "add", TARGET]);
            let limit = if apt::is_debian() {
                DOWNLOAD_LIMIT
            } else {
                DOWNLOAD_LIMIT_WITHOUT_FALL_BACK
            };
            if process::succeeds_within(&mut add, limit)? && has_target(workspace) {
                return Ok(toolchain(None));
            }
            eprintln!("rustup could not add it within {} s", limit.as_secs());
        }
        if !apt::is_debian() {
            bail!(
                "no Rust toolchain here builds for {TARGET}: run `rustup target add {TARGET}`, then try again"
            );
        }
        let missing = DEBIAN_PACKAGES
            .into_iter()
            .filter(|package| !is_installed(package));
        let missing: Vec<SystemPackage> = missing.collect();
        if !missing.is_empty() {
            apt::install(&missing, consent)?;
        }
        let sysroot = debian_sysroot()?;
        build_standard_library(workspace, &sysroot)?;
        Ok(toolchain(Some(sysroot)))
    }

    /// A cargo command of this toolchain; the caller adds `--target` where the subcommand takes it.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut command = match &self.sysroot {
            None => Command::new("cargo"),
            Some(sysroot) => {
                let mut command = debian_cargo();
                let flags = format!("--sysroot={}", sysroot.display());
                command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags);
                command
            }
        };
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .arg(subcommand);
        command
    }
}

/// Whether the workspace's own toolchain has the target's standard library, by whatever way.
fn has_target(workspace: &Workspace) -> bool {
    let mut rustc = Command::new("rustc");
    rustc
        .current_dir(&workspace.root)
        .args(["--print", "target-libdir", "--target", TARGET]);
    process::output(&mut rustc).is_ok_and(|folder| has_std(Path::new(folder.trim())))
}

fn has_std(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("libstd-"))
}

/// Debian's cargo, shielded from what rustup and an outer cargo put into the environment.
fn debian_cargo() -> Command {
    let mut command = Command::new(Path::new(DEBIAN_BIN).join("cargo"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from(DEBIAN_BIN)).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    for name in [
        "CARGO",
        "LD_LIBRARY_PATH",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ] {
        command.env_remove(name);
    }
    command
}

/// The folder of the standard library for exactly this version of Debian's compiler.
fn debian_sysroot() -> Result<PathBuf> {
    let mut rustc = Command::new(Path::new(DEBIAN_BIN).join("rustc"));
    let version = process::output(rustc.arg("-V"))?;
    let name: String = version
        .trim()
        .chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() || char == '.' {
                char
            } else {
                '-'
            }
        })
        .collect();
    Ok(workspace::cache_folder()?.join("wasm-sysroot").join(name))
}

fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib").join("rustlib").join(TARGET).join("lib")
}

fn is_complete(sysroot: &Path) -> bool {
    has_std(&libraries(sysroot)) && DEBIAN_PACKAGES.iter().all(is_installed)
}

/// Asks dpkg's own records: another package's compiler may stand in the same place.
fn is_installed(package: &SystemPackage) -> bool {
    Path::new("/var/lib/dpkg/info")
        .join(format!("{}.list", package.debian))
        .is_file()
}

/// Builds std (with `test`, which wasm-bindgen's tests link) in an empty crate, and moves it to the sysroot when all
/// of it is there.
fn build_standard_library(workspace: &Workspace, sysroot: &Path) -> Result<()> {
    eprintln!("building the standard library for {TARGET}, once (a minute or two)");
    let folder = workspace.target.join("wasm-std");
    fs::create_dir_all(folder.join("src"))?;
    let name = "empty_crate";
    // A workspace of its own: the folder may lie inside another one.
    let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[workspace]\n");
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src").join("lib.rs"), "")?;
    let target = folder.join("target");
    let mut build = debian_cargo();
    build
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &target)
        // The standard library is built with unstable options, on the compiler it belongs to.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["build", "--release", "--quiet", "--target", TARGET])
        .arg("-Zbuild-std=std,panic_abort,proc_macro,test");
    process::run(&mut build).context("cannot build the standard library for wasm32")?;

    let parent = sysroot.parent().context("a sysroot without a parent")?;
    let temporary = parent.join(format!("new-{}", std::process::id()));
    let copies = libraries(&temporary);
    fs::create_dir_all(&copies)?;
    for entry in fs::read_dir(target.join(TARGET).join("release").join("deps"))? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.ends_with(".rlib") && !file.starts_with(&format!("lib{name}-")) {
            fs::copy(entry.path(), copies.join(file))?;
        }
    }
    fs::remove_dir_all(sysroot).ok();
    fs::rename(&temporary, sysroot)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}
