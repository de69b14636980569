//! The n-gram drafter against vLLM's, on its own and through the loop.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use foretoken_core::TokenId;
use foretoken_decode::drafters::{Drafter, MatchOrder, NgramDrafter};
use foretoken_decode::script::Script;
use foretoken_decode::{AbortSignal, DecodeLoop, DecodeOptions, FinishReason};
use pollster::block_on;
use serde::Deserialize;

/// What vLLM drafted for tokens in a context of some length.
#[derive(Deserialize)]
struct Case {
    tokens: Vec<TokenId>,
    min: usize,
    max: usize,
    context: usize,
    k: usize,
    draft: Vec<TokenId>,
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("golden/ngram.json")).unwrap();
    assert_eq!(cases.len(), 200);
    assert!(cases.iter().filter(|case| case.draft.is_empty()).count() < 150);
    cases
}

/// The loop asks for no more drafts than the context has positions left.
#[test]
fn all_drafts_equal_however_the_tokens_came() {
    for (i, case) in cases().iter().enumerate() {
        let room = case.context - case.tokens.len();
        for prompt in 0..=case.tokens.len() {
            let mut drafter = NgramDrafter::new(case.min, case.max, MatchOrder::Earliest);
            drafter.start(&case.tokens[..prompt]);
            drafter.committed(&case.tokens[prompt..]);
            assert_eq!(drafter.propose(case.k.min(room)), case.draft, "case {i}");
        }
    }
}

/// Notes what another drafter proposes.
#[derive(Debug)]
struct Noting(NgramDrafter, Rc<RefCell<Vec<Vec<TokenId>>>>);

impl Drafter for Noting {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn start(&mut self, prompt: &[TokenId]) {
        self.0.start(prompt);
    }

    fn committed(&mut self, tokens: &[TokenId]) {
        self.0.committed(tokens);
    }

    fn propose(&mut self, k: usize) -> Vec<TokenId> {
        let drafts = self.0.propose(k);
        self.1.borrow_mut().push(drafts.clone());
        drafts
    }
}

#[test]
fn the_loop_makes_the_same_drafts() {
    let mut drafted = 0;
    for (i, case) in cases().iter().enumerate() {
        // The model's first token is the case's last; the step after it drafts.
        let Some((last, prompt)) = case.tokens.split_last().filter(|(_, p)| !p.is_empty()) else {
            continue;
        };
        let (last, context) = (*last, case.context as u32);
        let vocab = 1 + case.tokens.iter().max().unwrap();
        let script = Script::new(vocab, context, move |_| {
            (0..vocab)
                .map(|token| f32::from(u8::from(token == last)))
                .collect()
        });
        let notes = Rc::new(RefCell::new(Vec::new()));
        let drafter = NgramDrafter::new(case.min, case.max, MatchOrder::Earliest);
        let options = DecodeOptions {
            drafter: Some(Box::new(Noting(drafter, notes.clone()))),
            num_speculative_tokens: case.k,
            ..DecodeOptions::plain(common::endless(context))
        };
        let (mut ops, model) = script.rig();
        let sequence = common::sequence(0, prompt);
        let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
        let block = block_on(decode.step(&mut ops, &model)).unwrap();
        if case.tokens.len() == case.context {
            assert_eq!(block.finish, Some(FinishReason::Length));
            assert!(case.draft.is_empty(), "case {i}");
            continue;
        }
        block_on(decode.step(&mut ops, &model)).unwrap();
        assert_eq!(notes.borrow()[0], case.draft, "case {i}");
        assert_eq!(
            decode.take_counters().num_draft_tokens,
            case.draft.len() as u64
        );
        drafted += usize::from(!case.draft.is_empty());
    }
    assert!(drafted > 50, "{drafted}");
}
