//! Real models: too large for the repository, found on the machine or skipped aloud.

use std::path::{Path, PathBuf};

use foretoken_core::{LanguageModel, Ops};
use foretoken_models::{LoadOptions, load_model};
use foretoken_text::VocabularySpec;
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

/// The vocabulary of a model file by name; `None`, said loudly, where the file is not there.
pub fn vocabulary(file: &str, test: &str) -> Option<VocabularySpec> {
    let path = find_model(file, test)?;
    let source = FileSource::open(&path).unwrap();
    let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
    let meta = &gguf.metadata;
    let strings = |key: &str| -> Vec<String> {
        let array = meta.required_string_array(key).unwrap();
        array.iter().map(str::to_string).collect()
    };
    let rows = gguf.tensor("token_embd.weight").unwrap().rows();
    Some(VocabularySpec {
        model: meta.required_str("tokenizer.ggml.model").unwrap().into(),
        pre: meta.str("tokenizer.ggml.pre").unwrap().map(str::to_string),
        tokens: strings("tokenizer.ggml.tokens"),
        token_types: meta
            .required_i32_array("tokenizer.ggml.token_type")
            .unwrap(),
        merges: if meta.get("tokenizer.ggml.merges").is_some() {
            strings("tokenizer.ggml.merges")
        } else {
            Vec::new()
        },
        scores: meta
            .f32_array("tokenizer.ggml.scores")
            .unwrap()
            .unwrap_or_default(),
        bos: meta.u32("tokenizer.ggml.bos_token_id").unwrap(),
        eos: meta.u32("tokenizer.ggml.eos_token_id").unwrap(),
        unk: meta.u32("tokenizer.ggml.unknown_token_id").unwrap(),
        pad: meta.u32("tokenizer.ggml.padding_token_id").unwrap(),
        add_bos: meta.bool("tokenizer.ggml.add_bos_token").unwrap(),
        add_space_prefix: meta.bool("tokenizer.ggml.add_space_prefix").unwrap(),
        embedding_rows: u32::try_from(rows).ok(),
        chat_template: meta
            .str("tokenizer.chat_template")
            .unwrap()
            .map(str::to_string),
        ..Default::default()
    })
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
