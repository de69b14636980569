//! From `--model` to a file.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The file that `model` means: a path if it looks like one or exists, otherwise an alias in the models
/// folder. An alias without a file is an error that says how to get it; a path is left to be opened.
pub fn resolve(model: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(model);
    let is_path = model.contains(['/', '\\']) || model.ends_with(".gguf") || path.exists();
    if is_path {
        return Ok(path.to_owned());
    }
    let folder = models_folder().ok_or_else(|| Failure {
        code: "model_not_found",
        message: format!(
            "no folder to look for the model {model:?} in: set FORETOKEN_MODELS, or pass the path of a .gguf file"
        ),
    })?;
    let file = folder.join(format!("{model}.gguf"));
    if file.exists() {
        return Ok(file);
    }
    Err(Failure {
        code: "model_not_found",
        message: format!(
            "there is no model {model:?} in {}: get it with `cargo xtask model {model}`, or pass the path of \
             a .gguf file",
            folder.display()
        ),
    })
}

/// The name it is served under: the file's, without its ending and without the number of a part.
pub fn name(file: &Path) -> String {
    let file_name = file.file_name().and_then(|name| name.to_str());
    if let Some(part) = file_name.and_then(foretoken_weights::part_name) {
        return part.base.to_owned();
    }
    file.file_stem().map_or_else(
        || "model".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// A variable of the environment that says where something is; an empty one says nothing.
fn path_in(name: &str) -> Option<PathBuf> {
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
