//! The npm package: Rust to wasm, wasm-bindgen's JavaScript beside it, TypeScript to JavaScript, and what it may weigh.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;
use crate::{bindgen, notice, npm, process, shorten};

/// What the wasm module may weigh, in bytes.
const MOST_WASM: u64 = 3_000_000;
/// What gzip may make of it.
const MOST_COMPRESSED_WASM: u64 = 1_200_000;
/// What all JavaScript of the package may weigh.
const MOST_JAVASCRIPT: u64 = 60_000;

/// The package's folder.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.root.join("pkg")
}

/// Builds `pkg/wasm` and `pkg/dist`; fails where they weigh too much.
pub fn build(workspace: &Workspace, toolchain: &Toolchain) -> Result<()> {
    let package = folder(workspace);
    npm::install(&package)?;
    build_wasm(workspace, toolchain, &package.join("wasm"))?;
    let dist = package.join("dist");
    fs::remove_dir_all(&dist).ok();
    process::run(&mut node(&package, "typescript", "tsc"))?;
    minify(&package)?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(workspace.root.join(licence), package.join(licence))?;
    }
    notice::write(workspace, &package)?;
    weigh(&package)
}

/// Compiles the TypeScript of a folder of the package and writes nothing.
pub fn check_types(workspace: &Workspace, project: &str) -> Result<()> {
    process::run(node(&folder(workspace), "typescript", "tsc").args(["--project", project]))
}

/// Compiles the TypeScript project in `source` into `to`.
pub fn compile(workspace: &Workspace, source: &Path, to: &Path) -> Result<()> {
    let mut tsc = node(&folder(workspace), "typescript", "tsc");
    process::run(tsc.arg("--project").arg(source).arg("--outDir").arg(to))
}

fn build_wasm(workspace: &Workspace, toolchain: &Toolchain, to: &Path) -> Result<()> {
    let mut build = toolchain.cargo("build");
    build.args([
        "--package",
        "foretoken-wasm",
        "--lib",
        "--profile",
        "wasm",
        "--target",
        wasm::TARGET,
    ]);
    process::run(&mut build)?;
    let module = toolchain.target.join(wasm::TARGET).join("wasm");
    fs::remove_dir_all(to).ok();
    let mut generate = Command::new(bindgen::program(workspace, bindgen::BINDGEN)?);
    generate
        .args(["--target", "web", "--out-name", "foretoken", "--out-dir"])
        .arg(to)
        .arg(module.join("foretoken_wasm.wasm"));
    process::run(&mut generate)?;
    let module = to.join("foretoken_bg.wasm");
    let mut optimise = node(&folder(workspace), "binaryen", "wasm-opt");
    // The features that Rust's compiler takes for granted on this target.
    optimise.args([
        "-Oz",
        "--enable-bulk-memory",
        "--enable-multivalue",
        "--enable-mutable-globals",
        "--enable-nontrapping-float-to-int",
        "--enable-reference-types",
        "--enable-sign-ext",
        shorten::OPTION,
        "-o",
    ]);
    let names = process::output(optimise.arg(&module).arg(&module))?;
    let javascript = to.join("foretoken.js");
    let short = shorten::apply(&fs::read_to_string(&javascript)?, &names)?;
    fs::write(&javascript, short)?;
    // The types of what wasm exports are wasm-bindgen's own affair, and no longer have its names.
    Ok(fs::remove_file(to.join("foretoken_bg.wasm.d.ts"))?)
}

/// A program of a package that npm installed.
fn node(package: &Path, name: &str, program: &str) -> Command {
    let mut node = Command::new("node");
    node.current_dir(package).arg(
        package
            .join("node_modules")
            .join(name)
            .join("bin")
            .join(program),
    );
    node
}

/// Shortens every file by itself: bundling is up to whoever uses the package.
fn minify(package: &Path) -> Result<()> {
    let mut minify = node(package, "esbuild", "esbuild");
    minify
        .args(["--minify", "--format=esm", "--target=es2022"])
        .args(["--allow-overwrite", "--outdir=.", "--outbase=."])
        .args(["--log-level=warning"])
        .args(javascript(package)?);
    process::run(&mut minify)
}

/// The package's JavaScript files.
fn javascript(package: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![package.join("wasm").join("foretoken.js")];
    for entry in fs::read_dir(package.join("dist"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "js") {
            files.push(path);
        }
    }
    Ok(files)
}

fn weigh(package: &Path) -> Result<()> {
    let wasm = package.join("wasm").join("foretoken_bg.wasm");
    let mut javascript_bytes = 0;
    for file in javascript(package)? {
        javascript_bytes += fs::metadata(file)?.len();
    }
    let mut failures = Vec::new();
    for (what, bytes, most) in [
        ("wasm", fs::metadata(&wasm)?.len(), MOST_WASM),
        ("wasm, gzipped", gzipped(&wasm)?, MOST_COMPRESSED_WASM),
        ("JavaScript", javascript_bytes, MOST_JAVASCRIPT),
    ] {
        println!("{what:<14} {bytes:>9} bytes (at most {most})");
        if bytes > most {
            failures.push(format!("{what} has {bytes} bytes, more than {most}"));
        }
    }
    if !failures.is_empty() {
        bail!("the package weighs too much: {}", failures.join("; "));
    }
    Ok(())
}

fn gzipped(file: &Path) -> Result<u64> {
    let script = "const fs = require('fs'), zlib = require('zlib'); \
                  console.log(zlib.gzipSync(fs.readFileSync(process.argv[1]), { level: 9 }).length)";
    let mut node = Command::new("node");
    let length = process::output(node.args(["-e", script]).arg(file))?;
    length.trim().parse().context("node printed no length")
}
