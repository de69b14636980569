//! Drafts with another tokenizer than their target's: the vocabularies of real model files, every two of them.

use std::path::Path;
use std::sync::Arc;

use foretoken_core::NO_COUNTERPART;
use foretoken_tests::model_file::{SMOLLM2, vocabulary};
use foretoken_text::{FollowedTokens, Tokenizer, VocabularyMap, VocabularyMatch};
use serde::Deserialize;

/// Part of the repository.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tiny.gguf");
const GEMMA3: &str = "gemma3-270m.gguf";
const QWEN: &str = "qwen2.5-coder-0.5b.gguf";
const LARGER_QWEN: &str = "qwen2.5-coder-1.5b.gguf";

/// What the package `gguf` and a dictionary of bytes say of two files.
#[derive(Deserialize)]
struct Reference {
    draft: String,
    target: String,
    pairs: u32,
    draft_tokens: u32,
    target_tokens: u32,
    /// FNV-1a over the pairs of ids of tokens of text.
    digest: String,
}

#[derive(Deserialize)]
struct References {
    cases: Vec<Reference>,
}

/// A text of a file of hard strings, which may be given as a repetition: prefix, unit, times, suffix.
#[derive(Deserialize)]
struct HardString {
    text: Option<String>,
    repeat: Option<(String, String, usize, String)>,
}

#[derive(Deserialize)]
struct HardStrings {
    cases: Vec<HardString>,
}

fn reference(draft: &str, target: &str) -> Reference {
    let text = include_str!("../golden/vocabulary_maps.json");
    let references: References = serde_json::from_str(text).unwrap();
    let stem = |file| Path::new(file).file_stem().unwrap().to_str().unwrap();
    let (draft, target) = (stem(draft), stem(target));
    let is_it = |case: &Reference| draft == case.draft && target == case.target;
    references.cases.into_iter().find(is_it).unwrap()
}

fn hard_strings(file: &str) -> Vec<String> {
    let text = match file {
        SMOLLM2 => include_str!("../golden/tokenizer_smollm2.json"),
        GEMMA3 => include_str!("../golden/tokenizer_gemma3.json"),
        _ => include_str!("../golden/tokenizer_qwen2.5-coder.json"),
    };
    let strings: HardStrings = serde_json::from_str(text).unwrap();
    assert!(strings.cases.len() >= 200);
    let text = |case: HardString| match (case.text, case.repeat) {
        (Some(text), _) => text,
        (None, Some((prefix, unit, times, suffix))) => {
            format!("{prefix}{}{suffix}", unit.repeat(times))
        }
        (None, None) => panic!("a case without a text"),
    };
    strings.cases.into_iter().map(text).collect()
}

fn digest(pairs: &[(u32, u32)]) -> String {
    let ids = pairs.iter().flat_map(|(draft, target)| [draft, target]);
    let hash = ids
        .flat_map(|id| id.to_le_bytes())
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
    format!("{hash:016x}")
}

/// The bytes of ids of text.
fn bytes_of(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    let bytes = ids.iter().map(|id| tokenizer.token_bytes(*id));
    bytes.collect::<Vec<_>>().concat()
}

/// One draft and one target.
struct Pair {
    draft: Arc<Tokenizer>,
    target: Arc<Tokenizer>,
    map: Arc<VocabularyMap>,
    /// Whether the draft has a token for this byte alone.
    has_byte: [bool; 256],
}

impl Pair {
    fn new(draft: &Arc<Tokenizer>, target: &Arc<Tokenizer>) -> Self {
        let started = std::time::Instant::now();
        let VocabularyMatch::Mapped(map) = VocabularyMatch::between(Arc::clone(draft), target)
        else {
            panic!("taken for the same vocabulary");
        };
        eprintln!("mapped in {:?}", started.elapsed());
        let mut has_byte = [false; 256];
        for id in 0..draft.vocabulary() {
            if let [byte] = draft.token_bytes(id) {
                has_byte[usize::from(*byte)] = true;
            }
        }
        Self {
            has_byte,
            draft: Arc::clone(draft),
            target: Arc::clone(target),
            map: Arc::new(map),
        }
    }

    /// The tokens of text are paired as the reference says, and the same both ways.
    fn check_map(&self, reference: &Reference) {
        let share = self.map.share();
        eprintln!(
            "{} drafts for {}: {:.1} % of a text, {} pairs of {} and {} tokens",
            reference.draft,
            reference.target,
            share.of_text * 100.0,
            share.pairs,
            share.draft_tokens,
            share.target_tokens,
        );
        let pairs: Vec<(u32, u32)> = (0_u32..)
            .zip(self.map.to_target().iter().copied())
            .filter(|(draft, target)| {
                *target != NO_COUNTERPART && !self.draft.decode(&[*draft]).is_empty()
            })
            .collect();
        let found = (share.pairs, share.draft_tokens, share.target_tokens);
        let expected = (
            reference.pairs,
            reference.draft_tokens,
            reference.target_tokens,
        );
        assert_eq!(found, expected);
        assert_eq!(pairs.len(), reference.pairs as usize);
        assert_eq!(digest(&pairs), reference.digest);
        for (from, to) in [
            (self.map.to_target(), self.map.to_draft()),
            (self.map.to_draft(), self.map.to_target()),
        ] {
            for (id, other) in (0_u32..)
                .zip(from)
                .filter(|(_, other)| **other != NO_COUNTERPART)
            {
                assert_eq!(to[*other as usize], id);
            }
        }
        // The tiny vocabulary has few words.
        let too_small = self.map.share().too_small();
        let is_tiny = [&reference.draft, &reference.target].contains(&&"tiny".to_owned());
        assert_eq!(too_small.is_some(), is_tiny, "{too_small:?}");
    }

