//! What a repository holds, as the hub lists it, and which of it is the model.

use foretoken_weights::{is_folder_file, part_name};
use serde_json::Value;

use super::reference::Wanted;

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path in the repository, which [`is_plain_path`].
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// What its bytes must hash to.
    pub hash: Hash,
}

/// What the hub says a file's bytes are, in lower-case hexadecimal digits. It also names the bytes in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256 of the bytes: of large files.
    Sha256(String),
    /// SHA-1 of git's object: of small ones.
    GitBlob(String),
}

impl Hash {
    /// The digits.
    pub fn digits(&self) -> &str {
        match self {
            Hash::Sha256(digits) | Hash::GitBlob(digits) => digits,
        }
    }
}

/// A repository at one commit.
#[derive(Debug)]
pub struct Listing {
    /// 40 hexadecimal digits.
    pub commit: String,
    /// What its publisher says it is under.
    pub licence: Option<String>,
    /// In the hub's order.
    pub files: Vec<ListedFile>,
}

/// Why nothing can be taken from a repository.
pub type Problem = String;

/// Tried in this order where a repository has several GGUF files and none is asked for; as llama.cpp does, but for what it
/// does then, which is to take any.
const PREFERRED: [&str; 2] = ["Q4_K_M", "Q8_0"];

impl Listing {
    /// Reads the hub's answer, which is held against what a name or a hash may be.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let body: Value =
            serde_json::from_slice(body).map_err(|error| format!("is no JSON ({error})"))?;
        let commit = body["sha"].as_str().filter(|sha| is_hex(sha, 40));
        let commit = commit.ok_or("names no commit")?.to_owned();
        let listed = body["siblings"].as_array().ok_or("lists no files")?;
        let mut files = Vec::new();
        for file in listed {
            let path = file["rfilename"]
                .as_str()
                .ok_or("lists a file without a name")?;
            if !is_plain_path(path) {
                return Err(format!(
                    "lists a file {:?}, whose name leaves the folder it would lie in",
                    short(path)
                ));
            }
            let sha256 = file["lfs"]["sha256"]
                .as_str()
                .or(file["lfs"]["oid"].as_str());
            let hash = match (sha256, file["blobId"].as_str()) {
                (Some(sha256), _) if is_hex(sha256, 64) => Hash::Sha256(sha256.to_owned()),
                (None, Some(blob)) if is_hex(blob, 40) => Hash::GitBlob(blob.to_owned()),
                _ => return Err(format!("gives no hash of {:?}", short(path))),
            };
            let size = file["lfs"]["size"].as_u64().or(file["size"].as_u64());
            files.push(ListedFile {
                path: path.to_owned(),
                size: size.ok_or_else(|| format!("gives no size of {:?}", short(path)))?,
                hash,
            });
        }
        let licence = body["cardData"]["license"].as_str().map(short);
        Ok(Self {
            commit,
            licence,
            files,
        })
    }

    /// The files that are the model asked for: a GGUF file, its parts in order, or the files of a folder.
    pub fn model(&self, wanted: &Wanted) -> Result<Vec<&ListedFile>, Problem> {
        let models: Vec<&ListedFile> = self
            .files
            .iter()
            .filter(|file| is_model(&file.path))
            .collect();
        let first = match wanted {
            Wanted::File(path) => {
                let path = first_part(path);
                let found = self.files.iter().find(|file| file.path == path);
                found.ok_or_else(|| format!("has no file {path}; {}", choices(&models)))?
            }
            Wanted::Quantization(name) => {
                let found = models
                    .iter()
                    .filter(|file| has_quantization(&file.path, name));
                match found.copied().collect::<Vec<_>>()[..] {
                    [only] => only,
                    [] => return Err(format!("has no GGUF file of {name}; {}", choices(&models))),
                    ref several => {
                        return Err(format!(
                            "has several GGUF files of {name}; {}",
                            choices(several)
                        ));
                    }
                }
            }
            Wanted::Any => match models[..] {
                [] => return self.folder(),
                [only] => only,
                _ => {
                    let preferred = PREFERRED.iter().find_map(|name| {
                        let mut found = models
                            .iter()
                            .filter(|file| has_quantization(&file.path, name));
                        found.next().filter(|_| found.next().is_none())
                    });
                    preferred
                        .ok_or_else(|| format!("has several GGUF files; {}", choices(&models)))?
                }
            },
        };
        self.parts(first)
    }

    /// A file, and the other parts of a split model.
    fn parts<'a>(&'a self, first: &'a ListedFile) -> Result<Vec<&'a ListedFile>, Problem> {
        let (folder, name) = split_path(&first.path);
        let Some(split) = part_name(name) else {
            return Ok(vec![first]);
        };
        // The count is a name's word: the first part that is not listed ends the search.
        let mut parts = Vec::new();
        for number in 1..=split.count {
            let path = format!("{folder}{}", split.of(number));
            let part = self.files.iter().find(|file| file.path == path);
            parts.push(part.ok_or_else(|| format!("lacks a part of the model, {path}"))?);
        }
        Ok(parts)
    }

    /// The files of a folder with safetensors files, which lies at the repository's root.
    fn folder(&self) -> Result<Vec<&ListedFile>, Problem> {
        let has = |name: &str| self.files.iter().any(|file| file.path == name);
        // What lies deeper is the same in another form.
        let root = |file: &&ListedFile| !file.path.contains('/');
        let weights = |file: &&ListedFile| root(file) && file.path.ends_with(".safetensors");
        if !has("config.json")
            || !has("tokenizer.json")
            || !self.files.iter().any(|file| weights(&file))
        {
            return Err(
                "has no model that this build reads: neither a GGUF file nor config.json, tokenizer.json and .safetensors files"
                    .to_owned(),
            );
        }
        // As transformers does: one file where it is there, else the shards of the index.
        let (whole, index) = (
            has("model.safetensors"),
            has("model.safetensors.index.json"),
        );
        let wanted = |file: &&ListedFile| match () {
            () if !root(file) => false,
            () if !weights(file) => {
                is_folder_file(&file.path) && !(whole && file.path.ends_with(".index.json"))
            }
            () if whole => file.path == "model.safetensors",
            () if index => file.path.starts_with("model-"),
            () => true,
        };
        Ok(self.files.iter().filter(wanted).collect())
    }
}

