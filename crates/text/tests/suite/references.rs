//! Small vocabularies for every pre-tokenizer, against ids from Hugging Face's `tokenizers`.

use crate::reference::Reference;
use foretoken_text::{PRE_TOKENIZERS, Tokenizer};

#[test]
fn every_pre_tokenizer_gives_the_reference_ids() {
    for pre in PRE_TOKENIZERS {
        let reference = Reference::small(pre);
        let tokenizer = Tokenizer::new(reference.spec()).unwrap();
        assert!(reference.cases.len() >= 150, "{}", reference.cases.len());
        let wrong: Vec<String> = reference
            .cases
            .iter()
            .filter_map(|case| case.check(&tokenizer).err())
            .collect();
        assert!(
            wrong.is_empty(),
            "{pre}: {} differ\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}

#[test]
fn pieces_have_the_reference_ids() {
    for add_space_prefix in [false, true] {
        let reference = Reference::pieces(add_space_prefix);
        let tokenizer = Tokenizer::new(reference.spec()).unwrap();
        assert!(reference.cases.len() >= 200, "{}", reference.cases.len());
        let wrong: Vec<String> = reference
            .cases
            .iter()
            .filter_map(|case| case.check(&tokenizer).err())
            .collect();
        assert!(
            wrong.is_empty(),
            "{} differ\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}

/// The families differ on these strings, so a family that stood in for another would be seen.
#[test]
fn the_references_tell_the_families_apart() {
    // One name of those that mean the same.
    let families = PRE_TOKENIZERS.iter().filter(|pre| {
        ![
            "refact",
            "starcoder",
            "llama3",
            "llama-v3",
            "deepseek-r1-qwen",
        ]
        .contains(*pre)
    });
    let encoded: Vec<(&&str, Vec<u32>)> = families
        .map(|pre| {
            let mut spec = Reference::small("gpt-2").spec();
            spec.pre = Some(pre.to_string());
            // What only some families keep together.
            for (left, right) in [("t", "H"), ("Ċ", "Ċ"), ("e", "Ì"), ("!", "+")] {
                spec.tokens.push(format!("{left}{right}"));
                spec.token_types.push(1);
                spec.merges.insert(0, format!("{left} {right}"));
            }
            let tokenizer = Tokenizer::new(spec).unwrap();
            let text =
                "a \n\n x 1234567890 e\u{301} getHTTPServer ,\u{4e00}a+b 0\u{200d}z \u{b2}!a b\n\nc x!+y 567";
            (pre, tokenizer.encode(text, false).unwrap())
        })
        .collect();
    for (index, ids) in encoded.iter().enumerate() {
        for other in &encoded[index + 1..] {
            assert_ne!(ids.1, other.1, "{} {}", ids.0, other.0);
        }
    }
}

#[test]
fn long_texts_are_cut_without_a_trace() {
    for pre in PRE_TOKENIZERS {
        let reference = Reference::small(pre);
        let tokenizer = Tokenizer::new(reference.spec()).unwrap();
        // Longer than a piece, with all kinds of neighbours around the spaces where it may be cut.
        let unit = "word  two   1234 !!\n  x\u{3000} é e\u{301} 日本 \r\n\r\n\t y's <|im_end|> ";
        let text = unit.repeat(3000);
        let whole = tokenizer.encode(&text, false).unwrap();
        assert_eq!(
            tokenizer.decode(&whole).len(),
            if ["qwen2", "deepseek-r1-qwen"].contains(&pre) {
                text.len() - 3000
            } else {
                text.len()
            }
        );
        // The unit begins after a space that begins no word of its own: every repetition but the first
        // and the last has the same ids, wherever the pieces end.
        let three = tokenizer.encode(&unit.repeat(3), false).unwrap();
        let two = tokenizer.encode(&unit.repeat(2), false).unwrap();
        let period = three.len() - two.len();
        assert_eq!(whole.len(), two.len() + 2998 * period, "{pre}");
        let first = two.len() - period;
        for start in (first..whole.len() - 2 * period).step_by(period) {
            assert_eq!(
                whole[start..start + period],
                whole[start + period..start + 2 * period],
                "{pre} at {start}"
            );
        }
    }
}

/// Two megabytes of white space: neither slow nor cut short.
#[test]
fn two_megabytes_of_white_space() {
    for pre in ["smollm", "qwen2"] {
        let tokenizer = Tokenizer::new(Reference::small(pre).spec()).unwrap();
        for text in [format!("a{}b", " ".repeat(2 << 20)), " \n".repeat(1 << 20)] {
            let started = std::time::Instant::now();
            let ids = tokenizer.encode(&text, false).unwrap();
            let took = started.elapsed();
            eprintln!(
                "{pre}: {} bytes in {took:?}, {} tokens",
                text.len(),
                ids.len()
            );
            assert!(tokenizer.decode(&ids) == text, "{pre}");
            // Generous for a slow machine in a debug build; a quadratic search would take hours.
            assert!(took.as_secs() < 120, "{pre}: {took:?}");
        }
    }
}

#[test]
fn bos_stands_in_front_exactly_once() {
    let reference = Reference::small("llama-bpe");
    let bos = reference.id("<|im_start|>");
    let mut spec = reference.spec();
    spec.bos = Some(bos);
    // The family adds BOS unless the file says no; others only if it says yes.
    let tokenizer = Tokenizer::new(spec.clone()).unwrap();
    assert!(tokenizer.adds_bos());
    let plain = tokenizer.encode("a", false).unwrap();
    let with = [&[bos], plain.as_slice()].concat();
    assert_eq!(tokenizer.encode_prompt("a", false, true).unwrap(), with);
    assert_eq!(tokenizer.encode_prompt("a", false, false).unwrap(), plain);
    assert_eq!(
        tokenizer
            .encode_prompt("<|im_start|>a", true, true)
            .unwrap(),
        with
    );
    assert_eq!(
        tokenizer
            .encode_prompt("<|im_start|><|im_start|>a", true, true)
            .unwrap(),
        with
    );
    assert_eq!(tokenizer.encode_prompt("", false, true).unwrap(), [bos]);
    spec.add_bos = Some(false);
    assert!(!Tokenizer::new(spec.clone()).unwrap().adds_bos());
    spec.add_bos = None;
    spec.bos = None;
    assert!(!Tokenizer::new(spec).unwrap().adds_bos());

    let mut spec = Reference::small("qwen2").spec();
    spec.bos = Some(0);
    assert!(!Tokenizer::new(spec.clone()).unwrap().adds_bos());
    spec.add_bos = Some(true);
    assert!(Tokenizer::new(spec).unwrap().adds_bos());
}

#[test]
fn control_tokens_have_no_text_and_end_markers_end() {
    let reference = Reference::small("gpt-2");
    let end = reference.id("<|im_end|>");
    let mut spec = reference.spec();
    spec.eos = Some(end);
    let tokenizer = Tokenizer::new(spec).unwrap();
    let a = tokenizer.encode("a", false).unwrap();
    assert_eq!(tokenizer.decode(&[&[end][..], &a, &[end]].concat()), "a");
    assert_eq!(
        tokenizer.end_of_generation(),
        [end, reference.id("<|endoftext|>")]
    );
}
