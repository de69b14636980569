//! [`ByteSource`]: where a file's bytes come from.

use crate::WeightsError;

/// A file of known length that can be read at any offset: memory, a disk, a browser's storage, a network.
///
/// No `Send` bound: a browser has one thread, and natively one thread owns the engine.
pub trait ByteSource {
    /// What to call it in messages: a path, an address.
    fn name(&self) -> &str;

    /// Its length in bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on, or fails: there are no short reads.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError>;
}

impl<S: ByteSource + ?Sized> ByteSource for &S {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn len(&self) -> u64 {
        (**self).len()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        (**self).read(offset, into).await
    }
}

/// Bytes in memory: a `Vec<u8>`, an `Arc<[u8]>`, a `&[u8]`.
#[derive(Debug, Clone)]
pub struct BytesSource<B>(pub B);

impl<B: AsRef<[u8]>> ByteSource for BytesSource<B> {
    fn name(&self) -> &str {
        "(memory)"
    }

    fn len(&self) -> u64 {
        self.0.as_ref().len() as u64
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.as_ref().get(start..))
            .and_then(|rest| rest.get(..into.len()));
        match bytes {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(WeightsError::Truncated {
                file: self.name().to_owned(),
                place: "the read".to_owned(),
                offset,
                needed: into.len() as u64,
                available: self.len().saturating_sub(offset),
            }),
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use file::FileSource;

#[cfg(not(target_arch = "wasm32"))]
mod file {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Seek, SeekFrom};
    use std::path::Path;
    use std::sync::Mutex;

    use super::ByteSource;
    use crate::WeightsError;

    /// A file on disk.
    #[derive(Debug)]
    pub struct FileSource {
        path: String,
        len: u64,
        // Seeking and reading are two calls on every system we know; the lock keeps them together.
        file: Mutex<File>,
    }

    impl FileSource {
        /// Opens `path` for reading. A missing file, a directory, an empty file and one that may not be read
        /// are errors that name the path and say what to do.
        pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
            let path = path.as_ref();
            let shown = path.display().to_string();
            let failed = |error: std::io::Error| match error.kind() {
                ErrorKind::NotFound => WeightsError::NotFound {
                    path: shown.clone(),
                },
                ErrorKind::PermissionDenied => WeightsError::NotReadable {
                    path: shown.clone(),
                    problem: "no permission to read it; change its permissions or copy it"
                        .to_owned(),
                },
                _ => WeightsError::NotReadable {
                    path: shown.clone(),
                    problem: format!("cannot be opened: {error}"),
                },
            };
            // Before opening: opening a named pipe would wait for its writer.
            let about = std::fs::metadata(path).map_err(failed)?;
            let problem = if about.is_dir() {
                Some("is a directory; give the path of the .gguf file in it")
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

        async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
            let length = into.len() as u64;
            // A panic while the lock was held leaves at worst another seek position, and we seek first.
            let mut file = self
                .file
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            file.seek(SeekFrom::Start(offset))
                .and_then(|_| file.read_exact(into))
                .map_err(|error| WeightsError::Read {
                    file: self.path.clone(),
                    offset,
                    length,
                    reason: match error.kind() {
                        ErrorKind::UnexpectedEof => "the file ends before that".to_owned(),
                        _ => error.to_string(),
                    },
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_are_whole_or_fail() {
        let source = BytesSource(vec![1u8, 2, 3, 4]);
        let mut two = [0; 2];
        pollster::block_on(source.read(2, &mut two)).unwrap();
        assert_eq!(two, [3, 4]);
        for offset in [3, 4, 5, u64::from(u32::MAX) + 1, u64::MAX] {
            let error = pollster::block_on(source.read(offset, &mut two)).unwrap_err();
            assert!(
                matches!(error, WeightsError::Truncated { .. }),
                "{offset}: {error}"
            );
        }
        assert!(pollster::block_on(source.read(4, &mut [])).is_ok());
    }

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
}
