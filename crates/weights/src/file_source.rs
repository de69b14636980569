//! [`FileSource`]: a file on disk, or the files of a split model or of a folder.

mod folder;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Mutex;

use crate::split::{PartName, part_name};
use crate::{ByteSource, WeightsError, limits};

/// A file on disk; or the parts of a split model, one after another; or the files of a folder.
#[derive(Debug)]
pub struct FileSource {
    path: String,
    len: u64,
    parts: Vec<PartFile>,
    /// Of a folder, the name of each part.
    names: Vec<String>,
}

#[derive(Debug)]
struct PartFile {
    path: String,
    /// Where its bytes begin in the source.
    start: u64,
    len: u64,
    // Seeking and reading are two calls on every system we know; the lock keeps them together.
    file: Mutex<File>,
}

impl FileSource {
    /// Opens `path` for reading; where it is named as the first part of a split model
    /// (`…-00001-of-0000N.gguf`), the other parts too, which are beside it; where it is a folder with a `config.json`, the
    /// files in it that a model has. A missing file, another directory, an empty file, one that may not be read and a later part alone are errors that name the path and say what to do.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let mut parts = vec![PartFile::open(path, 0)?];
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(split) = name.and_then(part_name) {
            let refused = |problem| {
                Err(WeightsError::NotReadable {
                    path: path.display().to_string(),
                    problem,
                })
            };
            if u64::from(split.count) > limits::PARTS {
                let most = limits::PARTS;
                return refused(format!(
                    "its name says {} parts; {most} are read",
                    split.count
                ));
            }
            if split.number != 1 {
                let PartName { number, count, .. } = split;
                let first = split.of(1);
                return refused(format!(
                    "is part {number} of {count}; give the first, {first}"
                ));
            }
            for number in 2..=split.count {
                let start = parts
                    .last()
                    .map_or(0, |part| part.start.saturating_add(part.len));
                parts.push(PartFile::open(
                    &path.with_file_name(split.of(number)),
                    start,
                )?);
            }
        }
        Ok(Self {
            path: path.display().to_string(),
            len: parts.iter().map(|part| part.len).sum(),
            parts,
            names: Vec::new(),
        })
    }
}

impl PartFile {
    fn open(path: &Path, start: u64) -> Result<Self, WeightsError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => WeightsError::NotFound {
                path: shown.clone(),
            },
            ErrorKind::PermissionDenied => WeightsError::NotReadable {
                path: shown.clone(),
                problem: "no permission to read it; change its permissions or copy it".to_owned(),
            },
            _ => WeightsError::NotReadable {
                path: shown.clone(),
                problem: format!("cannot be opened: {error}"),
            },
        };
        // Before opening: opening a named pipe would wait for its writer.
        let about = std::fs::metadata(path).map_err(failed)?;
        let problem = if about.is_dir() {
            Some("is a directory, not a file")
        } else if !about.is_file() {
            Some("is not a regular file; give the path of a .gguf file")
        } else if about.len() == 0 {
            Some("is empty; the download did not finish, fetch it again")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(WeightsError::NotReadable {
                path: shown.clone(),
                problem: problem.to_owned(),
            });
        }
        let file = File::open(path).map_err(failed)?;
        Ok(Self {
            start,
            len: about.len(),
            file: Mutex::new(file),
            path: shown,
        })
    }
}

impl ByteSource for FileSource {
    fn name(&self) -> &str {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn parts(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.len).collect()
    }

    fn file_names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Of one part: a read that begins in one and ends in the next fails, and no tensor lies so.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let length = into.len() as u64;
        let later = self.parts.partition_point(|part| part.start <= offset);
        // The first begins at 0.
        let part = &self.parts[later - 1];
        let offset = offset - part.start;
        // A panic while the lock was held leaves at worst another seek position, and we seek first.
        let mut file = part
            .file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(into))
            .map_err(|error| WeightsError::Read {
                file: part.path.clone(),
                offset,
                length,
                reason: match error.kind() {
                    ErrorKind::UnexpectedEof => "the file ends before that".to_owned(),
                    _ => error.to_string(),
                },
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_a_model_is_refused_by_path() {
        let dir = std::env::temp_dir().join(format!("foretoken-source-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let empty = dir.join("empty.gguf");
        std::fs::write(&empty, b"").unwrap();
        let full = dir.join("full.gguf");
        std::fs::write(&full, b"0123456789").unwrap();

        let expect = |path: &std::path::Path, word: &str| {
            let message = FileSource::open(path).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert!(!message.contains('\n'), "{message}");
        };
        expect(&dir.join("absent.gguf"), "no such file");
        expect(&dir, "directory");
        expect(&empty, "empty");
        expect(&full.join("below-a-file"), "below-a-file");

        let source = FileSource::open(&full).unwrap();
        assert_eq!(source.len(), 10);
        let mut three = [0; 3];
        pollster::block_on(source.read(7, &mut three)).unwrap();
        assert_eq!(&three, b"789");
        let error = pollster::block_on(source.read(8, &mut three))
            .unwrap_err()
            .to_string();
        assert!(error.contains("3 bytes at offset 8"), "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_other_parts_are_found_by_name() {
        let dir = std::env::temp_dir().join(format!("foretoken-parts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let part = |number: u32| dir.join(format!("m-{number:05}-of-00003.gguf"));
        for (number, bytes) in [(1, "abc"), (2, "de"), (3, "fghi")] {
            std::fs::write(part(number), bytes).unwrap();
        }
        let source = FileSource::open(part(1)).unwrap();
        assert_eq!((source.len(), source.parts()), (9, vec![3, 2, 4]));
        for (offset, bytes) in [(0, "abc"), (1, "bc"), (3, "de"), (5, "fghi"), (8, "i")] {
            let mut read = vec![0; bytes.len()];
            pollster::block_on(source.read(offset, &mut read)).unwrap();
            assert_eq!(read, bytes.as_bytes(), "at {offset}");
        }
        // Not from one part into the next, and not past the last.
        for (offset, path) in [(2, part(1)), (4, part(2)), (8, part(3)), (9, part(3))] {
            let error = pollster::block_on(source.read(offset, &mut [0; 2])).unwrap_err();
            let WeightsError::Read { file, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(file, path.display().to_string());
        }

        let message = |path: &Path| FileSource::open(path).unwrap_err().to_string();
        let later = message(&part(2));
        assert!(
            later.contains("part 2 of 3")
                && later.contains("give the first, m-00001-of-00003.gguf"),
            "{later}"
        );
        std::fs::remove_file(part(3)).unwrap();
        let missing = message(&part(1));
        assert!(
            missing.contains("m-00003-of-00003.gguf: no such file"),
            "{missing}"
        );
        let many = dir.join("m-00001-of-01025.gguf");
        std::fs::write(&many, "x").unwrap();
        let refused = message(&many);
        assert!(refused.contains("1025 parts; 1024 are read"), "{refused}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
