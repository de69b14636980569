//! Tokens of one vocabulary in terms of another's.
//!
//! A draft model with another tokenizer than the target's proposes tokens that the target does not know by their ids. What the two share
//! are bytes: a token of the draft means the target's token that stands for the same bytes, if there is one. Bytes are compared, not
//! spellings, so `Ġthe` of one vocabulary is `▁the` of another, and `<0x0A>` is `Ċ`.
//!
//! | token | means |
//! | --- | --- |
//! | of text | the token of text with the same bytes. Where several tokens of a vocabulary have the same bytes, only the one that its encoder makes takes part: user-defined before ordinary, ordinary before a byte's own, then the lowest id |
//! | control | the control token with the same spelling; else of the same role, where both have such a token left: an end of a turn an end of a turn, any end any end in the order in which the vocabularies name them (EOS first), a beginning of a turn the same, BOS BOS if both begin prompts with it |
//! | unused, or without bytes | nothing |
//!
//! So no two tokens mean the same one, in either direction.

use std::sync::Arc;

use foretoken_core::{NO_COUNTERPART, TokenId};

use crate::Tokenizer;
use crate::bytes::TokenBytes;
use crate::mapped_share::MappedShare;
use crate::spelled_tokens::{SpelledTokens, TokenClass};

/// Spellings with which a turn of a chat ends, rather than a text.
const TURN_ENDS: [&str; 7] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<|eot|>",
    "<|endofturn|>",
    "<end_of_turn>",
    "<EOT>",
];

/// Spellings with which a turn begins, where its role is plain text behind it.
const TURN_STARTS: [&str; 2] = ["<|im_start|>", "<start_of_turn>"];

/// How a draft's vocabulary relates to its target's.
pub enum VocabularyMatch {
    /// An id means the same in both.
    Same,
    /// Ids differ.
    Mapped(VocabularyMap),
}

impl VocabularyMatch {
    /// Compares a draft's vocabulary with its target's.
    ///
    /// They are the same if every id below both sizes is the same control token, has the same bytes, or is unused in both; if
    /// ids beyond the smaller size stand for no text; if the same ids end an answer; and if prompts begin with the same BOS or without.
    /// The larger vocabulary may so have control tokens that the smaller has not (Gemma 3's for images): with `Same`, a sequence may hold
    /// ids that are beyond the draft's.
    pub fn between(draft: Arc<Tokenizer>, target: &Tokenizer) -> Self {
        if same(&draft, target) {
            Self::Same
        } else {
            Self::Mapped(VocabularyMap::new(draft, target))
        }
    }
}

fn same(draft: &Tokenizer, target: &Tokenizer) -> bool {
    let sorted_ends = |tokenizer: &Tokenizer| {
        let mut ends = tokenizer.end_of_generation().to_vec();
        ends.sort_unstable();
        ends
    };
    let (draft_classes, target_classes) = (draft.classes(), target.classes());
    let common = draft_classes.len().min(target_classes.len());
    let mut beyond = [draft_classes, target_classes]
        .into_iter()
        .flat_map(|classes| classes.get(common..).unwrap_or_default());
    // Control tokens have no bytes here; their spellings are compared below.
    let same_token = |((draft_class, target_class), id): ((&TokenClass, &TokenClass), u32)| {
        let is = |class| (*draft_class == class, *target_class == class);
        match (is(TokenClass::Unused), is(TokenClass::Control)) {
            ((true, true), _) | (_, (true, true)) => true,
            ((false, false), (false, false)) => {
                draft.all_bytes().get(id) == target.all_bytes().get(id)
            }
            _ => false,
        }
    };
    let control = |tokenizer: &'_ Tokenizer| -> Vec<(String, u32)> {
        let tokens = tokenizer.control().iter();
        tokens
            .filter(|(_, id)| usize::try_from(*id).is_ok_and(|id| id < common))
            .map(|(spelling, id)| (spelling.to_owned(), id))
            .collect()
    };
    !beyond.any(|class| class.is_text())
        && draft_classes
            .iter()
            .zip(target_classes)
            .zip(0..)
            .all(same_token)
        && control(draft) == control(target)
        && sorted_ends(draft) == sorted_ends(target)
        && added_bos(draft) == added_bos(target)
}

/// What prompts begin with.
fn added_bos(tokenizer: &Tokenizer) -> Option<TokenId> {
    tokenizer.bos().filter(|_| tokenizer.adds_bos())
}

/// What each token of a draft means to its target, and the other way round.
pub struct VocabularyMap {
    draft: Arc<Tokenizer>,
    draft_tokens: SpelledTokens,
    target_bytes: Arc<TokenBytes>,
    to_target: Vec<TokenId>,
    to_draft: Vec<TokenId>,
    share: MappedShare,
}

impl VocabularyMap {
    fn new(draft: Arc<Tokenizer>, target: &Tokenizer) -> Self {
        let draft_tokens = SpelledTokens::new(&draft);
        let target_tokens = SpelledTokens::new(target);
        let mut links = Links {
            to_target: vec![NO_COUNTERPART; draft.classes().len()],
            to_draft: vec![NO_COUNTERPART; target.classes().len()],
        };
        let mut pairs = 0_u32;
        for (draft_id, target_id) in draft_tokens.pairs(&target_tokens) {
            links.link(draft_id, target_id);
            pairs += 1;
        }
        link_control(&draft, target, &mut links);
        let share = MappedShare {
            pairs,
            draft_tokens: u32::try_from(draft_tokens.len()).unwrap_or(u32::MAX),
            target_tokens: u32::try_from(target_tokens.len()).unwrap_or(u32::MAX),
            of_text: MappedShare::in_sample(&draft, target, &links.to_target),
        };
        Self {
            draft_tokens,
            target_bytes: Arc::clone(target.all_bytes()),
            to_target: links.to_target,
            to_draft: links.to_draft,
            share,
            draft,
        }
    }

