//! From `--model` to a file or a folder.

use std::path::{Path, PathBuf};

use crate::aliases::{ALIASES, Alias};
use crate::failure::Failure;
use crate::hub::{self, Reference, SCHEME};

/// The file or folder that `model` means: a model of the hub, which is fetched where it is not there; a path if it looks like one or exists; otherwise an alias in the models
/// folder, `<alias>.gguf` or else the folder `<alias>`. An alias without either is fetched where its publisher gives it to anybody, and
/// else an error that says how to get it; a path is left to be opened.
pub fn resolve(model: &str) -> Result<PathBuf, Failure> {
    if model.starts_with(SCHEME) {
        return hub::fetch(&Reference::parse(model)?);
    }
    let path = Path::new(model);
    let is_path = model.contains(['/', '\\']) || model.ends_with(".gguf") || path.exists();
    if is_path {
        return Ok(path.to_owned());
    }
    let folder = models_folder().ok_or_else(|| Failure {
        code: "model_not_found",
        message: format!(
            "no folder to look for the model {model:?} in: set FORETOKEN_MODELS, or pass the path of a .gguf file or of a folder"
        ),
    })?;
    let file = folder.join(format!("{model}.gguf"));
    if file.exists() {
        return Ok(file);
    }
    let files = folder.join(model);
    if files.is_dir() {
        return Ok(files);
    }
    if let Some(Alias { reference, .. }) = ALIASES.iter().find(|alias| alias.name == model) {
        return hub::fetch(&Reference::parse(reference)?);
    }
    let known: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
    let why = match model.starts_with("gemma") {
        true => {
            "Gemma is not fetched by a name, since its licence has to be accepted first".to_owned()
        }
        false => format!(
            "it is none that is fetched by its name ({})",
            known.join(", ")
        ),
    };
    Err(Failure {
        code: "model_not_found",
        message: format!(
            "there is no model {model:?} in {}, and {why}: pass hf:owner/repository, the path of a .gguf file or of a folder, or put \
             {model}.gguf there",
            folder.display()
        ),
    })
}

/// The name it is served under: the file's, without its ending and without the number of a part; a folder's.
pub fn name(file: &Path) -> String {
    if file.is_dir() {
        // `.` has no name of its own.
        let full = file.canonicalize();
        let full = full.as_deref().unwrap_or(file);
        if let Some(repository) = snapshot_of(full) {
            return repository;
        }
        let name = full.file_name().map(|name| name.to_string_lossy());
        return name.map_or_else(|| "model".to_owned(), |name| name.into_owned());
    }
    let file_name = file.file_name().and_then(|name| name.to_str());
    if let Some(part) = file_name.and_then(foretoken_weights::part_name) {
        return part.base.to_owned();
    }
    file.file_stem().map_or_else(
        || "model".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// The name of the repository that a folder of the hub's cache is a commit of.
fn snapshot_of(folder: &Path) -> Option<String> {
    let snapshots = folder.parent()?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let name = repository.strip_prefix("models--")?.split("--").last()?;
    (snapshots.file_name()? == "snapshots").then(|| name.to_owned())
}

/// A variable of the environment that says where something is; an empty one says nothing.
pub fn path_in(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn models_folder() -> Option<PathBuf> {
    path_in("FORETOKEN_MODELS").or_else(|| cache_folder().map(|folder| folder.join("models")))
}

/// Where what can be made again is kept; `None` without a home.
pub fn cache_folder() -> Option<PathBuf> {
    path_in("HOME")
        .or_else(|| path_in("USERPROFILE"))
        .map(|home| home.join(".cache/foretoken"))
}
