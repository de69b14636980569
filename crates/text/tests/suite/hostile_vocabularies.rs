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
    spec.model = "t5".into();
    assert!(error(spec).to_string().contains("\"t5\""));
    let mut spec = bytes_and(&[]);
    spec.pre = Some("default".into());
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
    let spec = bytes_and(&[(&long, 4)]);
    assert!(matches!(
        error(spec),
        TextError::UserDefinedTokenTooLong {
            id: 256,
            bytes: 257,
            ..
        }
    ));
    // User-defined tokens with spaces, and prefixes of one another.
    let long = "z".repeat(256);
    let spec = bytes_and(&[("a b", 4), ("a b c", 4), (&long, 4), (" ", 4)]);
    let tokenizer = Tokenizer::new(spec).unwrap();
    assert_eq!(
        tokenizer.encode("a b ca bx", false).unwrap(),
        [257, 256, u32::from(b'x')]
    );
    let text = "a b".repeat(40_000);
    assert_eq!(tokenizer.encode(&text, false).unwrap(), vec![256; 40_000]);
}

/// Pieces with types and scores; no bytes, no unknown token.
fn pieces(tokens: &[(&str, i32, f32)]) -> VocabularySpec {
    VocabularySpec {
        model: "llama".into(),
        tokens: tokens.iter().map(|(token, ..)| token.to_string()).collect(),
        token_types: tokens.iter().map(|(_, kind, _)| *kind).collect(),
        scores: tokens.iter().map(|(.., score)| *score).collect(),
        add_space_prefix: Some(false),
        ..Default::default()
    }
}

const AB: [(&str, i32, f32); 3] = [("a", 1, -1.0), ("b", 1, -2.0), ("ab", 1, -3.0)];

#[test]
fn scores_that_are_not_as_many_as_the_tokens() {
    for scores in [0, 2, 4] {
        let mut spec = pieces(&AB);
        spec.scores = vec![0.0; scores];
        assert_eq!(
            error(spec),
            TextError::ArrayLength {
                field: "tokenizer.ggml.scores",
                found: scores as u64,
                expected: 3,
            }
        );
    }
    assert_eq!(error(pieces(&[])), TextError::EmptyVocabulary);
}

#[test]
fn bytes_that_are_none() {
    for token in ["a", "", "<0x1>", "<0xGG>", "<0x100>"] {
        let spec = pieces(&[AB.as_slice(), &[(token, 6, 0.0)]].concat());
        assert!(
            matches!(error(spec), TextError::ByteToken { id: 3, .. }),
            "{token}"
        );
    }
}

#[test]
fn what_cannot_be_spelled() {
    // Nothing to spell it with: left out.
    let tokenizer = Tokenizer::new(pieces(&AB)).unwrap();
    assert_eq!(tokenizer.encode("a\u{1f600}xb", false).unwrap(), [0, 1]);
    // An unknown token, named or by type: one for all that follow one another.
    let unknown = [AB.as_slice(), &[("<unk>", 2, 0.0)]].concat();
    let tokenizer = Tokenizer::new(pieces(&unknown)).unwrap();
    assert_eq!(
        tokenizer.encode("a\u{1f600}xbx", false).unwrap(),
        [0, 3, 1, 3]
    );
    assert_eq!(tokenizer.decode(&[0, 3, 1]), "ab");
    // Some of the bytes: what they do not spell whole is unknown.
    let some = [
        unknown.as_slice(),
        &[("<0xC3>", 6, 0.0), ("<0xA9>", 6, 0.0)],
    ]
    .concat();
    let tokenizer = Tokenizer::new(pieces(&some)).unwrap();
    let ids = tokenizer.encode("\u{e9}\u{ea}a<0xC3>", false).unwrap();
    assert_eq!(ids, [4, 5, 3, 0, 3]);
    assert_eq!(tokenizer.decode(&[4, 5, 4, 0]), "\u{e9}\u{fffd}a");
}

#[test]
fn repeated_pieces_and_a_space_written_either_way() {
    let repeated = [
        AB.as_slice(),
        &[
            ("ab", 1, 9.0),
            ("\u{2581}a", 1, -4.0),
            (" a", 1, 9.0),
            ("\u{2581}", 1, -9.0),
        ],
    ]
    .concat();
    let tokenizer = Tokenizer::new(pieces(&repeated)).unwrap();
    assert_eq!(
        tokenizer.encode("ab a\u{2581}a ", false).unwrap(),
        [2, 4, 4, 6]
    );
    assert_eq!(tokenizer.decode(&[2, 3, 4, 5, 6]), "abab a a ");
    let mut spec = pieces(&repeated);
    // A file that says nothing begins texts with a space, and again after a control token.
    spec.add_space_prefix = None;
    spec.tokens.push("<x>".into());
    spec.token_types.push(3);
    spec.scores.push(0.0);
    let tokenizer = Tokenizer::new(spec).unwrap();
    assert_eq!(tokenizer.encode("a<x>a", true).unwrap(), [4, 7, 4]);
    assert!(tokenizer.encode("", false).unwrap().is_empty());
    assert_eq!(tokenizer.decode(&[4, 4]), "a a");
    let mut detokenizer = tokenizer.detokenizer();
    assert_eq!(detokenizer.push(4), " a");
}

#[test]
fn no_piece_makes_a_control_token() {
    let spec = [
        AB.as_slice(),
        &[
            ("<bos>", 3, 99.0),
            ("<", 1, -1.0),
            (">", 1, -1.0),
            ("bos", 1, 50.0),
            ("bo", 1, 60.0),
            ("o", 1, -1.0),
            ("s", 1, -1.0),
            ("<bos", 1, 70.0),
            ("<end_of_turn>", 4, 0.0),
            ("</s>", 4, 0.0),
            ("aba", 3, 99.0),
            ("/", 1, -1.0),
        ],
    ]
    .concat();
    let tokenizer = Tokenizer::new(pieces(&spec)).unwrap();
    let typed = tokenizer.encode("<bos>aba</s>", false).unwrap();
    assert_eq!(typed, [10, 5, 2, 0, 12]);
    assert_eq!(tokenizer.decode(&typed), "<bos>aba</s>");
    assert_eq!(
        tokenizer.encode("<bos>aba<end_of_turn></s>", true).unwrap(),
        [3, 13, 11, 12]
    );
    // A tag of HTML does not end an answer; the same spelling does where the file calls it the end.
    assert_eq!(tokenizer.end_of_generation(), [11]);
    let mut spec = pieces(&spec);
    spec.eos = Some(12);
    let tokenizer = Tokenizer::new(spec).unwrap();
    assert_eq!(tokenizer.end_of_generation(), [12, 11]);
    assert!(!tokenizer.encode("</s>", false).unwrap().contains(&12));
}

#[test]
fn an_unused_piece_is_taken_apart() {
    let mut tokens = AB.to_vec();
    tokens[2].1 = 5;
    tokens.push(("aba", 1, -4.0));
    tokens.push(("cd", 5, 0.0));
    let tokenizer = Tokenizer::new(pieces(&tokens)).unwrap();
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [0, 1]);
    assert_eq!(tokenizer.encode("aba", false).unwrap(), [3]);
    assert!(tokenizer.encode("cd", false).unwrap().is_empty());
}
