//! Small files in the format of Hugging Face's `tokenizers`, against the ids it gives.

use foretoken_text::Tokenizer;
use serde::Deserialize;

use crate::case::Case;

/// A tokenizer.json with its tokenizer_config.json.
#[derive(Deserialize)]
pub struct Files {
    pub tokenizer: serde_json::Value,
    pub config: serde_json::Value,
    adds_bos: bool,
    ends: Vec<u32>,
    cases: Vec<Case>,
}

impl Files {
    pub fn small(name: &str) -> Self {
        let text = match name {
            "unigram" => include_str!("../data/json-unigram.json"),
            "unigram-bytes" => include_str!("../data/json-unigram-bytes.json"),
            "bpe-legacy" => include_str!("../data/json-bpe-legacy.json"),
            "bpe-pieces" => include_str!("../data/json-bpe-pieces.json"),
            "bpe-no-bytes" => include_str!("../data/json-bpe-no-bytes.json"),
            "bpe-llama3" => include_str!("../data/json-bpe-llama3.json"),
            "bpe-gpt2" => include_str!("../data/json-bpe-gpt2.json"),
            _ => panic!("no reference for {name}"),
        };
        serde_json::from_str(text).unwrap()
    }

    pub fn read(&self) -> Result<Tokenizer, foretoken_text::TextError> {
        Tokenizer::from_json(
            self.tokenizer.to_string().as_bytes(),
            Some(self.config.to_string().as_bytes()),
        )
    }
}

pub const FILES: [&str; 7] = [
    "unigram",
    "unigram-bytes",
    "bpe-legacy",
    "bpe-pieces",
    "bpe-no-bytes",
    "bpe-llama3",
    "bpe-gpt2",
];

#[test]
fn every_file_gives_the_reference_ids() {
    for name in FILES {
        let files = Files::small(name);
        let tokenizer = files
            .read()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(files.cases.len() >= 200, "{}", files.cases.len());
        let wrong: Vec<String> = files
            .cases
            .iter()
            .filter_map(|case| case.check(&tokenizer).err())
            .collect();
        assert!(
            wrong.is_empty(),
            "{name}: {} differ\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert_eq!(tokenizer.adds_bos(), files.adds_bos, "{name}");
        assert_eq!(tokenizer.bos(), Some(1), "{name}");
        assert_eq!(tokenizer.end_of_generation(), files.ends, "{name}");
        assert!(tokenizer.chat_template().is_ok(), "{name}");
    }
}

#[test]
fn no_control_token_can_be_typed() {
    for name in FILES {
        let files = Files::small(name);
        let tokenizer = files.read().unwrap();
        let added = files.tokenizer["added_tokens"].as_array().unwrap();
        let special = |token: &&serde_json::Value| token["special"] == true;
        let control: Vec<(&str, u64)> = added
            .iter()
            .filter(special)
            .map(|token| {
                let spelling = token["content"].as_str().unwrap();
                (spelling, token["id"].as_u64().unwrap())
            })
            .collect();
        assert!(control.len() >= 5, "{name}");
        for (spelling, id) in &control {
            let id = u32::try_from(*id).unwrap();
            assert_eq!(tokenizer.encode(spelling, true).unwrap(), [id], "{name}");
            for typed in [spelling.to_string(), format!(" a{spelling} {spelling}b")] {
                let ids = tokenizer.encode(&typed, false).unwrap();
                let found = control.iter().any(|(spelling, control)| {
                    // What cannot be spelled is unknown; that says nothing.
                    *spelling != "<unk>" && ids.iter().any(|id| u64::from(*id) == *control)
                });
                assert!(!found, "{name} {typed:?} {ids:?}");
            }
        }
    }
}

#[test]
fn of_several_templates_those_for_chats_and_for_tools_are_taken() {
    let mut files = Files::small("bpe-pieces");
    let template =
        |name: &str| serde_json::json!({"name": name, "template": format!("for {name}")});
    files.config["chat_template"] = ["rag", "tool_use", "default"].map(template).to_vec().into();
    let tokenizer = files.read().unwrap();
    let source = |tokenizer: &Tokenizer, tools| {
        let template = tokenizer.chat_template_for(tools);
        template.unwrap().source().to_owned()
    };
    assert_eq!(source(&tokenizer, false), "for default");
    assert_eq!(source(&tokenizer, true), "for tool_use");
    // A template in a file of its own stands for all of them.
    let tokenizer = tokenizer.with_chat_template("one".into());
    assert_eq!(source(&tokenizer, true), "one");
    // A single one is for both.
    files.config["chat_template"] = "single".into();
    assert_eq!(source(&files.read().unwrap(), true), "single");
}

#[test]
fn a_template_and_ends_of_their_own() {
    let files = Files::small("bpe-pieces");
    let tokenizer = files
        .read()
        .unwrap()
        .with_chat_template("{{ eos_token }}!".into())
        .with_end_of_generation(&[7, 2, u32::MAX]);
    assert_eq!(tokenizer.end_of_generation(), [2, 4, 7]);
    let options = foretoken_text::RenderOptions {
        context: 100,
        ..Default::default()
    };
    let rendered = tokenizer.chat_template().unwrap().render(&[], &options);
    assert_eq!(rendered.unwrap().text(), "</s>!");
    let without = Tokenizer::from_json(files.tokenizer.to_string().as_bytes(), None).unwrap();
    assert_eq!(without.bos(), None);
    assert!(without.chat_template().is_err());
}
