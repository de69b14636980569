//! From `--draft-model` to a file or a folder.

use foretoken_engine::{DraftSource, Error};
use foretoken_weights::{FileSource, WeightsError};

use crate::failure::Failure;
use crate::model_file;

/// A draft model's file, or why it cannot be had.
pub struct DraftFile {
    /// What it is called.
    pub name: String,
    /// It, opened.
    pub file: Result<FileSource, String>,
}

impl DraftFile {
    /// Finds the draft that `model` names, fetching it where need be, and opens it.
    ///
    /// A name that nothing goes by is a mistake to be told. A network, a disk or a file that fails is the draft's misfortune
    /// alone, and the target runs without it.
    pub fn open(model: &str) -> anyhow::Result<Self> {
        let failed = |message: String| Self {
            name: model.to_owned(),
            file: Err(message),
        };
        let path = match model_file::resolve(model) {
            Ok(path) => path,
            Err(Failure { code, message })
                if ["network", "integrity", "quota_exceeded", "internal"].contains(&code) =>
            {
                return Ok(failed(message));
            }
            Err(failure) => return Err(anyhow::Error::from(failure).context("--draft-model")),
        };
        match FileSource::open(&path) {
            Ok(file) => Ok(Self {
                name: model_file::name(&path),
                file: Ok(file),
            }),
            Err(error @ WeightsError::NotFound { .. }) => {
                Err(anyhow::Error::from(Error::from(error)).context("--draft-model"))
            }
            Err(error) => Ok(failed(error.to_string())),
        }
    }

    /// As the engine takes it; `problem` keeps it from being loaded.
    pub fn source(&self, problem: Option<String>) -> DraftSource<'_, FileSource> {
        let file = self.file.as_ref().map_err(Clone::clone);
        DraftSource {
            name: self.name.clone(),
            file: problem.map_or(file, Err),
        }
    }
}