    /// For each id of the draft's vocabulary the target's, or [`NO_COUNTERPART`]. Rows of the draft's head beyond have no token.
    pub fn to_target(&self) -> &[TokenId] {
        &self.to_target
    }

    /// For each id of the target's vocabulary the draft's, or [`NO_COUNTERPART`].
    pub fn to_draft(&self) -> &[TokenId] {
        &self.to_draft
    }

    /// How much of the two vocabularies is mapped.
    pub fn share(&self) -> &MappedShare {
        &self.share
    }

    /// What the draft's own prompts begin with, if with anything.
    pub(crate) fn draft_bos(&self) -> Option<TokenId> {
        added_bos(&self.draft)
    }

    /// The draft's token for one of the target's.
    pub fn draft_token(&self, target: TokenId) -> Option<TokenId> {
        let id = *self.to_draft.get(usize::try_from(target).ok()?)?;
        (id != NO_COUNTERPART).then_some(id)
    }

    /// The bytes of the target's token; none for control tokens and ids beyond the vocabulary.
    pub(crate) fn target_bytes(&self, target: TokenId) -> &[u8] {
        self.target_bytes.get(target).unwrap_or_default()
    }

    /// Appends the draft's tokens for a text in the midst of another: those its tokenizer makes, if together they have exactly the bytes
    /// of the text; else the longest that fit, from the left.
    pub(crate) fn spell_text(&self, text: &str, ids: &mut Vec<TokenId>) {
        // The space that the encoder puts in front must be one that is there.
        let encoded = if self.draft.adds_space() {
            text.strip_prefix(' ')
        } else {
            Some(text)
        };
        if let Some(encoded) = encoded
            && let Ok(tokens) = self.draft.encode(encoded, false)
        {
            let bytes = tokens
                .iter()
                .flat_map(|id| self.draft.all_bytes().get(*id).unwrap_or_default());
            if bytes.eq(text.as_bytes()) {
                ids.extend(tokens);
                return;
            }
        }
        self.spell_bytes(text.as_bytes(), ids);
    }

    /// Appends the longest tokens of the draft that fit, from the left; a byte it has no token for is left out.
    pub(crate) fn spell_bytes(&self, bytes: &[u8], ids: &mut Vec<TokenId>) {
        self.draft_tokens.spell(bytes, ids);
    }
}

/// Both directions while they are made.
struct Links {
    to_target: Vec<TokenId>,
    to_draft: Vec<TokenId>,
}

impl Links {
    /// Links two tokens that are both there and have no partner yet.
    fn link(&mut self, draft: TokenId, target: TokenId) {
        let (Ok(draft_at), Ok(target_at)) = (usize::try_from(draft), usize::try_from(target))
        else {
            return;
        };
        if let (Some(to_target), Some(to_draft)) = (
            self.to_target.get_mut(draft_at),
            self.to_draft.get_mut(target_at),
        ) && *to_target == NO_COUNTERPART
            && *to_draft == NO_COUNTERPART
        {
            *to_target = target;
            *to_draft = draft;
        }
    }

    /// Links the tokens without a partner, the first with the first and so on.
    fn link_in_order(&mut self, draft: &[TokenId], target: &[TokenId]) {
        let free = |map: &[TokenId], ids: &[TokenId]| -> Vec<TokenId> {
            let is_free = |id: &TokenId| {
                usize::try_from(*id).is_ok_and(|at| map.get(at) == Some(&NO_COUNTERPART))
            };
            ids.iter().copied().filter(is_free).collect()
        };
        let draft = free(&self.to_target, draft);
        let target = free(&self.to_draft, target);
        for (draft, target) in draft.into_iter().zip(target) {
            self.link(draft, target);
        }
    }
}

fn link_control(draft: &Tokenizer, target: &Tokenizer, links: &mut Links) {
    for (spelling, id) in draft.control().iter() {
        if let Some(same) = target.control().id(spelling) {
            links.link(id, same);
        }
    }
    let spelled = |tokenizer: &Tokenizer, spellings: &[&str]| -> Vec<TokenId> {
        let ids = spellings.iter();
        ids.filter_map(|spelling| tokenizer.control().id(spelling))
            .collect()
    };
    let is_control = |tokenizer: &Tokenizer, id: TokenId| {
        let class = usize::try_from(id)
            .ok()
            .and_then(|at| tokenizer.classes().get(at));
        class == Some(&TokenClass::Control)
    };
    let ends = |tokenizer: &Tokenizer, turn: bool| -> Vec<TokenId> {
        let turn_ends = spelled(tokenizer, &TURN_ENDS);
        let ends = tokenizer.end_of_generation().iter().copied();
        ends.filter(|id| is_control(tokenizer, *id) && (!turn || turn_ends.contains(id)))
            .collect()
    };
    for turn in [true, false] {
        links.link_in_order(&ends(draft, turn), &ends(target, turn));
    }
    links.link_in_order(
        &spelled(draft, &TURN_STARTS),
        &spelled(target, &TURN_STARTS),
    );
    if let (Some(draft_bos), Some(target_bos)) = (added_bos(draft), added_bos(target))
        && is_control(draft, draft_bos)
        && is_control(target, target_bos)
    {
        links.link(draft_bos, target_bos);
    }
}
