//! Against a scan of the definition, and what it costs.

use std::collections::BTreeMap;

use super::*;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }

    fn tokens(&mut self, len: usize, vocab: usize) -> Vec<TokenId> {
        (0..len).map(|_| self.below(vocab) as TokenId).collect()
    }

    /// Tokens that mostly repeat others, as text does.
    fn text(&mut self, len: usize, vocab: usize) -> Vec<TokenId> {
        let mut text = self.tokens(1 + len / 8, vocab);
        while text.len() < len {
            let from = self.below(text.len());
            let to = (from + 1 + self.below(12)).min(text.len());
            text.extend_from_within(from..to);
            text.push(self.below(vocab) as TokenId);
        }
        text.truncate(len);
        text
    }
}

/// Occurrences of `run` in the texts.
fn count(texts: &[Vec<TokenId>], run: &[TokenId]) -> usize {
    let of = |text: &Vec<TokenId>| text.windows(run.len()).filter(|w| *w == run).count();
    texts.iter().map(of).sum()
}

/// The most frequent token after `run`, of several the one that followed last, and how often it did.
fn next(texts: &[Vec<TokenId>], run: &[TokenId]) -> Option<(TokenId, usize)> {
    let mut followers = BTreeMap::new();
    let windows = texts.iter().flat_map(|text| text.windows(run.len() + 1));
    for (time, window) in windows.enumerate() {
        if window[..run.len()] == *run {
            let entry = followers.entry(window[run.len()]).or_insert((0, 0));
            *entry = (entry.0 + 1, time);
        }
    }
    let best = followers.into_iter().max_by_key(|(_, key)| *key)?;
    Some((best.0, best.1.0))
}

/// The best candidate of one set of texts, without an index.
fn scan(
    texts: &[Vec<TokenId>],
    context: &[TokenId],
    k: usize,
    options: &SuffixOptions,
) -> (Vec<TokenId>, f32) {
    let depth = options.max_tree_depth as usize;
    let context = &context[context.len().saturating_sub(depth)..];
    let mut best = (Vec::new(), 0.0);
    for matched in 1..context.len() {
        let mut run = context[context.len() - matched..].to_vec();
        if count(texts, &run) == 0 {
            break;
        }
        let most = (matched as f64 * f64::from(options.max_spec_factor) + 1e-6) as usize;
        let (mut drafts, mut score, mut probability) = (Vec::new(), 0.0f32, 1.0f32);
        while drafts.len() < most.min(k) && run.len() < depth {
            let Some((token, follows)) = next(texts, &run) else {
                break;
            };
            probability *= follows as f32 / count(texts, &run) as f32;
            if probability < options.min_token_prob {
                break;
            }
            run.push(token);
            drafts.push(token);
            score += probability;
        }
        if score >= best.1 {
            best = (drafts, score);
        }
    }
    best
}

fn scan_both(
    own: &[TokenId],
    earlier: &[Vec<TokenId>],
    k: usize,
    options: &SuffixOptions,
) -> Vec<TokenId> {
    let mine = scan(&[own.to_vec()], own, k, options);
    let theirs = scan(earlier, own, k, options);
    if theirs.1 > mine.1 { theirs.0 } else { mine.0 }
}

fn draft(own: &[TokenId], earlier: &[&[TokenId]], options: SuffixOptions) -> Vec<TokenId> {
    let mut store = EarlierAnswers::new(options.max_tree_depth as usize, 100);
    for answer in earlier {
        store.enter(answer);
    }
    let mut drafter = SuffixDrafter::new(options, Some(Rc::new(RefCell::new(store))));
    drafter.start(own);
    drafter.propose(15)
}

