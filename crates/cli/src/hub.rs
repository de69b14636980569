//! Models of the Hugging Face hub: found, fetched into the cache that the hub's own tools share, and checked.

mod cache;
mod client;
mod download;
mod environment;
mod listing;
mod reference;

use std::io;
use std::path::PathBuf;

use self::cache::Cache;
use self::client::{Client, Refused};
use self::download::{Failed, download};
use self::environment::Environment;
use self::listing::{ListedFile, Listing, megabytes};
pub use self::reference::{Reference, SCHEME};
use crate::failure::Failure;
use crate::progress::DownloadBar;
use crate::stderr;

/// The file or the folder of a model, which is fetched as far as the cache has it not. Where the hub does not
/// answer, or with nothing of use, what the cache has is taken.
pub fn fetch(reference: &Reference) -> Result<PathBuf, Failure> {
    let environment = Environment::read()?;
    let asked = Asked {
        environment: &environment,
        reference,
        cache: Cache::new(&environment.cache, &reference.repository),
    };
    if environment.offline {
        return asked.cached().ok_or_else(|| Failure {
            code: "model_not_found",
            message: format!(
                "{SCHEME}{} is not in {}, or not whole, and HF_HUB_OFFLINE is set: unset it to fetch the model",
                reference.repository,
                environment.cache.display()
            ),
        });
    }
    asked.fetched()
}

/// A reference, the hub and the cache.
struct Asked<'a> {
    environment: &'a Environment,
    reference: &'a Reference,
    cache: Cache,
}

