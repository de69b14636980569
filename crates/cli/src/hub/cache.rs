//! The hub's cache, laid out as its own tools do, so that they and this binary share what either fetched:
//! `models--owner--repository/blobs/<hash>`, `refs/<revision>` with a commit, and `snapshots/<commit>/<path>`, which are links to blobs;
//! on a file system that has no links they are the bytes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::listing::{Hash, ListedFile, Listing};

/// A repository's folder in the cache.
pub struct Cache {
    folder: PathBuf,
    locks: PathBuf,
}

impl Cache {
    /// Makes nothing yet.
    pub fn new(cache: &Path, repository: &str) -> Self {
        let name = format!("models--{}", repository.replace('/', "--"));
        Self {
            folder: cache.join(&name),
            locks: cache.join(".locks").join(name),
        }
    }

    /// Where a commit's files are.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Where the bytes of a hash are once they are whole and have it.
    pub fn blob(&self, hash: &Hash) -> PathBuf {
        self.folder.join("blobs").join(hash.digits())
    }

    /// Where they are until then.
    pub fn incomplete(&self, hash: &Hash) -> PathBuf {
        self.blob(hash).with_extension("incomplete")
    }

    /// Whether the bytes are there, of their hash or of their path in the snapshot of `commit`, which holds nothing else.
    pub fn has(&self, commit: &str, file: &ListedFile) -> bool {
        let is_whole = |path: &Path| {
            fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == file.size)
        };
        is_whole(&self.blob(&file.hash)) || is_whole(&self.snapshot(commit).join(&file.path))
    }

    /// Held by the one process that writes the bytes of a hash, as the hub's tools hold it; `waiting` is called where that is another.
    /// A file system without locks has none.
    pub fn lock(&self, hash: &Hash, waiting: impl FnOnce()) -> io::Result<File> {
        fs::create_dir_all(&self.locks)?;
        let lock = File::create(self.locks.join(format!("{}.lock", hash.digits())))?;
        if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
            waiting();
            lock.lock()?;
        }
        Ok(lock)
    }

    /// Gives the bytes of a file its path in the snapshot of `commit`.
    pub fn link(&self, commit: &str, file: &ListedFile) -> io::Result<PathBuf> {
        self.place(
            commit,
            file,
            &[link_by_name, link_to_bytes, |blob, path, _| {
                fs::rename(blob, path)
            }],
        )
    }

    /// Does so in the first of `ways` that the file system has.
    fn place(&self, commit: &str, file: &ListedFile, ways: &[Way]) -> io::Result<PathBuf> {
        let path = self.snapshot(commit).join(&file.path);
        let blob = self.blob(&file.hash);
        // Moved there.
        if !blob.exists() {
            return Ok(path);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let same = |path: &Path| fs::canonicalize(path).ok() == fs::canonicalize(&blob).ok();
        if !same(&path) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut placed = Ok(());
            for way in ways {
                placed = way(&blob, &path, file);
                match &placed {
                    Ok(()) => break,
                    // Another process was as fast.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        placed = Ok(());
                        break;
                    }
                    Err(_) => {}
                }
            }
            placed?;
        }
        Ok(path)
    }

    /// Keeps which commit a revision is.
    pub fn keep_revision(&self, revision: &str, commit: &str) -> io::Result<()> {
        let refs = self.folder.join("refs");
        fs::create_dir_all(&refs)?;
        fs::write(refs.join(revision), commit)
    }

    /// What the cache has of a revision, without the hub: names and sizes. Its bytes had their hashes when they came.
    pub fn listing(&self, revision: &str) -> Option<Listing> {
        let commit = fs::read_to_string(self.folder.join("refs").join(revision))
            .map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned());
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_commit {
            return None;
        }
        let mut files = Vec::new();
        list(&self.snapshot(&commit), "", &mut files).ok()?;
        files.sort_unstable_by(|a: &ListedFile, b| a.path.cmp(&b.path));
        Some(Listing {
            commit,
            licence: None,
            files,
        })
    }
}

/// Gives bytes (first) a path (second).
type Way = fn(&Path, &Path, &ListedFile) -> io::Result<()>;

/// A relative link, so that the cache can be moved.
#[cfg(unix)]
fn link_by_name(blob: &Path, path: &Path, file: &ListedFile) -> io::Result<()> {
    let depth = file.path.split('/').count() + 1;
    let name = blob.file_name().unwrap_or_default();
    let up: PathBuf = std::iter::repeat_n("..", depth).collect();
    std::os::unix::fs::symlink(up.join("blobs").join(name), path)
}

/// Links to names need a right that few have.
#[cfg(not(unix))]
fn link_by_name(_: &Path, _: &Path, _: &ListedFile) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A second name.
fn link_to_bytes(blob: &Path, path: &Path, _: &ListedFile) -> io::Result<()> {
    fs::hard_link(blob, path)
}

/// The files below a folder of a snapshot.
fn list(folder: &Path, prefix: &str, files: &mut Vec<ListedFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = format!("{prefix}{name}");
        // Folders are the snapshot's own: a link to one is none of them.
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), files)?;
        } else if let Ok(about) = fs::metadata(entry.path())
            && about.is_file()
        {
            files.push(ListedFile {
                path,
                size: about.len(),
                hash: Hash::Sha256(String::new()),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on a stick with FAT, or a share.
    #[test]
    fn without_links_the_bytes_move_to_their_path() {
        let root = std::env::temp_dir().join(format!("foretoken-cache-{}", std::process::id()));
        let cache = Cache::new(&root, "owner/repo");
        let commit = "c".repeat(40);
        let file = ListedFile {
            path: "folder/model.gguf".to_owned(),
            size: 5,
            hash: Hash::Sha256("a".repeat(64)),
        };
        assert!(!cache.has(&commit, &file));
        let blob = cache.blob(&file.hash);
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        fs::write(&blob, b"bytes").unwrap();
        let none: Way = |_, _, _| Err(io::ErrorKind::Unsupported.into());
        let ways: [Way; 3] = [none, none, |blob, path, _| fs::rename(blob, path)];
        for _ in 0..2 {
            let path = cache.place(&commit, &file, &ways).unwrap();
            assert_eq!(fs::read(path).unwrap(), b"bytes");
            assert!(!blob.exists());
            assert!(cache.has(&commit, &file));
        }
        // Of another commit nothing is there, and of another size neither.
        assert!(!cache.has(&"d".repeat(40), &file));
        assert!(!cache.has(
            &commit,
            &ListedFile {
                size: 6,
                ..file.clone()
            }
        ));
        // Where nothing at all is possible, that is an error.
        fs::write(&blob, b"bytes").unwrap();
        assert!(cache.place(&"d".repeat(40), &file, &[none]).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
