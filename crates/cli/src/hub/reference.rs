//! `hf:owner/repository`, as it is typed.

use super::listing::is_plain_path;
use crate::failure::Failure;

/// What every reference begins with.
pub const SCHEME: &str = "hf:";

/// A model on the hub: `hf:owner/repository[@revision][:QUANT | /path/in/the/repository.gguf]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `owner/repository`.
    pub repository: String,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// Which of the repository's models.
    pub wanted: Wanted,
}

/// Which of a repository's models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What there is, or the default among several.
    Any,
    /// The GGUF file with this quantisation in its name, in any case.
    Quantization(String),
    /// A GGUF file by its path in the repository.
    File(String),
}

/// The revision where none is given.
const MAIN: &str = "main";

impl Reference {
    /// Reads what follows [`SCHEME`]; `text` is the whole.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |problem: &str| Failure {
            code: "invalid_request",
            message: format!(
                "{text:?} {problem}: write hf:owner/repository, hf:owner/repository:Q4_K_M or \
                 hf:owner/repository/file.gguf, with @revision behind the repository if need be"
            ),
        };
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (owner, rest) = rest
            .split_once('/')
            .ok_or_else(|| wrong("names no repository"))?;
        let end = rest.find(['/', ':', '@']).unwrap_or(rest.len());
        let (name, mut rest) = rest.split_at(end);
        if !is_name(owner) || !is_name(name) {
            return Err(wrong("names no repository"));
        }
        let mut revision = MAIN;
        if let Some(after) = rest.strip_prefix('@') {
            let end = after.find(['/', ':']).unwrap_or(after.len());
            (revision, rest) = after.split_at(end);
            if !is_name(revision) {
                return Err(wrong("has a revision that is none"));
            }
        }
        let wanted = match (rest.strip_prefix('/'), rest.strip_prefix(':')) {
            (Some(path), _) => {
                if !is_plain_path(path) {
                    return Err(wrong("has a path that leaves the repository"));
                }
                if !path.to_ascii_lowercase().ends_with(".gguf") {
                    return Err(wrong("names a file that is no .gguf"));
                }
                Wanted::File(path.to_owned())
            }
            (_, Some(quantization)) if is_name(quantization) => {
                Wanted::Quantization(quantization.to_owned())
            }
            (_, Some(_)) => return Err(wrong("has a quantisation that is none")),
            (None, None) => Wanted::Any,
        };
        Ok(Self {
            repository: format!("{owner}/{name}"),
            revision: revision.to_owned(),
            wanted,
        })
    }
}

/// A name of an owner, a repository, a revision: it is put into addresses and folder names as it is.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty()
        && text.len() <= 96
        && text.bytes().all(plain)
        && !text.starts_with('.')
        && !text.contains("..")
        // Folders of the cache have it between owner and repository.
        && !text.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, String> {
        Reference::parse(text).map_err(|failure| failure.message)
    }

    #[test]
    fn every_form_is_read() {
        let expect = |text: &str, revision: &str, wanted: Wanted| {
            let expected = Reference {
                repository: "owner/repo-1.5".to_owned(),
                revision: revision.to_owned(),
                wanted,
            };
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        };
        expect("hf:owner/repo-1.5", "main", Wanted::Any);
        expect("hf:owner/repo-1.5@v1.0", "v1.0", Wanted::Any);
        let quantization = || Wanted::Quantization("q4_K_M".to_owned());
        expect("hf:owner/repo-1.5:q4_K_M", "main", quantization());
        expect("hf:owner/repo-1.5@v1:q4_K_M", "v1", quantization());
        let file = |path: &str| Wanted::File(path.to_owned());
        expect("hf:owner/repo-1.5/a.gguf", "main", file("a.gguf"));
        expect("hf:owner/repo-1.5@v1/b/a.GGUF", "v1", file("b/a.GGUF"));
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        for (text, problem) in [
            ("hf:", "names no repository"),
            ("hf:owner", "names no repository"),
            ("hf:/repo", "names no repository"),
            ("hf:owner/", "names no repository"),
            ("hf:../repo", "names no repository"),
            ("hf:owner/..", "names no repository"),
            ("hf:own er/repo", "names no repository"),
            ("hf:owner/repo@", "revision"),
            ("hf:owner/repo@../x", "revision"),
            ("hf:owner/repo:", "quantisation"),
            ("hf:owner/repo:a/b", "quantisation"),
            ("hf:owner/repo/../x.gguf", "leaves the repository"),
            ("hf:owner/repo//x.gguf", "leaves the repository"),
            ("hf:owner/repo/x\\y.gguf", "leaves the repository"),
            ("hf:owner/repo/model.bin", "no .gguf"),
            ("hf:owner/repo/", "leaves the repository"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(problem), "{text}: {message}");
        }
    }
}