#[test]
fn the_most_frequent_continuation_of_the_best_match() {
    let options = SuffixOptions::default();
    // [1, 2] was followed by 3 twice and by 9 once; by itself it stands at the end.
    let own = [1, 2, 3, 4, 1, 2, 9, 1, 2, 3, 5, 1, 2];
    assert_eq!(draft(&own, &[], options), [3, 5]);
    // 2/4, and then 1/4: of the two that followed 3 once, the one that did last. A floor above it ends the draft.
    let floor = |min_token_prob| SuffixOptions {
        min_token_prob,
        ..options
    };
    assert_eq!(draft(&own, &[], floor(0.25)), [3, 5]);
    assert_eq!(draft(&own, &[], floor(0.26)), [3]);
    assert_eq!(draft(&own, &[], floor(0.6)), []);
    // An earlier answer is sure of what follows.
    assert_eq!(draft(&own, &[&[8, 1, 2, 6, 7]], options), [6, 7]);
    // A match of two tokens drafts two, times the factor.
    let factor = |max_spec_factor| SuffixOptions {
        max_spec_factor,
        ..options
    };
    assert_eq!(
        draft(&own, &[&[8, 1, 2, 6, 7, 8, 9]], factor(1.5)),
        [6, 7, 8]
    );
    assert_eq!(draft(&own, &[&[8, 1, 2, 6, 7, 8, 9]], factor(0.5)), [6]);
    assert_eq!(draft(&own, &[&[8, 1, 2, 6, 7, 8, 9]], factor(0.4)), []);
    // Match and drafts have `max_tree_depth` tokens together.
    let depth = |max_tree_depth| SuffixOptions {
        max_tree_depth,
        max_spec_factor: 9.0,
        ..options
    };
    assert_eq!(
        draft(&[1, 2], &[&[8, 1, 2, 6, 7, 8, 9]], depth(4)),
        [6, 7, 8]
    );
    assert_eq!(draft(&[1, 2], &[&[8, 1, 2, 6, 7, 8, 9]], depth(3)), [6, 7]);
    assert_eq!(draft(&[1, 2], &[&[8, 1, 2, 6, 7, 8, 9]], depth(1)), []);
    for short in [&[][..], &[1]] {
        assert_eq!(draft(short, &[&[1, 2, 3]], options), []);
    }
}

#[test]
fn equals_a_scan_of_the_definition_while_answers_come_and_go() {
    let mut random = Random(1);
    let (mut drafted, mut from_earlier) = (0, 0);
    for case in 0..300 {
        let vocab = 2 + random.below(5);
        let options = SuffixOptions {
            max_tree_depth: 1 + random.below(12) as u32,
            max_cached_requests: random.below(6) as u32,
            max_spec_factor: [0.0, 0.5, 1.0, 2.0, 40.0][random.below(5)],
            min_token_prob: [0.0, 0.1, 0.3, 0.5, 1.0][random.below(5)],
        };
        let (depth, max_answers) = (options.max_tree_depth, options.max_cached_requests);
        let max_tokens = 20 + random.below(100);
        // Earlier answers may be counted deeper than one answer looks.
        let depth = depth as usize + random.below(3);
        let store = EarlierAnswers::with_max_tokens(depth, max_answers as usize, max_tokens);
        let store = Rc::new(RefCell::new(store));
        let mut kept: Vec<Vec<TokenId>> = Vec::new();
        let mut drafter = SuffixDrafter::new(options, Some(Rc::clone(&store)));
        for _ in 0..6 {
            let len = random.below(30);
            let mut own = random.text(len, vocab);
            let prompt = own.len();
            drafter.start(&own);
            for _ in 0..12 {
                let k = 1 + random.below(15);
                let draft = drafter.propose(k);
                assert_eq!(
                    draft,
                    scan_both(&own, &kept, k, &options),
                    "case {case}: {own:?} {kept:?}"
                );
                drafted += usize::from(!draft.is_empty());
                from_earlier += usize::from(draft != scan(&[own.clone()], &own, k, &options).0);
                // Drafts that were right, and others.
                let mut block = draft[..random.below(draft.len() + 1)].to_vec();
                block.push(random.below(vocab) as TokenId);
                drafter.committed(&block);
                own.extend(block);
            }
            let answer = &own[prompt..];
            store.borrow_mut().enter(answer);
            if max_answers > 0 {
                kept.push(answer[answer.len().saturating_sub(max_tokens)..].to_vec());
            }
            while kept.len() > max_answers as usize
                || kept.iter().map(Vec::len).sum::<usize>() > max_tokens
            {
                kept.remove(0);
            }
            assert!(
                store
                    .borrow()
                    .answers()
                    .eq(kept.iter().map(|kept| &kept[..]))
            );
        }
    }
    assert!(
        drafted > 5000 && from_earlier > 500,
        "{drafted} drafts, {from_earlier} from earlier answers"
    );
}

