//! Files that no honest publisher has: a named error for each, and never a panic.

use foretoken_text::{TextError, Tokenizer};
use serde_json::{Value, json};

use crate::tokenizer_json::Files;

fn read(tokenizer: &Value) -> Result<Tokenizer, TextError> {
    Tokenizer::from_json(tokenizer.to_string().as_bytes(), None)
}

/// The error of a file in which one thing was changed.
fn error(name: &str, change: impl FnOnce(&mut Value)) -> TextError {
    let mut tokenizer = Files::small(name).tokenizer;
    assert!(read(&tokenizer).is_ok());
    change(&mut tokenizer);
    match read(&tokenizer) {
        Ok(_) => panic!("accepted: {name}"),
        Err(error) => error,
    }
}

#[test]
fn what_is_no_such_json() {
    let whole = Files::small("bpe-pieces").tokenizer.to_string();
    let deep = "[".repeat(1_000_000);
    let deep_step = format!("{{\"model\": {{\"vocab\": {{}}}}, \"normalizer\": {deep}");
    let cut = &whole[..whole.len() / 2];
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "{\"model\": 1}",
        "\u{0}",
        cut,
        &deep,
        &deep_step,
    ] {
        let error = Tokenizer::from_json(text.as_bytes(), None).err().unwrap();
        assert!(
            matches!(
                error,
                TextError::TokenizerFile {
                    file: "tokenizer.json",
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().len() < 400);
    }
    for config in ["", "[", "{\"add_bos_token\": 1}", &deep] {
        let error = Tokenizer::from_json(whole.as_bytes(), Some(config.as_bytes()));
        assert!(matches!(
            error.err().unwrap(),
            TextError::TokenizerFile {
                file: "tokenizer_config.json",
                ..
            }
        ));
    }
    let config = br#"{"bos_token": "<nowhere>"}"#;
    let error = Tokenizer::from_json(whole.as_bytes(), Some(config))
        .err()
        .unwrap();
    assert!(error.to_string().contains("<nowhere>"), "{error}");
}

#[test]
fn ids_that_cannot_be() {
    for id in [
        json!(u32::MAX),
        json!(1_000_000),
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(null),
    ] {
        let error = error("bpe-pieces", |file| {
            file["model"]["vocab"]["zz"] = id.clone()
        });
        assert!(
            matches!(error, TextError::TokenizerFile { .. }),
            "{id} {error}"
        );
        let error = self::error("bpe-pieces", |file| file["added_tokens"][0]["id"] = id);
        assert!(matches!(error, TextError::TokenizerFile { .. }), "{error}");
    }
    let error = error("bpe-pieces", |file| file["model"]["vocab"]["zz"] = json!(3));
    assert!(error.to_string().contains("zz"), "{error}");
    let error = self::error("bpe-pieces", |file| {
        file["model"]["vocab"] = json!({});
        file["added_tokens"] = json!([]);
    });
    assert!(matches!(error, TextError::TokenizerFile { .. }), "{error}");
}

#[test]
fn merges_that_cannot_be() {
    for (merge, malformed) in [
        (json!("a"), true),
        (json!("a b c"), true),
        (json!(["", "a"]), true),
        (json!("a zzz"), false),
        (json!(["a", "zzz"]), false),
    ] {
        let error = error("bpe-llama3", |file| file["model"]["merges"][0] = merge);
        assert_eq!(
            matches!(error, TextError::MalformedMerge { index: 0, .. }),
            malformed
        );
        assert_eq!(
            matches!(error, TextError::MergeOutOfVocabulary { index: 0, .. }),
            !malformed
        );
    }
    for merge in [json!(1), json!(["a"]), json!(["a", "b", "c"]), json!({})] {
        let error = error("bpe-llama3", |file| file["model"]["merges"][0] = merge);
        assert!(matches!(error, TextError::TokenizerFile { .. }), "{error}");
    }
}

#[test]
fn steps_that_are_not_known_are_named() {
    for (part, step) in [
        (
            "normalizer",
            json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        ),
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
        ),
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"String": "a"}, "content": "x".repeat(17)}),
        ),
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"Regex": "a(?=b)"}, "content": "x"}),
        ),
        ("normalizer", json!({"type": "Prepend", "prepend": 1})),
        ("normalizer", json!([1, 2])),
        ("normalizer", json!("NFC")),
        ("pre_tokenizer", json!({"type": "BertPreTokenizer"})),
        (
            "pre_tokenizer",
            json!({"type": "Metaspace", "replacement": "ab"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "often"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": r"\s+(?!\S)|x"}, "behavior": "Isolated"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": r"(a)\1"}, "behavior": "Isolated"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "a".repeat(5000)}, "behavior": "Isolated"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated"}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Sometimes"}),
        ),
        ("pre_tokenizer", json!({"type": "Split"})),
        ("pre_tokenizer", json!(null)),
        ("decoder", json!({"type": "WordPiece"})),
        ("decoder", json!(null)),
        ("model", json!({"type": "WordPiece", "vocab": {"a": 0}})),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0}, "end_of_word_suffix": "</w>"}),
        ),
        ("model", json!({"type": "Unigram", "vocab": {"a": 0}})),
    ] {
        let error = error("bpe-llama3", |file| {
            file["added_tokens"] = json!([]);
            file["post_processor"] = json!(null);
            file[part] = step.clone();
        });
        let TextError::UnsupportedStep { field, .. } = &error else {
            panic!("{step}: {error}");
        };
        assert_eq!(*field, part, "{step}");
        assert!(error.to_string().len() < 400);
    }
    // What is put around a text, and is not one token in front of it or behind.
    let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = |single: Vec<&Value>, ids: Value| json!({"type": "TemplateProcessing", "single": single, "special_tokens": {"<s>": {"ids": ids}}});
    let bos = token("<s>");
    let good = template(vec![&bos, &text], json!([1]));
    let sequence = |steps: [&Value; 2]| json!({"type": "Sequence", "processors": steps});
    for step in [
        json!({"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}),
        json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}),
        sequence([&good, &json!({"type": "Unheard"})]),
        sequence([&good, &good]),
        template(vec![&bos, &bos, &text], json!([1])),
        template(vec![&text, &text], json!([1])),
        template(vec![&bos], json!([1])),
        template(vec![], json!([1])),
        template(vec![&bos, &text], json!([1, 2])),
        template(vec![&bos, &text], json!([])),
        template(vec![&token("<unknown>"), &text], json!([1])),
        template(vec![&text, &token("<unknown>")], json!([1])),
    ] {
        let error = error("bpe-llama3", |file| file["post_processor"] = step.clone());
        let TextError::UnsupportedStep { field, .. } = &error else {
            panic!("{step}: {error}");
        };
        assert_eq!(*field, "post_processor", "{step}");
    }
    // A token in front that the configuration does not call BOS: it says itself whether that is added, or nobody knows.
    let files = Files::small("bpe-llama3");
    let config = |json: Value| {
        let config = json.to_string();
        Tokenizer::from_json(
            files.tokenizer.to_string().as_bytes(),
            Some(config.as_bytes()),
        )
    };
    let other = config(json!({"bos_token": "</s>"})).err().unwrap();
    assert!(other.to_string().contains("post_processor"), "{other}");
    let stated = config(json!({"bos_token": "</s>", "add_bos_token": false}));
    assert!(!stated.unwrap().adds_bos());
    // One in front of a text and one behind it, which is left out.
    let mut tokenizer = files.tokenizer.clone();
    for (step, adds_bos) in [
        (
            sequence([&json!({"type": "ByteLevel", "trim_offsets": false}), &good]),
            true,
        ),
        (template(vec![&bos, &text, &bos], json!([1])), true),
        (template(vec![&text, &bos], json!([1])), false),
        (template(vec![&text], json!([1])), false),
    ] {
        tokenizer["post_processor"] = step;
        assert_eq!(read(&tokenizer).unwrap().adds_bos(), adds_bos);
    }
    // Expressions that are none, or too large to be made.
    for regex in ["(", "[z-a]", r"\p{Nonsense}", r"(\p{L}{1000}){1000}"] {
        let error = error("bpe-llama3", |file| {
            file["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": regex});
        });
        assert!(
            matches!(error, TextError::Tokenizer { .. }),
            "{regex}: {error}"
        );
    }
    let many = json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 33]});
    let error = error("bpe-llama3", |file| file["normalizer"] = many);
    assert!(matches!(error, TextError::UnsupportedStep { .. }));
    let byte_level = json!({"type": "ByteLevel"});
    let twice = json!({"type": "Sequence", "pretokenizers": [byte_level, byte_level]});
    let error = self::error("bpe-llama3", |file| file["pre_tokenizer"] = twice);
    assert!(matches!(error, TextError::UnsupportedStep { .. }));
}

