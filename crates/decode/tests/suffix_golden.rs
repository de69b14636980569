//! The suffix drafter against Arctic Inference, which vLLM uses for its method of this name.

use std::cell::RefCell;
use std::rc::Rc;

use foretoken_core::TokenId;
use foretoken_decode::drafters::{Drafter, EarlierAnswers, SuffixDrafter, SuffixOptions};
use serde::Deserialize;

/// What is drafted along one text after some answers.
#[derive(Deserialize)]
struct Scenario {
    max_tree_depth: u32,
    max_cached_requests: u32,
    max_spec_factor: f32,
    min_token_prob: f32,
    answers: Vec<Vec<TokenId>>,
    tokens: Vec<TokenId>,
    /// After so many of the tokens, up to so many drafts: these.
    drafts: Vec<(usize, usize, Vec<TokenId>)>,
}

#[test]
fn all_drafts_equal() {
    let scenarios: Vec<Scenario> =
        serde_json::from_str(include_str!("golden/suffix.json")).unwrap();
    let (mut drafted, mut from_earlier) = (0, 0);
    for (i, scenario) in scenarios.iter().enumerate() {
        let options = SuffixOptions {
            max_tree_depth: scenario.max_tree_depth,
            max_cached_requests: scenario.max_cached_requests,
            max_spec_factor: scenario.max_spec_factor,
            min_token_prob: scenario.min_token_prob,
        };
        let mut earlier = EarlierAnswers::new(
            options.max_tree_depth as usize,
            options.max_cached_requests as usize,
        );
        for answer in &scenario.answers {
            earlier.enter(answer);
        }
        let earlier = Rc::new(RefCell::new(earlier));
        let mut drafter = SuffixDrafter::new(options, Some(earlier));
        let mut alone = SuffixDrafter::new(options, None);
        let mut committed = 0;
        for (length, k, expected) in &scenario.drafts {
            let tokens = &scenario.tokens[committed..*length];
            drafter.committed(tokens);
            alone.committed(tokens);
            committed = *length;
            let draft = drafter.propose(*k);
            assert_eq!(draft, *expected, "scenario {i} after {length} tokens");
            drafted += usize::from(!draft.is_empty());
            from_earlier += usize::from(draft != alone.propose(*k));
        }
    }
    assert!(
        drafted > 300 && from_earlier > 100,
        "{drafted} drafts, {from_earlier} from earlier answers"
    );
}