#[test]
fn a_step_costs_no_more_after_a_long_prompt_than_after_a_short_one() {
    let work = |len: usize, repeats: bool| {
        let prompt = if repeats {
            vec![7; len]
        } else {
            Random(3).text(len, 1000)
        };
        let mut drafter = SuffixDrafter::new(SuffixOptions::default(), None);
        drafter.start(&prompt);
        let committing = drafter.own.work.take();
        let mut drafted = 0;
        for token in &prompt[..500] {
            drafted += drafter.propose(15).len();
            drafter.committed(&[*token]);
        }
        assert!(drafted > 250, "{drafted}");
        (committing / len, drafter.own.work.take() / 500)
    };
    // A token: at most depth links from the end, thrice, and the automaton's own few. A draft: depth candidates of
    // depth tokens at most.
    for repeats in [false, true] {
        let (short, long) = (work(1000, repeats), work(100_000, repeats));
        assert!(long.0 <= 24 * 8 && long.1 <= 24 * 24, "{long:?}");
        assert!(
            long.0 <= 2 * short.0 && long.1 <= 2 * short.1,
            "{short:?} {long:?}"
        );
    }
}

#[test]
fn memory_is_linear_in_tokens_whatever_they_are() {
    let mut random = Random(5);
    let texts = [
        vec![7; 20_000],
        random.tokens(20_000, 2),
        random.tokens(20_000, 50_000),
        random.text(20_000, 3000),
        // Many splits: a b^n, again and again.
        (0..20_000).map(|i| u32::from(i % 141 == 0)).collect(),
    ];
    for (i, text) in texts.iter().enumerate() {
        let mut drafter = SuffixDrafter::new(SuffixOptions::default(), None);
        drafter.start(text);
        let (states, edges) = drafter.own.states_and_edges();
        assert!(
            states <= 2 * text.len() && edges <= 3 * text.len(),
            "text {i}: {states} states, {edges} edges"
        );
        // Vectors that have just grown hold twice what they need.
        let bytes = drafter.own.bytes() / text.len();
        assert!(bytes < 300, "text {i}: {bytes} bytes a token");
    }
}

/// Answers and their tokens.
fn size(store: &EarlierAnswers) -> (usize, usize) {
    let tokens = store.answers().map(<[TokenId]>::len).sum();
    (store.answers().count(), tokens)
}

#[test]
fn earlier_answers_are_bounded_in_number_and_in_tokens() {
    let mut random = Random(9);
    let mut store = EarlierAnswers::with_max_tokens(24, 50, 5000);
    let mut most_forgotten = 0;
    for i in 0..2000 {
        let len = [random.below(30), random.below(400)][i % 2];
        store.enter(&random.text(len, 500));
        let (answers, tokens) = size(&store);
        assert!(answers <= 50 && tokens <= 5000, "{answers}, {tokens}");
        let (states, _) = store.automaton.states_and_edges();
        assert!(states <= 2 * (5000 + 5000 / 2), "{states} states");
        most_forgotten = most_forgotten.max(store.forgotten);
    }
    assert!(most_forgotten > 1000, "{most_forgotten}");
    // One that fills it alone, and one that is longer.
    store.enter(&random.text(5000, 500));
    assert_eq!(size(&store), (1, 5000));
    store.enter(&random.text(7000, 500));
    assert_eq!(size(&store), (1, 5000));
    store.enter(&[]);
    assert_eq!(size(&store), (1, 5000));
    let mut none = EarlierAnswers::new(24, 0);
    none.enter(&[1, 2, 3]);
    assert_eq!(size(&none), (0, 0));
}

#[test]
fn a_new_answer_forgets_the_old_prompt() {
    let mut drafter = SuffixDrafter::new(SuffixOptions::default(), None);
    drafter.start(&[1, 2, 1]);
    assert_eq!(drafter.propose(1), [2]);
    drafter.start(&[3, 1]);
    assert_eq!(drafter.propose(1), []);
}
