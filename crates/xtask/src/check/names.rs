//! What no file of the repository says: addresses of package registries, paths of somebody's machine, how work on the
//! project is organised, and type names that say nothing. The patterns are put together from pieces, so that this
//! file does not hold what it looks for.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Larger files do not belong into git.
const LARGEST_FILE: u64 = 2 << 20;

/// Files that tools write, with addresses that are theirs.
const EXEMPT: &[&str] = &["Cargo.lock"];

struct Patterns {
    /// Found anywhere after `//`.
    hosts: Vec<String>,
    /// Found where a path can begin.
    paths: Vec<String>,
    /// Found as whole words, as they are written.
    words: Vec<String>,
    /// The ends of type names, and names of modules, that say nothing.
    vague: Vec<String>,
}

impl Patterns {
    fn new() -> Patterns {
        let join = |pieces: &[&[&str]]| pieces.iter().map(|pieces| pieces.concat()).collect();
        Patterns {
            hosts: join(&[
                &["npm", "js.", "org"],
                &["npm", "js.", "com"],
                &["py", "pi.", "org"],
                &["python", "hosted.", "org"],
                &["cra", "tes.", "io"],
                &["deb", "ian.", "org"],
            ]),
            paths: join(&[
                &["/wo", "rk/"],
                &["/ro", "ot/"],
                &["/op", "t/"],
                &["/ho", "me/"],
            ]),
            words: join(&[
                &["hel", "per"],
                &["hel", "pers"],
                &["colle", "ague"],
                &["colle", "agues"],
                &["this ses", "sion's brief"],
                &["the lead", " session"],
                &["sub", "agent"],
            ]),
            vague: join(&[
                &["Man", "ager"],
                &["Hel", "per"],
                &["Ut", "il"],
                &["Ut", "ils"],
            ]),
        }
    }

    /// What is wrong with a line.
    fn fault(&self, line: &str) -> Option<String> {
        for host in &self.hosts {
            let mut starts = line.match_indices(host.as_str()).map(|(at, _)| &line[..at]);
            let is_address = |before: &str| {
                before.rfind("//").is_some_and(|at| {
                    before[at + 2..]
                        .chars()
                        .all(|char| char.is_ascii_lowercase() || char == '.' || char == '-')
                })
            };
            if starts.any(is_address) {
                return Some(format!("the address of a package registry ({host})"));
            }
        }
        for path in &self.paths {
            let mut starts = line.match_indices(path.as_str()).map(|(at, _)| &line[..at]);
            if starts.any(|before| {
                !before.ends_with(|char: char| char.is_alphanumeric() || "._-~$}*/)".contains(char))
            }) {
                return Some(format!("a path of one machine ({path}…)"));
            }
        }
        for word in &self.words {
            if has_word(line, word) {
                return Some(format!("{word:?}"));
            }
        }
        let mut words = line.split(|char: char| !(char.is_alphanumeric() || char == '_'));
        while let Some(word) = words.next() {
            if !matches!(
                word,
                "struct" | "enum" | "trait" | "type" | "class" | "interface"
            ) {
                continue;
            }
            let name = words.next().unwrap_or_default();
            if self.vague.iter().any(|end| name.ends_with(end.as_str())) {
                return Some(format!("the type name {name}: name what it does"));
            }
        }
        None
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Reads every file that git would commit.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(&workspace.root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let patterns = Patterns::new();
    let mut faults = Vec::new();
    for file in process::output(&mut list)?
        .split('\0')
        .filter(|file| !file.is_empty())
    {
        let path = workspace.root.join(file);
        // A file that was removed but not yet from the index.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !metadata.is_file() || EXEMPT.contains(&file) {
            continue;
        }
        if metadata.len() > LARGEST_FILE {
            faults.push(format!(
                "{file}: {} bytes; at most {LARGEST_FILE} belong into git",
                metadata.len()
            ));
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if patterns
            .vague
            .iter()
            .any(|vague| vague.to_lowercase() == name)
        {
            faults.push(format!("{file}: name the file after what is in it"));
        }
        // What is not text holds no prose.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if let Some(fault) = patterns.fault(line) {
                faults.push(format!("{file}:{}: {fault}", number + 1));
            }
        }
    }
    if !faults.is_empty() {
        bail!("names that do not belong here:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_pattern_is_found() {
        let patterns = Patterns::new();
        for faulty in [
            ["see https://py", "pi.org/simple"].concat(),
            ["https://static.cra", "tes.io/x"].concat(),
            ["in /wo", "rk/main"].concat(),
            ["(\"/ro", "ot/.cache\")"].concat(),
            ["a hel", "per for tests"].concat(),
            ["pub struct BufferMan", "ager {"].concat(),
        ] {
            assert!(patterns.fault(&faulty).is_some(), "{faulty}");
        }
    }

    #[test]
    fn honest_lines_pass() {
        let patterns = Patterns::new();
        for honest in [
            "the session ends; a request's session",
            "frame/work/ and $HOME/op/t",
            "https://huggingface.co/models",
            "struct Utility; struct Session;",
            "~/.cache/foretoken/models",
        ] {
            assert_eq!(patterns.fault(honest), None, "{honest}");
        }
    }
}
