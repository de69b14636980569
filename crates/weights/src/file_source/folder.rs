//! A folder's files.

use std::path::Path;

use super::{FileSource, PartFile};
use crate::{WeightsError, is_folder_file, limits};

impl FileSource {
    /// Opens the files of a folder that a model has, in the order of their names. Nothing in a file names another that is opened.
    pub(super) fn open_folder(path: &Path) -> Result<Self, WeightsError> {
        let shown = path.display().to_string();
        let refused = |problem: String| WeightsError::NotReadable {
            path: shown.clone(),
            problem,
        };
        let unreadable = |error: std::io::Error| refused(format!("cannot be listed: {error}"));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            // A name that is no text is none of a model's.
            let name = entry.map_err(unreadable)?.file_name().into_string();
            names.extend(name.ok().filter(|name| is_folder_file(name)));
        }
        if !names.iter().any(|name| name == "config.json") {
            let problem = "is a directory without a config.json; give the path of a .gguf file, or of a folder \
                 with config.json, tokenizer.json and .safetensors files";
            return Err(refused(problem.to_owned()));
        }
        if names.len() as u64 > limits::PARTS {
            let most = limits::PARTS;
            return Err(refused(format!(
                "has {} files; {most} are read",
                names.len()
            )));
        }
        names.sort_unstable();
        let mut parts: Vec<PartFile> = Vec::new();
        for name in &names {
            let start = parts
                .last()
                .map_or(0, |part| part.start.saturating_add(part.len));
            parts.push(PartFile::open(&path.join(name), start)?);
        }
        Ok(Self {
            path: shown,
            len: parts.iter().map(|part| part.len).sum(),
            parts,
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteSource;

    #[test]
    fn a_folders_files_are_its_parts() {
        let folder = std::env::temp_dir().join(format!("foretoken-folder-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        let message = |path: &Path| FileSource::open(path).unwrap_err().to_string();
        assert!(message(&folder).contains("directory without a config.json"));
        for (name, bytes) in [
            ("config.json", "{}"),
            ("b.safetensors", "bbb"),
            ("a.safetensors", "a"),
            ("README.md", "text"),
            ("model.bin", "text"),
            ("sub/c.safetensors", "c"),
        ] {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let source = FileSource::open(&folder).unwrap();
        let names = ["a.safetensors", "b.safetensors", "config.json"];
        assert_eq!(source.file_names(), names);
        assert_eq!((source.parts(), source.len()), (vec![1, 3, 2], 6));
        let mut read = [0; 3];
        pollster::block_on(source.read(1, &mut read)).unwrap();
        assert_eq!(&read, b"bbb");
        std::fs::write(folder.join("a.safetensors"), "").unwrap();
        assert!(message(&folder).contains("a.safetensors: is empty"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
