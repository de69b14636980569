//! Vocabularies that no honest file has: a named error for each, and never a panic.

use foretoken_text::{TextError, Tokenizer, VocabularySpec, byte_alphabet};

/// The 256 bytes, then these tokens of these types.
fn bytes_and(tokens: &[(&str, i32)]) -> VocabularySpec {
    let mut spec = VocabularySpec {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: byte_alphabet().map(String::from).collect(),
        token_types: vec![1; 256],
        ..Default::default()
    };
    for (token, kind) in tokens {
        spec.tokens.push(token.to_string());
        spec.token_types.push(*kind);
    }
    spec
}

fn error(spec: VocabularySpec) -> TextError {
    match Tokenizer::new(spec) {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

#[test]
fn ids_beyond_the_vocabulary() {
    for id in [256, u32::MAX] {
        for field in ["bos", "eos", "eot", "eom", "unknown", "padding"] {
            let mut spec = bytes_and(&[]);
            let slot = match field {
                "bos" => &mut spec.bos,
                "eos" => &mut spec.eos,
                "eot" => &mut spec.eot,
                "eom" => &mut spec.eom,
                "unknown" => &mut spec.unk,
                _ => &mut spec.pad,
            };
            *slot = Some(255);
            assert!(Tokenizer::new(spec.clone()).is_ok());
            let slot = match field {
                "bos" => &mut spec.bos,
                "eos" => &mut spec.eos,
                "eot" => &mut spec.eot,
                "eom" => &mut spec.eom,
                "unknown" => &mut spec.unk,
                _ => &mut spec.pad,
            };
            *slot = Some(id);
            let message = error(spec).to_string();
            assert!(
                message.contains(field) && message.contains(&id.to_string()),
                "{message}"
            );
        }
    }
}

#[test]
fn arrays_of_different_lengths() {
    for types in [0, 255, 257] {
        let mut spec = bytes_and(&[]);
        spec.token_types = vec![1; types];
        assert_eq!(
            error(spec),
            TextError::ArrayLength {
                field: "tokenizer.ggml.token_type",
                found: types as u64,
                expected: 256,
            }
        );
    }
    for kind in [0, 7, -1, i32::MIN] {
        let mut spec = bytes_and(&[]);
        spec.token_types[3] = kind;
        assert_eq!(error(spec), TextError::TokenType { id: 3, value: kind });
    }
}

#[test]
fn more_tokens_than_embedding_rows() {
    for (rows, ok) in [(255, false), (256, true), (257, true)] {
        let mut spec = bytes_and(&[]);
        spec.embedding_rows = Some(rows);
        assert_eq!(Tokenizer::new(spec).is_ok(), ok, "{rows}");
    }
}

#[test]
fn merges_that_cannot_be() {
    let merge = |merge: &str| {
        let mut spec = bytes_and(&[("ab", 1)]);
        spec.merges = vec!["a b".into(), merge.into()];
        error(spec)
    };
    for malformed in ["", " ", "a", "ab", "a ", " a", "a b c", "a  b"] {
        assert!(
            matches!(merge(malformed), TextError::MalformedMerge { index: 1, .. }),
            "{malformed:?}"
        );
    }
    for unknown in ["zz a", "a zz", "a c", "日 本"] {
        assert!(
            matches!(
                merge(unknown),
                TextError::MergeOutOfVocabulary { index: 1, .. }
            ),
            "{unknown:?}"
        );
    }
    let long = "x".repeat(1 << 20);
    assert!(merge(&long).to_string().len() < 300);
}

/// The case of huggingface/tokenizers#2094: the library panics on it.
#[test]
fn a_merge_longer_than_every_token() {
    let spec = VocabularySpec {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: vec!["a".into(), "b".into()],
        token_types: vec![1, 1],
        merges: vec!["a b".into()],
        ..Default::default()
    };
    assert_eq!(
        error(spec),
        TextError::MergeOutOfVocabulary {
            index: 0,
            token: "ab".into(),
        }
    );
}

#[test]
fn other_kinds_and_options_are_refused_by_name() {
    let empty = VocabularySpec {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        ..Default::default()
    };
    assert_eq!(error(empty), TextError::EmptyVocabulary);
    let mut spec = bytes_and(&[]);
    spec.model = "llama".into();
    assert!(error(spec).to_string().contains("\"llama\""));
    let mut spec = bytes_and(&[]);
    spec.pre = Some("tekken".into());
    assert!(matches!(error(spec), TextError::UnknownPreTokenizer { .. }));
    let mut spec = bytes_and(&[]);
    spec.pre = None;
    assert!(matches!(error(spec), TextError::MissingPreTokenizer { .. }));
    let mut spec = bytes_and(&[]);
    spec.add_space_prefix = Some(true);
    assert!(matches!(error(spec), TextError::UnsupportedOption { .. }));
    let mut spec = bytes_and(&[]);
    spec.add_bos = Some(true);
    assert_eq!(error(spec), TextError::MissingBos);
}

#[test]
fn repeated_spellings_are_allowed_and_the_lowest_id_wins() {
    let mut spec = bytes_and(&[
        ("ab", 1),
        ("ab", 1),
        ("a", 1),
        ("<x>", 3),
        ("<x>", 3),
        ("<u>", 4),
        ("<u>", 4),
        ("", 1),
        ("", 3),
        ("", 4),
    ]);
    spec.merges = vec!["a b".into(), "a b".into()];
    let tokenizer = Tokenizer::new(spec).unwrap();
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [256]);
    assert_eq!(tokenizer.encode("a", false).unwrap(), [97]);
    assert_eq!(tokenizer.encode("<x><u>", true).unwrap(), [259, 261]);
    assert_eq!(tokenizer.decode(&[256, 257, 258]), "ababa");
}

#[test]
fn no_merge_and_no_word_makes_a_control_token() {
    for pre in foretoken_text::PRE_TOKENIZERS {
        // Control tokens spelled like a word, a merge's result, a merge's part and a byte.
        let mut spec = bytes_and(&[
            ("ab", 3),
            ("word", 3),
            ("wo", 1),
            ("rd", 3),
            ("x", 3),
            ("abc", 1),
        ]);
        spec.pre = Some(pre.into());
        spec.merges = vec![
            "a b".into(),
            "w o".into(),
            "r d".into(),
            "wo rd".into(),
            "ab c".into(),
        ];
        let tokenizer = Tokenizer::new(spec).unwrap();
        let ids = tokenizer.encode("ab word rd abc x", false).unwrap();
        assert!(
            ids.iter().all(|id| !matches!(id, 256 | 257 | 259 | 260)),
            "{pre} {ids:?}"
        );
        assert_eq!(tokenizer.decode(&ids), "ab word rd abc x", "{pre}");
    }
}

#[test]
fn a_vocabulary_of_a_quarter_million_loads_as_fast_as_its_bytes() {
    let mut spec = bytes_and(&[]);
    spec.pre = Some("llama-bpe".into());
    let letters: Vec<char> = ('a'..='z').collect();
    let mut words: Vec<String> = letters.iter().map(char::to_string).collect();
    'grow: for length in 1.. {
        let longest: Vec<String> = words
            .iter()
            .filter(|word| word.len() == length)
            .cloned()
            .collect();
        for word in longest {
            for letter in &letters {
                if spec.tokens.len() == 262_144 - 100 {
                    break 'grow;
                }
                let longer = format!("{word}{letter}");
                spec.merges.push(format!("{word} {letter}"));
                spec.tokens.push(longer.clone());
                spec.token_types.push(1);
                words.push(longer);
            }
        }
    }
    for index in 0..100 {
        spec.tokens.push(format!("<|reserved_{index}|>"));
        spec.token_types.push(3);
    }
    let started = std::time::Instant::now();
    let tokenizer = Tokenizer::new(spec).unwrap();
    let took = started.elapsed();
    eprintln!(
        "262,144 tokens and {} merges in {took:?}",
        tokenizer.vocabulary() - 356
    );
    assert_eq!(tokenizer.vocabulary(), 262_144);
    assert!(took.as_secs() < 20, "{took:?}");
    assert_eq!(
        tokenizer.decode(&tokenizer.encode("hello world", false).unwrap()),
        "hello world"
    );
}

#[test]
fn odd_control_tokens_do_not_harm() {
    let long = "y".repeat(257);
    let spec = bytes_and(&[(&long, 3)]);
    assert!(matches!(
        error(spec),
        TextError::ControlTokenTooLong {
            id: 256,
            bytes: 257,
            ..
        }
    ));
    // User-defined tokens with spaces, prefixes of one another, and a very long one.
    let long = "z".repeat(1 << 20);
    let spec = bytes_and(&[("a b", 4), ("a b c", 4), (&long, 4), (" ", 4)]);
    let tokenizer = Tokenizer::new(spec).unwrap();
    assert_eq!(
        tokenizer.encode("a b ca bx", false).unwrap(),
        [257, 256, u32::from(b'x')]
    );
    let text = "a b".repeat(40_000);
    assert_eq!(tokenizer.encode(&text, false).unwrap(), vec![256; 40_000]);
}