/// Whether a path can only name something below the folder it is joined to, on every system.
pub fn is_plain_path(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let odd = |char: char| char == '\\' || (cfg!(windows) && char == ':') || char.is_control();
    path.len() <= 1024 && path.split('/').all(plain) && !path.contains(odd)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Text from outside, of a length that fits a message.
fn short(text: &str) -> String {
    text.chars()
        .filter(|char| !char.is_control())
        .take(96)
        .collect()
}

/// The folder with its slash, and the name.
fn split_path(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

/// The path of a split model's first part, of the path of any.
fn first_part(path: &str) -> String {
    let (folder, name) = split_path(path);
    part_name(name).map_or_else(|| path.to_owned(), |part| format!("{folder}{}", part.of(1)))
}

/// Whether a path is that of a GGUF file, or of the first part of one, that may be a language model.
fn is_model(path: &str) -> bool {
    let (_, name) = split_path(path);
    let lower = name.to_ascii_lowercase();
    lower.ends_with(".gguf")
        // What sees and hears for a language model, and what another was quantised with.
        && !lower.starts_with("mmproj")
        && !lower.contains("imatrix")
        && part_name(name).is_none_or(|part| part.number == 1)
}

/// Whether a file's name says that it is quantised so: as a word of its own, for Q4_K is no Q4_K_M.
fn has_quantization(path: &str, name: &str) -> bool {
    let (_, file) = split_path(path);
    let (file, name) = (file.to_ascii_lowercase(), name.to_ascii_lowercase());
    file.match_indices(&name).any(|(at, _)| {
        let before = file[..at].chars().next_back();
        let after = file[at + name.len()..].chars().next();
        before.is_none_or(|char| matches!(char, '-' | '.' | '_'))
            && after.is_none_or(|char| matches!(char, '-' | '.'))
    })
}

/// What can be asked for instead.
fn choices(files: &[&ListedFile]) -> String {
    const MOST: usize = 24;
    if files.is_empty() {
        return "it has no GGUF file".to_owned();
    }
    let mut shown: Vec<String> = files
        .iter()
        .take(MOST)
        .map(|file| format!("{} ({})", file.path, megabytes(file.size)))
        .collect();
    if files.len() > MOST {
        shown.push(format!("and {} more", files.len() - MOST));
    }
    format!("choose one: {}", shown.join(", "))
}

/// A size as the hub's pages show it.
pub fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> Listing {
        let file = |path: &&str| ListedFile {
            path: (*path).to_owned(),
            size: 5_000_000,
            hash: Hash::Sha256("0".repeat(64)),
        };
        Listing {
            commit: "0".repeat(40),
            licence: None,
            files: paths.iter().map(file).collect(),
        }
    }

    fn chosen(paths: &[&str], wanted: Wanted) -> Result<Vec<String>, Problem> {
        let listing = listing(paths);
        let model = listing.model(&wanted)?;
        Ok(model.into_iter().map(|file| file.path.clone()).collect())
    }

    #[test]
    fn the_model_is_chosen_as_documented() {
        let quants = [
            "README.md",
            "m-q2_k.gguf",
            "m-q4_k_m.gguf",
            "m-q8_0.gguf",
            "mmproj-q8_0.gguf",
        ];
        let quantization = |name: &str| Wanted::Quantization(name.to_owned());
        assert_eq!(chosen(&quants, Wanted::Any).unwrap(), ["m-q4_k_m.gguf"]);
        assert_eq!(chosen(&quants[..2], Wanted::Any).unwrap(), ["m-q2_k.gguf"]);
        assert_eq!(
            chosen(&quants, quantization("Q8_0")).unwrap(),
            ["m-q8_0.gguf"]
        );
        let none = chosen(&quants, quantization("Q4_K")).unwrap_err();
        assert!(
            none.contains("no GGUF file of Q4_K; choose one: m-q2_k.gguf (5 MB), m-q4_k_m.gguf"),
            "{none}"
        );
        let several = chosen(&["a-q2_k.gguf", "b-q2_k.gguf"], Wanted::Any).unwrap_err();
        assert!(
            several.contains("a-q2_k.gguf (5 MB), b-q2_k.gguf"),
            "{several}"
        );
        let twice = chosen(&["a-q2_k.gguf", "b-q2_k.gguf"], quantization("q2_k")).unwrap_err();
        assert!(twice.contains("several GGUF files of q2_k"), "{twice}");
        let absent = chosen(&quants, Wanted::File("x.gguf".to_owned())).unwrap_err();
        assert!(absent.contains("no file x.gguf"), "{absent}");
    }

    #[test]
    fn parts_of_a_split_model_are_one_model() {
        let parts = [
            "q8/m-q8_0-00001-of-00002.gguf",
            "q8/m-q8_0-00002-of-00002.gguf",
        ];
        assert_eq!(chosen(&parts, Wanted::Any).unwrap(), parts);
        assert_eq!(
            chosen(&parts, Wanted::File(parts[1].to_owned())).unwrap(),
            parts
        );
        let lacking = chosen(&parts[..1], Wanted::Any).unwrap_err();
        assert!(lacking.contains(parts[1]), "{lacking}");
        let many = chosen(&["m-00001-of-99999.gguf"], Wanted::Any).unwrap_err();
        assert!(many.contains("m-00002-of-99999.gguf"), "{many}");
    }

    #[test]
    fn a_folder_is_the_files_at_the_root() {
        let both = [
            "README.md",
            "config.json",
            "tokenizer.json",
            "model.safetensors",
            "consolidated.safetensors",
            "model.safetensors.index.json",
            "onnx/model.safetensors",
            "pytorch_model.bin",
        ];
        assert_eq!(
            chosen(&both, Wanted::Any).unwrap(),
            ["config.json", "tokenizer.json", "model.safetensors"]
        );
        let shards = [
            "config.json",
            "tokenizer.json",
            "consolidated.safetensors",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ];
        let mut without = shards.to_vec();
        without.remove(2);
        assert_eq!(chosen(&shards, Wanted::Any).unwrap(), without);
        let none = chosen(&["README.md", "pytorch_model.bin"], Wanted::Any).unwrap_err();
        assert!(none.contains("neither a GGUF file nor"), "{none}");
    }

    #[test]
    fn a_listing_is_held_to_what_names_and_hashes_may_be() {
        let with = |path: &str, file: &str| {
            let text = format!(
                r#"{{"sha": "{}", "siblings": [{{"rfilename": "{path}", {file}}}]}}"#,
                "a".repeat(40)
            );
            Listing::parse(text.as_bytes())
        };
        let hash = format!(r#""size": 7, "blobId": "{}""#, "b".repeat(40));
        let listed = with("a.json", &hash).unwrap();
        assert_eq!(
            (listed.files[0].size, listed.files[0].hash.digits()),
            (7, &*"b".repeat(40))
        );
        for path in [
            "../a",
            "/a",
            "a/../../b",
            "a//b",
            "",
            ".",
            "a\\\\b",
            "a\\u0000",
        ] {
            let problem = with(path, &hash).unwrap_err();
            assert!(problem.contains("leaves the folder"), "{path}: {problem}");
        }
        for file in [
            r#""size": 7"#,
            r#""size": 7, "blobId": "../x""#,
            r#""lfs": {"sha256": "b", "size": 7}"#,
        ] {
            let problem = with("a", file).unwrap_err();
            assert!(problem.contains("no hash"), "{file}: {problem}");
        }
        assert!(Listing::parse(b"<html>").unwrap_err().contains("no JSON"));
        assert!(Listing::parse(b"{}").unwrap_err().contains("no commit"));
    }
}