impl Asked<'_> {
    fn fetched(&self) -> Result<PathBuf, Failure> {
        let Reference {
            repository,
            revision,
            wanted,
        } = self.reference;
        let client = Client::new(self.environment);
        let listing = client.listing(repository, revision).and_then(|body| {
            Listing::parse(&body)
                .map_err(|problem| Refused::Answer(format!("its listing {problem}")))
        });
        let listing = match listing {
            Ok(listing) => listing,
            Err(refused) => return self.cached_where(&refused, None),
        };
        let files = listing.model(wanted).map_err(|problem| Failure {
            code: "model_not_found",
            message: format!("{SCHEME}{repository} {problem}"),
        })?;
        match self.fetch_files(&client, &listing, &files) {
            Ok(()) => self.path(&listing, &files),
            Err((Failed::Refused(refused), file)) => self.cached_where(&refused, file),
            Err((Failed::Disk(error), _)) => Err(self.disk(&error)),
            Err((Failed::Integrity(message), _)) => Err(Failure {
                code: "integrity",
                message,
            }),
        }
    }

    /// What the cache has, where the hub refuses for a reason of its own and not of the question's.
    fn cached_where(
        &self,
        refused: &Refused,
        file: Option<&ListedFile>,
    ) -> Result<PathBuf, Failure> {
        let failure = self.refused(refused, file);
        let is_the_hubs = refused.is_passing() || matches!(refused, Refused::Answer(_));
        match self.cached().filter(|_| is_the_hubs) {
            None => Err(failure),
            Some(path) => {
                stderr::line(format_args!(
                    "warning: {}: what was fetched before is taken",
                    failure.message
                ));
                Ok(path)
            }
        }
    }

    /// Fetches what the cache has not, and links all. What failed comes with the file, if it is one's.
    fn fetch_files<'f>(
        &self,
        client: &Client<'_>,
        listing: &Listing,
        files: &[&'f ListedFile],
    ) -> Result<(), (Failed, Option<&'f ListedFile>)> {
        let disk = |error| (Failed::Disk(error), None);
        let repository = &self.reference.repository;
        let commit = &*listing.commit;
        let missing: Vec<&'f ListedFile> = files
            .iter()
            .copied()
            .filter(|file| !self.cache.has(commit, file))
            .collect();
        if !missing.is_empty() {
            let total = missing
                .iter()
                .map(|file| file.size)
                .fold(0, u64::saturating_add);
            let licence = listing.licence.as_deref().unwrap_or("not stated");
            let what = match missing[..] {
                [only] => only.path.clone(),
                _ => format!("{} files", missing.len()),
            };
            stderr::line(format_args!(
                "fetching {what} of {repository} ({}; licence: {licence}) into {}",
                megabytes(total),
                self.environment.cache.display()
            ));
            let bar = DownloadBar::new(repository, total);
            let mut before = 0;
            for file in missing {
                let waiting = || {
                    stderr::line(format_args!(
                        "waiting for another process that fetches {}",
                        file.path
                    ))
                };
                let _lock = self.cache.lock(&file.hash, waiting).map_err(disk)?;
                if !self.cache.has(commit, file) {
                    let names = (&**repository, commit);
                    download(client, &self.cache, names, file, &mut |done| {
                        bar.update(before + done)
                    })
                    .map_err(|failed| (failed, Some(file)))?;
                }
                before = before.saturating_add(file.size);
                bar.update(before);
            }
        }
        let linked = files
            .iter()
            .try_for_each(|file| self.cache.link(commit, file).map(drop));
        let kept = linked.and_then(|()| match self.reference.revision == commit {
            true => Ok(()),
            false => self.cache.keep_revision(&self.reference.revision, commit),
        });
        kept.map_err(disk)
    }

    /// What the cache has, as far as names tell; whether it is whole shows when it is opened.
    fn cached(&self) -> Option<PathBuf> {
        let listing = self.cache.listing(&self.reference.revision)?;
        let files = listing.model(&self.reference.wanted).ok()?;
        self.path(&listing, &files).ok()
    }

    /// The path that stands for a model's files: the first part of a GGUF, or the folder.
    fn path(&self, listing: &Listing, files: &[&ListedFile]) -> Result<PathBuf, Failure> {
        let snapshot = self.cache.snapshot(&listing.commit);
        match files.first() {
            Some(first) if first.path.to_ascii_lowercase().ends_with(".gguf") => {
                Ok(snapshot.join(&first.path))
            }
            _ => Ok(snapshot),
        }
    }

    fn answer(&self, problem: &str) -> Failure {
        Failure {
            code: "network",
            message: format!("{}: {problem}", self.environment.endpoint),
        }
    }

    /// What a refusal means and what to do about it.
    fn refused(&self, refused: &Refused, file: Option<&ListedFile>) -> Failure {
        let endpoint = &self.environment.endpoint;
        let Reference {
            repository,
            revision,
            ..
        } = self.reference;
        let page = format!("{endpoint}/{repository}");
        let token = match self.environment.token {
            Some(_) => "the token that is set has no access",
            None => "no token is set (HF_TOKEN)",
        };
        let not_found = |message: String| Failure {
            code: "model_not_found",
            message,
        };
        match refused {
            Refused::Network(problem) => {
                let resumes = match file {
                    Some(file) => format!(
                        " while fetching {}; what came is kept, and the same command goes on from there",
                        file.path
                    ),
                    None => String::new(),
                };
                self.answer(&format!(
                    "no answer, or one that broke off ({problem}){resumes}: check the network, or pass the path of a file"
                ))
            }
            Refused::Answer(problem) => self.answer(problem),
            Refused::Status(status @ (401 | 403), code) => {
                let gated = code.as_deref() == Some("GatedRepo");
                not_found(match (gated, status) {
                    (true, _) => format!(
                        "{repository} is given only to who accepts its licence, and {token}: accept it at {page}, make a token in \
                         the account's settings, and set HF_TOKEN to it (status {status})"
                    ),
                    (false, 403) => format!(
                        "{repository} is private or gated, and {token}: accept the licence at {page} if it asks for that, and set \
                         HF_TOKEN to a token that may read it (status {status})"
                    ),
                    (false, _) => format!(
                        "{repository} does not exist, or is private or gated, and {token}: check the name; if it is right, accept \
                         the licence at {page} and set HF_TOKEN to a token of that account (status {status})"
                    ),
                })
            }
            Refused::Status(404, code) => {
                let problem = match (code.as_deref(), file) {
                    (_, Some(file)) => format!(
                        "{repository} has no file {} any more: run the command again",
                        file.path
                    ),
                    (Some("RevisionNotFound"), _) => {
                        format!("{repository} has no revision {revision}: see {page}")
                    }
                    _ => format!(
                        "there is no repository {repository}, or no revision {revision} of it: check the name at {page}"
                    ),
                };
                not_found(format!("{problem} (status 404)"))
            }
            Refused::Status(429, _) => self.answer(
                "it is asked too often from here (status 429): try again later, or set HF_TOKEN",
            ),
            Refused::Status(status, _) => {
                self.answer(&format!("it answers with status {status}: try again later"))
            }
        }
    }

    fn disk(&self, error: &io::Error) -> Failure {
        let folder = self.environment.cache.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure {
                code: "quota_exceeded",
                message: format!(
                    "no room is left in {folder}: make some, or set HF_HUB_CACHE to another folder; what came is kept, and the same \
                     command goes on from there"
                ),
            },
            _ => Failure {
                code: "internal",
                message: format!(
                    "{folder} cannot be written ({error}): set HF_HUB_CACHE to a folder that can"
                ),
            },
        }
    }
}
