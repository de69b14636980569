//! Licences: ours is the same for every package, and every dependency's allows what ours promises.

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const OURS: &str = "Apache-2.0 OR MIT";

const OUR_FILES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// What a dependency may be under.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Holds every package that any platform's build may use against the list.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut faults = Vec::new();
    for file in OUR_FILES {
        if !workspace.root.join(file).is_file() {
            faults.push(format!("{file} is missing"));
        }
    }
    for package in workspace.all_packages()? {
        if workspace.packages.contains_key(&package.name) {
            if package.license != OURS {
                faults.push(format!(
                    "{}: license is {:?}, not {OURS:?}",
                    package.name, package.license
                ));
            }
        } else if !is_allowed(&package.license) {
            faults.push(format!(
                "{} {}: {:?} is not allowed",
                package.name, package.version, package.license
            ));
        }
    }
    if !faults.is_empty() {
        bail!("licences:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Whether an SPDX expression (or the older `A/B`, which means `OR`) leaves a choice that is on the list.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest) == Some(true) && rest.is_empty()
}

/// `OR` binds weaker than `AND`. None is an expression that cannot be read.
fn either(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = both(words)?;
    while let [word, rest @ ..] = words
        && *word == "OR"
    {
        *words = rest;
        allowed |= both(words)?;
    }
    Some(allowed)
}

fn both(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = licence(words)?;
    while let [word, rest @ ..] = words
        && *word == "AND"
    {
        *words = rest;
        allowed &= licence(words)?;
    }
    Some(allowed)
}

fn licence(words: &mut &[&str]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let allowed = either(words)?;
        let (close, rest) = words.split_first()?;
        *words = rest;
        return (*close == ")").then_some(allowed);
    }
    // An exception only ever permits more.
    if let [with, _, rest @ ..] = words
        && *with == "WITH"
    {
        *words = rest;
    }
    Some(ALLOWED.contains(first))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
            "GPL-3.0 OR MIT AND Zlib",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR GPL-3.0) AND GPL-2.0",
            "(MIT",
            "MIT MIT",
            "OR",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }
}
