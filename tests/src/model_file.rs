//! Real models: too large for the repository, found on the machine or skipped aloud.

use std::path::{Path, PathBuf};

use foretoken_core::{LanguageModel, Ops};
use foretoken_models::{LoadOptions, load_model};
use foretoken_weights::{FileSource, Gguf};

/// Names the folder of the models; `~/.cache/foretoken/models` if unset.
const MODELS: &str = "FORETOKEN_MODELS";
/// `1` makes a missing model a failure.
const REQUIRE_MODELS: &str = "FORETOKEN_REQUIRE_MODELS";

/// The SmolLM2-135M-Instruct of the golden file.
pub const SMOLLM2: &str = "smollm2-135m.gguf";

/// The path of a model, or `None` after saying on the terminal that `test` is skipped.
pub fn find_model(file: &str, test: &str) -> Option<PathBuf> {
    let path = models_folder().join(file);
    if path.is_file() {
        return Some(path);
    }
    let required = std::env::var_os(REQUIRE_MODELS).is_some_and(|value| value == "1");
    assert!(
        !required,
        "{test}: {} is missing and {REQUIRE_MODELS}=1",
        path.display()
    );
    crate::skip(&format!(
        "{test}: {} is missing; `cargo xtask model` gets it",
        path.display()
    ));
    None
}

/// A folder of the models' folder, if it is there.
pub fn find_folder(name: &str) -> Option<PathBuf> {
    let path = models_folder().join(name);
    path.is_dir().then_some(path)
}

fn models_folder() -> PathBuf {
    let folder = std::env::var_os(MODELS)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/foretoken/models")));
    folder.unwrap_or_default()
}

/// Loads a model file onto `ops`.
pub async fn load_file<O: Ops + 'static>(ops: &mut O, path: &Path) -> Box<dyn LanguageModel<O>> {
    let shown = path.display();
    let source = FileSource::open(path).unwrap_or_else(|error| panic!("{error}"));
    let gguf = Gguf::read(&source)
        .await
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    let model = load_model(ops, &gguf, &source, LoadOptions::default(), &mut |_, _| {}).await;
    model.unwrap_or_else(|error| panic!("{shown}: {error}"))
}