/// A text that a file makes ever longer is refused, not allocated.
#[test]
fn a_text_that_grows_without_end() {
    let grow =
        json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaa"});
    let mut file = Files::small("bpe-llama3").tokenizer;
    file["normalizer"] = json!({"type": "Sequence", "normalizers": vec![grow; 32]});
    let tokenizer = read(&file).unwrap();
    let error = tokenizer.encode(&"a".repeat(10_000), false).err().unwrap();
    assert!(matches!(error, TextError::Tokenizer { .. }), "{error}");
    assert!(tokenizer.encode("b", false).is_ok());
}

#[test]
fn unigram_models_that_cannot_be() {
    for unk in [json!(1_000_000), json!(u32::MAX)] {
        let error = error("unigram", |file| file["model"]["unk_id"] = unk);
        assert!(matches!(error, TextError::Tokenizer { .. }), "{error}");
    }
    // Without an unknown token a text that cannot be spelled is an error of its own, not a panic.
    let mut file = Files::small("unigram").tokenizer;
    file["model"]["unk_id"] = json!(null);
    let tokenizer = read(&file).unwrap();
    assert!(tokenizer.encode("a", false).is_ok());
    assert!(matches!(
        tokenizer.encode("\u{12345}", false),
        Err(TextError::Tokenizer { .. })
    ));
}

/// Every file with one of its values replaced: whatever comes, it is no panic.
#[test]
fn values_of_other_kinds() {
    let others = [
        json!(null),
        json!(-1),
        json!("x"),
        json!([]),
        json!({}),
        json!({"type": "Sequence"}),
    ];
    for name in ["unigram", "bpe-legacy", "bpe-llama3"] {
        let whole = Files::small(name).tokenizer;
        let mut places = Vec::new();
        find_places(&whole, String::new(), &mut places);
        for place in places {
            for other in &others {
                let mut file = whole.clone();
                *file.pointer_mut(&place).unwrap() = other.clone();
                if let Ok(tokenizer) = read(&file) {
                    let _ = tokenizer.encode("Hello <b> \u{1f600}", true);
                }
            }
        }
    }
}

/// Pointers to all values but the vocabulary's and the merges'.
fn find_places(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !at.ends_with("/vocab") => {
            for (key, value) in fields {
                let inner = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                places.push(inner.clone());
                find_places(value, inner, places);
            }
        }
        Value::Array(values) if !at.ends_with("/merges") && !at.ends_with("/vocab") => {
            for (index, value) in values.iter().enumerate().take(3) {
                let inner = format!("{at}/{index}");
                places.push(inner.clone());
                find_places(value, inner, places);
            }
        }
        _ => {}
    }
}
