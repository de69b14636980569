//! [`Folder`]: files by name.

use crate::{ByteSource, WeightsError, limits};

pub(super) const CONFIG: &str = "config.json";
pub(super) const INDEX: &str = "model.safetensors.index.json";
pub(super) const WHOLE: &str = "model.safetensors";
pub(super) const ADAPTER: &str = "adapter_config.json";
/// The end of a weight file's name.
pub(super) const ENDING: &str = ".safetensors";

/// The files of a folder that are looked at, weights aside.
const FILES: [&str; 7] = [
    CONFIG,
    INDEX,
    ADAPTER,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];

/// Whether a folder's file of this name is of any use: what a source over a folder must have.
pub fn is_folder_file(name: &str) -> bool {
    FILES.contains(&name) || name.ends_with(ENDING)
}

/// A source whose parts have names.
#[derive(Debug)]
pub struct Folder<'s, S: ?Sized> {
    source: &'s S,
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    name: String,
    /// Where it begins in the source.
    start: u64,
    len: u64,
}

impl<'s, S: ByteSource + ?Sized> Folder<'s, S> {
    /// `source` as a folder; `None` where its parts have no names. Two files of a name are refused, and more than
    /// [`limits::PARTS`].
    pub fn of(source: &'s S) -> Result<Option<Self>, WeightsError> {
        let names = source.file_names();
        if names.is_empty() {
            return Ok(None);
        }
        if names.len() as u64 > limits::PARTS {
            return Err(WeightsError::Limit {
                file: source.name().to_owned(),
                place: "the folder".to_owned(),
                what: "the number of files",
                value: names.len() as u64,
                limit: limits::PARTS,
            });
        }
        let mut files: Vec<File> = Vec::new();
        let mut start = 0_u64;
        for (name, len) in names.into_iter().zip(source.parts()) {
            if files.iter().any(|file| file.name == name) {
                return Err(WeightsError::NotReadable {
                    path: source.name().to_owned(),
                    problem: format!("has two files {name:?}; give each once"),
                });
            }
            files.push(File { name, start, len });
            start = start.saturating_add(len);
        }
        Ok(Some(Self { source, files }))
    }

    /// What to call the folder in messages.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// What to call a file of it in messages.
    pub fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name().trim_end_matches('/'))
    }

    /// Whether there is a file of this name.
    pub fn has(&self, file: &str) -> bool {
        self.file(file).is_some()
    }

    /// All bytes of a file, or `None` where it is not there. One of more than `most` bytes is refused.
    pub async fn read(&self, file: &str, most: u64) -> Result<Option<Vec<u8>>, WeightsError> {
        let Some(&File { len, .. }) = self.file(file) else {
            return Ok(None);
        };
        if len > most {
            return Err(WeightsError::Limit {
                file: self.path(file),
                place: "the file".to_owned(),
                what: "the number of its bytes",
                value: len,
                limit: most,
            });
        }
        self.read_range(file, 0, len).await.map(Some)
    }

    /// The names of the weight files.
    pub(super) fn weight_files(&self) -> impl Iterator<Item = &str> {
        let names = self.files.iter().map(|file| file.name.as_str());
        names.filter(|name| name.ends_with(ENDING))
    }

    /// Where a file begins in the source, and its length.
    pub(super) fn extent(&self, file: &str) -> Option<(u64, u64)> {
        self.file(file).map(|file| (file.start, file.len))
    }

    /// Bytes of a file, which must be inside it.
    pub(super) async fn read_range(
        &self,
        file: &str,
        from: u64,
        count: u64,
    ) -> Result<Vec<u8>, WeightsError> {
        let (start, len) = self.extent(file).unwrap_or_default();
        let available = len.saturating_sub(from);
        if count > available {
            return Err(WeightsError::Truncated {
                file: self.path(file),
                place: "the header".to_owned(),
                offset: from,
                needed: count,
                available,
            });
        }
        let no_memory = || WeightsError::OutOfMemory {
            file: self.path(file),
            place: "the header".to_owned(),
            bytes: count,
        };
        let count = usize::try_from(count).map_err(|_| no_memory())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count).map_err(|_| no_memory())?;
        bytes.resize(count, 0);
        let at = start.saturating_add(from);
        self.source.read(at, &mut bytes).await?;
        Ok(bytes)
    }

    fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name)
    }
}