    /// What was followed has the text of what was committed, after every token that does not end within a character.
    fn check_text(&self, text: &str) {
        let committed = self.target.encode(text, false).unwrap();
        let mut followed = FollowedTokens::new(Arc::clone(&self.map));
        let begin = followed.tokens().len();
        let mut expected = Vec::new();
        for (at, id) in committed.iter().enumerate() {
            followed.follow(&[*id]);
            expected.extend_from_slice(self.target.token_bytes(*id));
            // Comparing long texts after every token would take time in their square.
            if followed.ends_within_character() || at > 500 && at + 1 < committed.len() {
                continue;
            }
            let mut bytes = expected.clone();
            bytes.retain(|byte| self.can_write(*byte));
            let found = bytes_of(&self.draft, &followed.tokens()[begin..]);
            assert!(
                found == bytes,
                "{:?} became {:?}",
                String::from_utf8_lossy(&bytes),
                String::from_utf8_lossy(&found)
            );
        }
        assert!(!followed.ends_within_character());
        if text.bytes().all(|byte| self.can_write(byte)) {
            let streamed = |tokenizer: &Tokenizer, ids: &[u32]| {
                let mut detokenizer = tokenizer.detokenizer();
                let pieces: Vec<String> = ids.iter().map(|id| detokenizer.push(*id)).collect();
                pieces.concat() + &detokenizer.finish()
            };
            assert_eq!(
                streamed(&self.draft, followed.tokens()),
                streamed(&self.target, &committed)
            );
        }
    }

    /// SmolLM2's vocabulary lacks some bytes altogether.
    fn can_write(&self, byte: u8) -> bool {
        self.has_byte[usize::from(byte)]
    }
}

/// The tokenizers of two files, in both roles.
fn both_ways(test: &str, first: &str, second: &str) -> Option<[Pair; 2]> {
    let first_tokenizer = Arc::new(Tokenizer::new(vocabulary(first, test)?).unwrap());
    let second_tokenizer = Arc::new(Tokenizer::new(vocabulary(second, test)?).unwrap());
    let pairs = [
        (
            first,
            second,
            Pair::new(&first_tokenizer, &second_tokenizer),
        ),
        (
            second,
            first,
            Pair::new(&second_tokenizer, &first_tokenizer),
        ),
    ];
    Some(pairs.map(|(draft, target, pair)| {
        pair.check_map(&reference(draft, target));
        for text in hard_strings(target) {
            pair.check_text(&text);
        }
        pair
    }))
}

#[test]
fn tiny_and_smollm2() {
    both_ways("tiny_and_smollm2", TINY, SMOLLM2);
}

fn control(from: &Tokenizer, spelling: &str) -> u32 {
    let ids = from.encode(spelling, true).unwrap();
    assert_eq!(ids.len(), 1, "{spelling}");
    ids[0]
}

#[test]
#[ignore = "needs the file qwen2.5-coder-0.5b.gguf"]
fn smollm2_and_qwen() {
    let Some([pair, _]) = both_ways("smollm2_and_qwen", SMOLLM2, QWEN) else {
        return;
    };
    for spelling in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] {
        let draft = control(&pair.draft, spelling);
        let target = control(&pair.target, spelling);
        assert_eq!(pair.map.to_target()[draft as usize], target, "{spelling}");
    }
}

#[test]
#[ignore = "needs the files gemma3-270m.gguf and qwen2.5-coder-0.5b.gguf"]
fn gemma3_and_qwen() {
    let Some([pair, other]) = both_ways("gemma3_and_qwen", GEMMA3, QWEN) else {
        return;
    };
    for (draft, target) in [
        ("<eos>", "<|endoftext|>"),
        ("<end_of_turn>", "<|im_end|>"),
        ("<start_of_turn>", "<|im_start|>"),
    ] {
        let draft = control(&pair.draft, draft);
        let target = control(&pair.target, target);
        assert_eq!(pair.map.to_target()[draft as usize], target);
        assert_eq!(other.map.to_target()[target as usize], draft);
    }
    // Gemma's prompts begin with BOS, Qwen's do not.
    let prompt = pair.target.encode("<|im_start|>user\nHi<|im_end|>\n", true);
    let mut followed = FollowedTokens::new(Arc::clone(&pair.map));
    followed.follow(&prompt.unwrap());
    let expected = pair
        .draft
        .encode("<bos><start_of_turn>user\nHi<end_of_turn>\n", true);
    assert_eq!(followed.tokens(), expected.unwrap());
    let prompt = pair.draft.encode("<bos><start_of_turn>user\nHi", true);
    let mut followed = FollowedTokens::new(Arc::clone(&other.map));
    followed.follow(&prompt.unwrap());
    let expected = pair.target.encode("<|im_start|>user\nHi", true);
    assert_eq!(followed.tokens(), expected.unwrap());
}

#[test]
#[ignore = "needs the file gemma3-270m.gguf"]
fn smollm2_and_gemma3() {
    both_ways("smollm2_and_gemma3", SMOLLM2, GEMMA3);
}

#[test]
#[ignore = "needs the files qwen2.5-coder-0.5b.gguf and qwen2.5-coder-1.5b.gguf"]
fn models_of_a_family_have_the_same_vocabulary() {
    let test = "models_of_a_family_have_the_same_vocabulary";
    let (Some(draft), Some(target)) = (vocabulary(QWEN, test), vocabulary(LARGER_QWEN, test))
    else {
        return;
    };
    let draft = Arc::new(Tokenizer::new(draft).unwrap());
    let target = Tokenizer::new(target).unwrap();
    let found = VocabularyMatch::between(draft, &target);
    assert!(matches!(found, VocabularyMatch::Same));
}
