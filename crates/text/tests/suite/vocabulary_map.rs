//! Drafts with another tokenizer than their target's: a pair made by hand in which every case occurs, and every two of the
//! small vocabularies.

use std::sync::Arc;

use foretoken_core::NO_COUNTERPART;
use foretoken_text::{
    FollowedTokens, MIN_MAPPED_SHARE, MappedShare, Tokenizer, VocabularyMap, VocabularyMatch,
    VocabularySpec, byte_alphabet,
};

use crate::reference::Reference;
use crate::tokenizer_json::{FILES, Files};

/// A specification put together token by token.
#[derive(Default)]
struct Vocabulary {
    tokens: Vec<String>,
    types: Vec<i32>,
}

impl Vocabulary {
    fn with(mut self, kind: i32, tokens: &[&str]) -> Self {
        self.tokens
            .extend(tokens.iter().map(|token| token.to_string()));
        self.types.resize(self.tokens.len(), kind);
        self
    }

    /// The bytes, each a token: ids 0 to 255.
    fn bytes() -> Self {
        let letters: Vec<String> = byte_alphabet().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        Self::default().with(1, &letters)
    }

    fn id(&self, token: &str) -> u32 {
        let at = self.tokens.iter().position(|known| known == token);
        u32::try_from(at.unwrap_or_else(|| panic!("no {token}"))).unwrap()
    }

    /// Byte-level, with a merge for each of these.
    fn byte_level(&self, merges: &[&str]) -> VocabularySpec {
        VocabularySpec {
            model: "gpt2".into(),
            pre: Some("gpt-2".into()),
            tokens: self.tokens.clone(),
            token_types: self.types.clone(),
            merges: merges.iter().map(|merge| merge.to_string()).collect(),
            ..VocabularySpec::default()
        }
    }

    /// Pieces, the later ones made first.
    fn pieces(&self) -> VocabularySpec {
        VocabularySpec {
            model: "llama".into(),
            tokens: self.tokens.clone(),
            token_types: self.types.clone(),
            scores: (0..self.tokens.len()).map(|id| id as f32).collect(),
            add_space_prefix: Some(false),
            ..VocabularySpec::default()
        }
    }
}

