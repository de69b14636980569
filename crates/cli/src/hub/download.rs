//! One file: its bytes from where they broke off, hashed as they come, and nothing taken that has another hash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};
use ureq::Body;
use ureq::http::Response;

use super::cache::Cache;
use super::client::{Client, Refused};
use super::listing::{Hash, ListedFile, megabytes};

/// Attempts that bring no byte, one after another, before it is given up.
const ATTEMPTS: u32 = 4;
/// Before the second attempt; twice as long before each later one.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a file did not come.
pub enum Failed {
    /// See there.
    Refused(Refused),
    /// What came is not what is listed. It is gone.
    Integrity(String),
    /// The disk.
    Disk(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Disk(error)
    }
}

/// Fetches a file's bytes into the cache. `progress` is called with how many of them are there.
pub fn download(
    client: &Client<'_>,
    cache: &Cache,
    (repository, commit): (&str, &str),
    file: &ListedFile,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failed> {
    let path = cache.incomplete(&file.hash);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut begun = fs::metadata(&path).is_ok_and(|about| about.len() > 0);
    loop {
        let mut part = Part::open(&path, file)?;
        progress(part.len);
        let mut attempt = 1;
        while part.len < file.size {
            let before = part.len;
            let fetched = client
                .file(repository, commit, &file.path, part.len)
                .map_err(Failed::Refused)
                .and_then(|response| part.append(response, file, progress));
            match fetched {
                Ok(()) => {}
                Err(Failed::Refused(refused)) if refused.is_passing() => {
                    attempt = if part.len > before { 1 } else { attempt + 1 };
                    if attempt > ATTEMPTS {
                        return Err(Failed::Refused(refused));
                    }
                    std::thread::sleep(PAUSE * (1 << (attempt - 1)));
                }
                Err(failed) => return Err(failed),
            }
        }
        let Part {
            file: bytes, hash, ..
        } = part;
        bytes.sync_all()?;
        // Some systems neither rename nor remove what is open.
        drop(bytes);
        let found = hash.finish();
        if found == file.hash.digits() {
            fs::rename(&path, cache.blob(&file.hash))?;
            return Ok(());
        }
        fs::remove_file(&path)?;
        // What was there before may have been anything: once more from the start.
        if !std::mem::take(&mut begun) {
            return Err(Failed::Integrity(format!(
                "{}: the bytes that came have the hash {found}, the hub lists {}: they were thrown away; try again, and if it happens \
                 again, something between here and the hub changes files",
                file.path,
                file.hash.digits()
            )));
        }
    }
}

/// The bytes that are there; the file is written where they end.
struct Part {
    file: File,
    len: u64,
    hash: Hasher,
}

impl Part {
    /// Opens what is there of a file and hashes it.
    fn open(path: &Path, listed: &ListedFile) -> io::Result<Self> {
        // Not to append: Windows then refuses to cut the file.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut part = Self {
            hash: Hasher::new(listed),
            len: file.metadata()?.len(),
            file,
        };
        if part.len > listed.size {
            part.restart(listed)?;
        }
        let mut buffer = vec![0; 1 << 20];
        let mut left = part.len;
        while left > 0 {
            let read = match part.file.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            part.hash.update(&buffer[..read]);
            left = left.saturating_sub(read as u64);
        }
        Ok(part)
    }

    fn restart(&mut self, listed: &ListedFile) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.len = 0;
        self.hash = Hasher::new(listed);
        Ok(())
    }

    /// Appends what a response brings, and no more than what is listed.
    fn append(
        &mut self,
        mut response: Response<Body>,
        listed: &ListedFile,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failed> {
        let header = |name: &str| {
            response
                .headers()
                .get(name)?
                .to_str()
                .ok()
                .map(str::to_owned)
        };
        let kind = header("content-type").unwrap_or_default();
        if kind.starts_with("text/html") && !listed.path.ends_with(".html") {
            let problem = format!(
                "it answers with a web page where {} was asked for: is there a proxy that asks for a login, or is HF_ENDPOINT wrong?",
                listed.path
            );
            return Err(Failed::Refused(Refused::Answer(problem)));
        }
        if response.status().as_u16() == 206 {
            let range = header("content-range").unwrap_or_default();
            if !range.starts_with(&format!("bytes {}-", self.len)) {
                let problem = format!(
                    "it was asked for bytes from {} on and answers with {range:?}",
                    self.len
                );
                return Err(Failed::Refused(Refused::Answer(problem)));
            }
        } else if self.len > 0 {
            self.restart(listed)?;
        }
        let left = listed.size - self.len;
        if let Some(brings) = header("content-length").and_then(|text| text.parse::<u64>().ok())
            && brings != left
        {
            let problem = format!(
                "it brings {brings} bytes of {} where {left} are left of what it lists: is HF_ENDPOINT right?",
                listed.path
            );
            return Err(Failed::Refused(Refused::Answer(problem)));
        }
        let mut body = response.body_mut().as_reader().take(left);
        let mut buffer = vec![0; 1 << 16];
        while self.len < listed.size {
            let broken = |error: &dyn std::fmt::Display| {
                Failed::Refused(Refused::Network(error.to_string()))
            };
            let read = match body.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|error| broken(&error))?,
            };
            if read == 0 {
                return Err(broken(&format!(
                    "the connection ended after {}",
                    megabytes(self.len)
                )));
            }
            self.file.write_all(&buffer[..read])?;
            self.hash.update(&buffer[..read]);
            self.len += read as u64;
            progress(self.len);
        }
        Ok(())
    }
}

/// What the hub has hashed a file with.
enum Hasher {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl Hasher {
    fn new(file: &ListedFile) -> Self {
        match file.hash {
            Hash::Sha256(_) => Hasher::Sha256(Sha256::new()),
            // Git hashes an object's kind and length before it.
            Hash::GitBlob(_) => {
                Hasher::GitBlob(Sha1::new_with_prefix(format!("blob {}\0", file.size)))
            }
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hash) => hash.update(bytes),
            Hasher::GitBlob(hash) => hash.update(bytes),
        }
    }

    fn finish(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Hasher::Sha256(hash) => hex(&hash.finalize()),
            Hasher::GitBlob(hash) => hex(&hash.finalize()),
        }
    }
}
