//! The notice that goes with the wasm module: whose code is in it, and under which licence.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::wasm;
use crate::workspace::{Package, Workspace};

/// Its name in the package.
pub const FILE: &str = "THIRD-PARTY-LICENSES";

/// How the names of licence files begin.
const NAMES: &[&str] = &[
    "licen",
    "copying",
    "copyright",
    "notice",
    "unlicen",
    "authors",
];

/// Writes it into the package's folder.
pub fn write(workspace: &Workspace, package: &Path) -> Result<()> {
    let linked = workspace.linked_packages("foretoken-wasm", wasm::TARGET)?;
    let text = notice(&linked)?;
    fs::write(package.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
}

fn notice(packages: &[Package]) -> Result<String> {
    let mut text = String::from(
        "wasm/foretoken_bg.wasm and wasm/foretoken.js hold code of these packages, each under the licence beside its name:\n\n",
    );
    // Many have the same text to a letter: it stands once.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let Package {
            name,
            version,
            license,
            ..
        } = package;
        writeln!(text, "- {name} {version}: {license}")?;
        for file in licence_texts(&package.folder)? {
            texts
                .entry(file)
                .or_default()
                .push(format!("{name} {version}"));
        }
    }
    text.push_str("- the standard library of Rust: MIT OR Apache-2.0, by the contributors to the Rust project\n");
    for (file, users) in texts {
        write!(
            text,
            "\n{}\n{}\n\n{}\n",
            "-".repeat(80),
            users.join(", "),
            file.trim_end()
        )?;
    }
    Ok(text)
}

/// The licence files of a package.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            found.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_named_with_its_texts_and_what_only_builds_is_not() {
        let workspace = Workspace::find().unwrap();
        let linked = workspace
            .linked_packages("foretoken-wasm", wasm::TARGET)
            .unwrap();
        let text = notice(&linked).unwrap();
        for name in [
            "wgpu",
            "wasm-bindgen",
            "tokenizers",
            "minijinja",
            "sha2",
            "serde_json",
        ] {
            assert!(text.contains(&format!("\n- {name} ")), "{name} is missing");
        }
        for name in [
            "syn",
            "serde_derive",
            "wasm-bindgen-macro",
            "ash",
            "clap",
            "foretoken-core",
        ] {
            assert!(
                !text.contains(&format!("\n- {name} ")),
                "{name} is in no wasm module"
            );
        }
        assert!(linked.iter().all(|package| !package.license.is_empty()));
        assert!(text.contains("Permission is hereby granted") && text.contains("Apache License"));
    }
}