fn target() -> (Vocabulary, Tokenizer) {
    let vocabulary = Vocabulary::bytes()
        .with(1, &["Ġt", "he", "Ġthe", "ab", "xy", "âĢ", "Ļs"])
        .with(3, &["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
        .with(3, &["<|tool|>", "<|only|>", "<a>"])
        .with(5, &["<pad>"])
        .with(4, &["<t>"])
        .with(1, &["<a>b"]);
    let spec = VocabularySpec {
        eos: Some(vocabulary.id("<|im_end|>")),
        ..vocabulary.byte_level(&["Ġ t", "h e", "Ġt he"])
    };
    let tokenizer = Tokenizer::new(spec).unwrap();
    (vocabulary, tokenizer)
}

fn draft() -> (Vocabulary, Tokenizer) {
    let bytes: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
    let vocabulary = Vocabulary::default()
        .with(2, &["<unk>"])
        .with(3, &["<bos>", "<eos>", "<end_of_turn>", "<start_of_turn>"])
        .with(3, &["<|tool|>"])
        .with(6, &bytes)
        .with(1, &["a", "b", "▁", "’", "▁the", "’s"])
        .with(5, &["ab", "<pad>"])
        .with(4, &["<t>", "<a>", "▁t"])
        .with(1, &["a", "▁t"]);
    let spec = VocabularySpec {
        bos: Some(1),
        eos: Some(2),
        eot: Some(3),
        ..vocabulary.pieces()
    };
    let tokenizer = Tokenizer::new(spec).unwrap();
    (vocabulary, tokenizer)
}

fn map(draft: Tokenizer, target: &Tokenizer) -> VocabularyMap {
    match VocabularyMatch::between(Arc::new(draft), target) {
        VocabularyMatch::Mapped(map) => map,
        VocabularyMatch::Same => panic!("taken for the same"),
    }
}

fn is_same(draft: VocabularySpec, target: &VocabularySpec) -> bool {
    let draft = Arc::new(Tokenizer::new(draft).unwrap());
    let target = Tokenizer::new(target.clone()).unwrap();
    matches!(
        VocabularyMatch::between(draft, &target),
        VocabularyMatch::Same
    )
}

#[test]
fn a_token_means_the_one_with_the_same_bytes_or_the_same_role() {
    let (target_vocabulary, target) = target();
    let (draft_vocabulary, draft) = draft();
    let map = map(draft, &target);
    let of_draft = |token: &str| draft_vocabulary.id(token);
    let of_target = |token: &str| target_vocabulary.id(token);
    let byte = |byte: u8| 6 + u32::from(byte);
    let mut expected = vec![NO_COUNTERPART; target_vocabulary.tokens.len()];
    for value in 0..=255 {
        expected[usize::from(value)] = byte(value);
    }
    // Byte-level vocabularies spell byte `a` with the letter a, and a space with Ġ; as do pieces, before a byte's own token.
    let letters: Vec<String> = byte_alphabet().map(String::from).collect();
    for (target_id, token) in [
        (of_target(&letters[usize::from(b'a')]), of_draft("a")),
        (of_target(&letters[usize::from(b'b')]), of_draft("b")),
        (of_target(&letters[usize::from(b' ')]), of_draft("▁")),
        // User-defined, though the draft has an ordinary one as well.
        (of_target("Ġt"), of_draft("▁t")),
        (of_target("Ġthe"), of_draft("▁the")),
        (of_target("<t>"), of_draft("<t>")),
        // By role, by order, by spelling.
        (of_target("<|im_end|>"), of_draft("<end_of_turn>")),
        (of_target("<|endoftext|>"), of_draft("<eos>")),
        (of_target("<|im_start|>"), of_draft("<start_of_turn>")),
        (of_target("<|tool|>"), of_draft("<|tool|>")),
    ] {
        expected[target_id as usize] = token;
    }
    // "ab" and "<pad>" are unused in one of the two, "<a>" a control token of the target alone.
    assert_eq!(map.to_draft(), expected);
    let mut expected = vec![NO_COUNTERPART; draft_vocabulary.tokens.len()];
    for (id, token) in (0..).zip(map.to_draft()) {
        if *token != NO_COUNTERPART {
            expected[*token as usize] = id;
        }
    }
    assert_eq!(map.to_target(), expected);
    // 256 bytes, " t", " the" and "<t>".
    assert_eq!(map.share().pairs, 259);
}

/// BOS is mapped where both begin prompts with it.
#[test]
fn bos_means_bos_where_both_have_it_in_front() {
    let vocabulary = |bos: &str| Vocabulary::bytes().with(3, &[bos]);
    let with_bos = |bos: &str, add_bos| VocabularySpec {
        bos: Some(256),
        add_bos: Some(add_bos),
        ..vocabulary(bos).byte_level(&[])
    };
    for (draft_adds, target_adds) in [(true, true), (true, false), (false, true), (false, false)] {
        let target = Tokenizer::new(with_bos("<s>", target_adds)).unwrap();
        let draft = Tokenizer::new(with_bos("<bos>", draft_adds)).unwrap();
        let map = Arc::new(map(draft, &target));
        let expected = if draft_adds && target_adds {
            256
        } else {
            NO_COUNTERPART
        };
        assert_eq!(map.to_target()[256], expected);
        let mut followed = FollowedTokens::new(map);
        followed.follow(&[256, 65, 256, 66]);
        // The draft's own in front, the target's not repeated there.
        let expected: &[u32] = match (draft_adds, target_adds) {
            (true, true) => &[256, 65, 256, 66],
            (true, false) => &[256, 65, 66],
            (false, _) => &[65, 66],
        };
        assert_eq!(followed.tokens(), expected);
    }
}

#[test]
fn tokens_are_followed_as_they_are_committed() {
    let (target_vocabulary, target) = target();
    let (draft_vocabulary, draft) = draft();
    let map = Arc::new(map(draft, &target));
    let byte = |byte: u8| 6 + u32::from(byte);
    let of_draft = |token: &str| draft_vocabulary.id(token);
    let letters: Vec<String> = byte_alphabet().map(String::from).collect();
    // A token by its spelling, or a byte.
    let committed = |tokens: &[Result<&str, u8>]| -> Vec<u32> {
        let id = |token: &Result<&str, u8>| match token {
            Ok(token) => target_vocabulary.id(token),
            Err(byte) => target_vocabulary.id(&letters[usize::from(*byte)]),
        };
        tokens.iter().map(id).collect()
    };
    let (end, start) = (of_draft("<end_of_turn>"), of_draft("<start_of_turn>"));
    let (apostrophe, apostrophe_s) = (of_draft("’"), of_draft("’s"));
    let (a, b, the) = (of_draft("a"), of_draft("b"), of_draft("▁the"));
    let (x, y) = (byte(b'x'), byte(b'y'));
    for (tokens, expected, within) in [
        (&[][..], &[][..], false),
        (&[Ok("Ġthe")], &[the], false),
        // No such piece, or an unused one: several tokens.
        (&[Ok("xy")], &[x, y], false),
        (&[Ok("ab")], &[a, b], false),
        (&[Ok("he")], &[byte(b'h'), byte(b'e')], false),
        // A character in two tokens, the second of which goes on.
        (&[Ok("âĢ")], &[], true),
        (&[Ok("âĢ"), Err(0x99)], &[apostrophe], false),
        (&[Ok("âĢ"), Ok("Ļs")], &[apostrophe_s], false),
        (&[Ok("âĢ"), Ok("Ļs"), Ok("âĢ")], &[apostrophe_s], true),
        // One that is never whole.
        (
            &[Ok("âĢ"), Ok("Ġthe")],
            &[byte(0xE2), byte(0x80), the],
            false,
        ),
        (&[Ok("âĢ"), Ok("âĢ")], &[byte(0xE2), byte(0x80)], true),
        (
            &[Ok("âĢ"), Ok("xy")],
            &[byte(0xE2), byte(0x80), x, y],
            false,
        ),
        (
            &[Ok("âĢ"), Ok("<|im_end|>")],
            &[byte(0xE2), byte(0x80), end],
            false,
        ),
        // Bytes that are tokens of both do not wait.
        (&[Err(0xE2)], &[byte(0xE2)], false),
        (
            &[Err(0xE2), Ok("âĢ"), Err(0x80)],
            &[byte(0xE2), byte(0xE2), byte(0x80), byte(0x80)],
            false,
        ),
        (&[Ok("Ļs")], &[byte(0x99), byte(b's')], false),
        // Control tokens; one without counterpart is left out, and so is what is unused.
        (
            &[Ok("<|im_start|>"), Ok("<|only|>"), Ok("<|im_end|>")],
            &[start, end],
            false,
        ),
        (&[Ok("âĢ"), Ok("<|only|>"), Err(0x99)], &[apostrophe], false),
        (&[Ok("<a>b")], &[of_draft("<a>"), b], false),
    ] {
        let mut followed = FollowedTokens::new(Arc::clone(&map));
        let committed = committed(tokens);
        let appended = followed.follow(&committed).to_vec();
        assert_eq!(appended, expected, "{tokens:?}");
        assert_eq!(followed.tokens(), [&[1], expected].concat(), "{tokens:?}");
        assert_eq!(followed.ends_within_character(), within, "{tokens:?}");
    }
    let mut followed = FollowedTokens::new(map);
    followed.follow(&[u32::MAX, 1 << 20]);
    assert_eq!(followed.tokens(), [1]);
    assert_eq!(followed.committed(), [u32::MAX, 1 << 20]);
}

/// A draft whose encoder would put a space in front, or compose the text, still gets the text as it is.
#[test]
fn an_encoder_that_changes_a_text_is_not_taken_at_its_word() {
    let (target_vocabulary, target) = target();
    let draft = || Tokenizer::new(Reference::pieces(true).spec()).unwrap();
    let he = draft().encode("he", false).unwrap();
    assert_eq!(bytes_of(&draft(), &he), b" he");
    let mut followed = FollowedTokens::new(Arc::new(map(draft(), &target)));
    followed.follow(&[target_vocabulary.id("he")]);
    assert_eq!(bytes_of(&draft(), followed.tokens()), b"he");

    let composing = VocabularySpec {
        pre: Some("qwen2".into()),
        ..Vocabulary::bytes().byte_level(&[])
    };
    let draft = Tokenizer::new(composing).unwrap();
    let composed = draft.encode("e\u{301}", false).unwrap();
    assert_eq!(draft.decode(&composed), "\u{e9}");
    // The acute accent's bytes are written with these letters.
    let target = Vocabulary::bytes()
        .with(1, &["e\u{cc}\u{123}"])
        .byte_level(&[]);
    let target = Tokenizer::new(target).unwrap();
    assert_eq!(target.token_bytes(256), "e\u{301}".as_bytes());
    let mut followed = FollowedTokens::new(Arc::new(map(draft, &target)));
    assert_eq!(followed.follow(&[256]), [u32::from(b'e'), 0xCC, 0x81]);
}

/// Not simply the longest tokens: the draft has seen texts in its own cuts.
#[test]
fn a_token_without_counterpart_is_cut_as_the_draft_cuts() {
    let target = Vocabulary::bytes().with(1, &["abc", "Ġxyz"]);
    let target = Tokenizer::new(target.byte_level(&[])).unwrap();
    let draft = Vocabulary::bytes().with(1, &["ab", "bc"]);
    let draft = Tokenizer::new(draft.byte_level(&["b c", "a b"])).unwrap();
    let mut followed = FollowedTokens::new(Arc::new(map(draft, &target)));
    assert_eq!(followed.follow(&[256]), [u32::from(b'a'), 257]);

    // The same where the encoder's own space is the one the token begins with.
    let pieces = ["▁", "x", "y", "z", "▁xy", "▁x", "yz"];
    let spec = VocabularySpec {
        add_space_prefix: Some(true),
        ..Vocabulary::default().with(1, &pieces).pieces()
    };
    let draft = || Tokenizer::new(spec.clone()).unwrap();
    let expected = draft().encode("xyz", false).unwrap();
    assert_eq!(expected, [5, 6]);
    let mut followed = FollowedTokens::new(Arc::new(map(draft(), &target)));
    assert_eq!(followed.follow(&[257]), expected);
}

/// What is no text becomes the longest tokens, and a byte that the draft has no token for is left out alone.
#[test]
fn bytes_that_are_no_text_become_the_longest_tokens() {
    // 0xE2 0x80 begins a character, which `A` does not go on with.
    let target = Vocabulary::bytes().with(1, &["âĢA", "âĢ"]);
    let target = Tokenizer::new(target.byte_level(&[])).unwrap();
    let with_both = Vocabulary::bytes().with(1, &["âĢ"]);
    let mut without_first = Vocabulary::bytes();
    without_first.types[0xE2] = 5;
    for (draft, expected) in [
        (with_both, &[256, u32::from(b'A')][..]),
        (without_first, &[0x80, u32::from(b'A')]),
    ] {
        let draft = Tokenizer::new(draft.byte_level(&[])).unwrap();
        let mut followed = FollowedTokens::new(Arc::new(map(draft, &target)));
        assert_eq!(followed.follow(&[256]), expected);
    }
}

#[test]
fn a_token_of_many_bytes_is_followed_or_left_out() {
    let bytes = |count: usize| "x".repeat(count);
    let target = Vocabulary::bytes().with(1, &[&bytes(1024), &bytes(1025), &bytes(2000)]);
    let target = Tokenizer::new(target.byte_level(&[])).unwrap();
    let draft = Vocabulary::bytes().with(1, &[&bytes(2000), &bytes(300)]);
    let draft = Tokenizer::new(draft.byte_level(&[])).unwrap();
    let mut followed = FollowedTokens::new(Arc::new(map(draft, &target)));
    assert_eq!(followed.follow(&[256]).len(), 1024);
    assert!(followed.follow(&[257]).is_empty());
    assert_eq!(followed.follow(&[258]), [256]);
}

#[test]
fn the_same_vocabulary_is_known_as_such() {
    let plain = || Vocabulary::bytes().with(3, &["<e>", "<f>"]);
    let target = VocabularySpec {
        eos: Some(256),
        ..plain().byte_level(&[])
    };
    let like = |vocabulary: Vocabulary| VocabularySpec {
        eos: Some(256),
        ..vocabulary.byte_level(&[])
    };
    assert!(is_same(target.clone(), &target));
    // More ids, but nothing that a text could have.
    for (kind, same) in [(5, true), (3, true), (1, false), (4, false)] {
        let larger = like(plain().with(kind, &["more"]));
        assert_eq!(is_same(larger.clone(), &target), same, "type {kind}");
        assert_eq!(is_same(target.clone(), &larger), same, "type {kind}");
    }
    // What is unused may be spelled in any way.
    let unused = |spelling| like(plain().with(5, &[spelling]));
    assert!(is_same(unused("[PAD258]"), &unused("")));
    assert!(!is_same(unused("a"), &like(plain().with(1, &["a"]))));
    assert!(!is_same(unused("a"), &like(plain().with(3, &["a"]))));
    // Other bytes, another control token, one that is none, other ends, another beginning.
    let spelled = |spelling| like(plain().with(1, &[spelling]));
    assert!(is_same(spelled("ab"), &spelled("ab")));
    assert!(!is_same(spelled("ab"), &spelled("ac")));
    assert!(!is_same(
        like(Vocabulary::bytes().with(3, &["<e>", "<g>"])),
        &target
    ));
    assert!(!is_same(
        like(Vocabulary::bytes().with(3, &["<e>"]).with(4, &["<f>"])),
        &target
    ));
    let ends = VocabularySpec {
        eot: Some(257),
        ..target.clone()
    };
    assert!(!is_same(ends, &target));
    for (add_bos, same) in [(Some(true), false), (Some(false), true)] {
        let begins = VocabularySpec {
            bos: Some(257),
            add_bos,
            ..target.clone()
        };
        assert_eq!(is_same(begins.clone(), &target), same);
        assert!(is_same(begins.clone(), &begins));
    }
}

#[test]
fn vocabularies_with_little_in_common_are_not_drafted_with() {
    let letters = || 'a'..='z';
    let couples = letters().flat_map(|first| letters().map(move |second| [first, second]));
    let couples: Vec<String> = couples.map(String::from_iter).collect();
    let couples: Vec<&str> = couples.iter().map(String::as_str).collect();
    let draft = Vocabulary::bytes().with(4, &couples).byte_level(&[]);
    let bytes = Tokenizer::new(Vocabulary::bytes().byte_level(&[])).unwrap();
    let map = map(Tokenizer::new(draft).unwrap(), &bytes);
    let share = map.share();
    assert_eq!(
        (share.pairs, share.draft_tokens, share.target_tokens),
        (256, 932, 256)
    );
    assert!((0.2..0.5).contains(&share.of_text), "{share:?}");
    let reason = share.too_small().unwrap();
    let percent = format!(" {:.1} % ", share.of_text * 100.0);
    assert!(reason.contains(&percent), "{reason}");
    assert!(reason.contains(" 50 %"), "{reason}");

    let of_text = |of_text| MappedShare {
        of_text,
        ..share.clone()
    };
    assert_eq!(of_text(MIN_MAPPED_SHARE).too_small(), None);
    assert!(of_text(MIN_MAPPED_SHARE - 0.001).too_small().is_some());
}

/// Same words, other ids, and a space that one of them puts in front: all of the sample but its first word is the same.
#[test]
fn the_share_is_of_what_both_write_at_the_same_place() {
    let spaced = Reference::pieces(true).spec();
    let mut shifted = VocabularySpec {
        add_space_prefix: Some(false),
        ..spaced.clone()
    };
    shifted.tokens.insert(0, "<first>".into());
    shifted.token_types.insert(0, 3);
    shifted.scores.insert(0, 0.0);
    for (draft, target) in [(&spaced, &shifted), (&shifted, &spaced)] {
        let [draft, target] = [draft, target].map(|spec| Tokenizer::new(spec.clone()).unwrap());
        let of_text = map(draft, &target).share().of_text;
        assert!((0.99..1.0).contains(&of_text), "{of_text}");
    }
}

/// Every small vocabulary, with a few hard strings.
fn all_small() -> Vec<(&'static str, Arc<Tokenizer>)> {
    let byte_level = [
        "gpt-2",
        "qwen2",
        "llama-bpe",
        "tekken",
        "falcon",
        "deepseek-llm",
    ];
    let byte_level = byte_level.map(|pre| (pre, Reference::small(pre).spec()));
    let pieces = [("spm", false), ("spm-prefix", true)]
        .map(|(name, prefix)| (name, Reference::pieces(prefix).spec()));
    let of_specs = byte_level.into_iter().chain(pieces);
    let of_specs = of_specs.map(|(name, spec)| (name, Tokenizer::new(spec).unwrap()));
    let of_files = FILES
        .iter()
        .map(|name| (*name, Files::small(name).read().unwrap()));
    of_specs
        .chain(of_files)
        .map(|(name, tokenizer)| (name, Arc::new(tokenizer)))
        .collect()
}

/// The bytes that text tokens stand for.
fn bytes_of(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    let is_text = |id: &&u32| !tokenizer.decode(&[**id, **id]).is_empty();
    let bytes = ids.iter().filter(is_text);
    let bytes = bytes.map(|id| tokenizer.token_bytes(*id));
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn the_text_of_what_is_followed_is_the_text_that_was_committed() {
    let strings: Vec<String> = Reference::small("gpt-2")
        .cases
        .iter()
        .filter_map(|case| case.text())
        .filter(|text| text.len() < 5000)
        .collect();
    assert!(strings.len() >= 140, "{}", strings.len());
    let all = all_small();
    let mut checked = 0;
    for (draft_name, draft) in &all {
        let has_byte = |byte: u8| (0..draft.vocabulary()).any(|id| draft.token_bytes(id) == [byte]);
        if !(0..=255).all(has_byte) {
            continue;
        }
        for (target_name, target) in &all {
            let VocabularyMatch::Mapped(map) = VocabularyMatch::between(Arc::clone(draft), target)
            else {
                continue;
            };
            let map = Arc::new(map);
            for text in &strings {
                let committed = target.encode(text, false).unwrap();
                let mut followed = FollowedTokens::new(Arc::clone(&map));
                followed.follow(&committed);
                let expected = bytes_of(target, &committed);
                let mut found = bytes_of(draft, followed.tokens());
                // A vocabulary without tokens for bytes ends where its unknown token stands for half a character.
                assert!(!followed.ends_within_character(), "{text:?}");
                assert!(
                    found == expected,
                    "{draft_name} after {target_name}: {text:?} became {:?}",
                    String::from_utf8_lossy(&found)
                );
                found.clear();
                checked += 1;
            }
        }
    }
    assert!(checked >= 10_000, "{checked}");
}

/// Whatever is committed and taken back: what is there is what following the committed tokens from the beginning gives, and
/// what stands there already stays.
#[test]
fn what_is_followed_depends_on_what_is_committed_alone() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let all = all_small();
    for (draft_name, draft) in &all {
        for (target_name, target) in &all {
            let VocabularyMatch::Mapped(map) = VocabularyMatch::between(Arc::clone(draft), target)
            else {
                continue;
            };
            let map = Arc::new(map);
            let fresh = |committed: &[u32]| {
                let mut followed = FollowedTokens::new(Arc::clone(&map));
                followed.follow(committed);
                followed
            };
            let mut followed = FollowedTokens::new(Arc::clone(&map));
            for _ in 0..60 {
                let mut committed = followed.committed().to_vec();
                match random(4) {
                    0 => {
                        let length = random(committed.len() + 2);
                        followed.truncate(length);
                        committed.truncate(length);
                    }
                    1 => {
                        let from = random(committed.len() + 1);
                        let kept = followed.tokens_at(from);
                        let before = followed.tokens().to_vec();
                        committed.truncate(from);
                        committed.push(random(target.vocabulary() as usize) as u32);
                        let stayed = followed.follow_whole(&committed);
                        assert!(stayed >= kept);
                        assert_eq!(followed.tokens()[..stayed], before[..stayed]);
                    }
                    _ => {
                        // Bytes often, so that characters come together and break.
                        let ids: Vec<u32> = (0..random(6))
                            .map(|_| match random(3) {
                                0 => random(target.vocabulary() as usize + 3) as u32,
                                _ => random(256) as u32,
                            })
                            .collect();
                        let before = followed.tokens().to_vec();
                        let appended = followed.follow(&ids).to_vec();
                        assert_eq!(followed.tokens(), [before, appended].concat());
                        committed.extend(ids);
                    }
                }
                let expected = fresh(&committed);
                assert_eq!(followed.committed(), committed);
                assert_eq!(
                    followed.tokens(),
                    expected.tokens(),
                    "{draft_name} after {target_name}: {committed:?}"
                );
                assert_eq!(
                    followed.ends_within_character(),
                    expected.ends_within_character()
                );
                let length = random(committed.len() + 1);
                assert_eq!(
                    followed.tokens()[..followed.tokens_at(length)],
                    *fresh(&committed[..length]).tokens()
                );
            }
        }
    }
}
