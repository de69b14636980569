//! What the suites of the loop share: cases by chance, and decoding written without the loop.

// Every suite compiles this file for itself and uses a part of it.
#![allow(dead_code)]

use foretoken_core::sampling::{TokenLogprobs, token_logprobs};
use foretoken_core::{Chooser, Chosen, Sampling, TokenId};
use foretoken_decode::script::{Script, ScriptModel, ScriptOps};
use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, AggregateCounters, DecodeError, DecodeLoop, DecodeOptions,
    Drafter, FinishReason, Sequence, StatisticsLevel, StopConditions, TokenProvenance,
};
use pollster::block_on;

/// Reproducible numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A script whose logits depend on the last `memory` tokens only, so that its answers repeat themselves.
pub fn forgetful(seed: u64, vocab: u32, context: u32, memory: usize) -> Script {
    let whole = Script::seeded(seed, vocab, context);
    Script::new(vocab, context, move |prefix| {
        whole.logits(&prefix[prefix.len().saturating_sub(memory)..])
    })
}

/// A script whose next token is the last one plus one.
pub fn counting(vocab: u32, context: u32) -> Script {
    Script::new(vocab, context, move |prefix| {
        let next = (prefix[prefix.len() - 1] + 1) % vocab;
        (0..vocab)
            .map(|token| if token == next { 3.0 } else { 0.0 })
            .collect()
    })
}

pub fn sequence(slot: u32, tokens: &[TokenId]) -> Sequence {
    let mut sequence = Sequence::new(slot);
    sequence.commit(tokens);
    sequence
}

pub fn prompt(len: usize, vocab: u32) -> Vec<TokenId> {
    (0..len as u32).map(|i| (i * 7 + 3) % vocab).collect()
}

/// No end but the context's.
pub fn endless(context: u32) -> StopConditions {
    StopConditions {
        token_ids: Vec::new(),
        max_tokens: usize::MAX,
        context: context as usize,
    }
}

/// What an answer consists of.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub tokens: Vec<TokenId>,
    pub logprobs: Vec<TokenLogprobs>,
    pub finish: FinishReason,
}

/// Decoding by the definition of choosing, without loop, passes or cache.
pub fn naive(
    script: &Script,
    prompt: &[TokenId],
    sampling: &Sampling,
    stop: &StopConditions,
    top: usize,
) -> Answer {
    let mut chooser = Chooser::new(sampling.clone(), prompt);
    let mut tokens = prompt.to_vec();
    let mut logprobs = Vec::new();
    loop {
        let logits = script.logits(&tokens);
        let Chosen::Token(token) = chooser.choose(&logits, tokens.len() as u32 - 1, &[]) else {
            panic!("logits are finite");
        };
        chooser.commit(token);
        logprobs.push(token_logprobs(&logits, token, top));
        tokens.push(token);
        let generated = tokens.len() - prompt.len();
        let finish = if stop.token_ids.contains(&token) {
            FinishReason::Stop
        } else if generated == stop.max_tokens || tokens.len() == stop.context {
            FinishReason::Length
        } else {
            continue;
        };
        return Answer {
            tokens: tokens.split_off(prompt.len()),
            logprobs,
            finish,
        };
    }
}

/// An answer of the loop, with what it counted.
#[derive(Debug)]
pub struct Run {
    pub answer: Answer,
    pub provenance: Vec<TokenProvenance>,
    pub statistics: AcceptanceStatistics,
    pub counters: AggregateCounters,
    pub sequence: Sequence,
    /// Tokens of each block, the prompt's first.
    pub blocks: Vec<usize>,
}

/// Options that count and report everything.
pub fn detailed(
    sampling: &Sampling,
    stop: &StopConditions,
    drafter: Option<Box<dyn Drafter>>,
    k: usize,
) -> DecodeOptions {
    DecodeOptions {
        sampling: sampling.clone(),
        stop: stop.clone(),
        drafter,
        draft_model: false,
        auto: None,
        num_speculative_tokens: k,
        adaptive: None,
        steps_a_wait: 0,
        logprobs: Some(3),
        statistics: StatisticsLevel::Detailed,
        provenance: true,
    }
}

/// Runs the loop to the end; after each step audits KV cache and lengths, at the end everything counted.
pub fn run(
    (ops, model): &mut (ScriptOps, ScriptModel),
    prompt: &[TokenId],
    options: DecodeOptions,
) -> Result<Run, DecodeError> {
    let mut decode = DecodeLoop::new(sequence(0, prompt), options, AbortSignal::new());
    let mut tokens = Vec::new();
    let mut logprobs = Vec::new();
    let mut provenance = Vec::new();
    let mut blocks = Vec::new();
    let finish = loop {
        let (passes, reads) = (ops.passes(), ops.reads());
        let block = block_on(decode.step(ops, model))?;
        if !blocks.is_empty() {
            let one_more = (passes + 1, reads + 1);
            assert_eq!((ops.passes(), ops.reads()), one_more, "one pass, one wait");
        }
        ops.audit(decode.sequence());
        assert!(!block.tokens.is_empty());
        assert_eq!(block.logprobs.len(), block.tokens.len());
        assert_eq!(block.provenance.len(), block.tokens.len());
        for logprobs in &block.logprobs {
            assert!(logprobs.chosen < 0.0, "no token is certain here");
            let mass: f32 = logprobs.top.iter().map(|(_, logprob)| logprob.exp()).sum();
            assert!(mass < 1.0 + 1e-6, "{mass}");
        }
        blocks.push(block.tokens.len());
        tokens.extend(block.tokens);
        logprobs.extend(block.logprobs);
        provenance.extend(block.provenance);
        assert_eq!(decode.generated(), tokens);
        let (kv, len) = (decode.sequence().kv_len(), decode.sequence().tokens().len());
        assert_eq!((kv + 1, len), (len, prompt.len() + tokens.len()));
        if let Some(finish) = block.finish {
            break finish;
        }
    };
    let run = Run {
        answer: Answer {
            tokens,
            logprobs,
            finish,
        },
        provenance,
        statistics: decode.statistics().expect("they were asked for").clone(),
        counters: decode.take_counters(),
        sequence: decode.sequence().clone(),
        blocks,
    };
    assert_eq!(decode.take_counters(), AggregateCounters::default());
    assert_identities(&run.statistics, &run.counters);
    assert_provenance(&run);
    Ok(run)
}

/// What holds between the figures of any answer.
pub fn assert_identities(s: &AcceptanceStatistics, counters: &AggregateCounters) {
    let weighted = |h: &[u64]| h.iter().zip(0..).map(|(n, j)| n * j).sum::<u64>();
    let h = &s.acceptance_histogram;
    assert_eq!(h.len(), s.num_spec_tokens + 1);
    assert_eq!(h.iter().sum::<u64>(), s.num_spec_steps);
    assert_eq!(weighted(h), s.num_accepted_draft_tokens);
    let mut sum = vec![0; h.len()];
    for (d, row) in &s.acceptance_histogram_by_draft_length {
        assert_eq!(row.len(), d + 1);
        assert!(row.iter().sum::<u64>() > 0, "only observed lengths");
        for (sum, n) in sum.iter_mut().zip(row) {
            *sum += n;
        }
    }
    assert_eq!(&sum, h);
    assert_eq!(s.per_step_accepted.len() as u64, s.num_spec_steps);
    assert_eq!(s.per_step_drafted.len() as u64, s.num_spec_steps);
    assert_eq!(
        s.per_step_accepted.iter().sum::<u64>(),
        s.num_accepted_draft_tokens
    );
    assert_eq!(s.per_step_drafted.iter().sum::<u64>(), s.num_draft_tokens);
    for (accepted, drafted) in s.per_step_accepted.iter().zip(&s.per_step_drafted) {
        assert!(accepted <= drafted && *drafted <= s.num_spec_tokens as u64);
        assert!(*drafted > 0);
    }
    assert!(s.num_draft_tokens <= s.num_proposed_tokens);
    assert!(s.emitted_from_drafts <= s.num_accepted_draft_tokens);
    assert!((1.0..=(s.num_spec_tokens + 1) as f64).contains(&s.mean_acceptance_length()));
    assert!((0.0..=1.0).contains(&s.draft_acceptance_rate()));
    assert!(s.sync_time_ms <= s.verify_time_ms);

    assert_eq!(counters.num_drafts, s.num_spec_steps);
    assert_eq!(counters.num_draft_tokens, s.num_draft_tokens);
    assert_eq!(counters.num_accepted_tokens, s.num_accepted_draft_tokens);
    for (i, count) in counters.accepted_per_pos.iter().enumerate() {
        let at_least = h.iter().skip(i + 1).sum::<u64>();
        assert_eq!(*count, at_least, "accepted at position {i}");
    }
}

/// Provenance against what was counted.
fn assert_provenance(run: &Run) {
    let count = |wanted| run.provenance.iter().filter(|p| **p == wanted).count() as u64;
    let s = &run.statistics;
    assert_eq!(run.provenance[0], TokenProvenance::Prefill);
    assert_eq!(count(TokenProvenance::Prefill), 1);
    assert_eq!(count(TokenProvenance::Plain), s.plain_steps);
    assert_eq!(count(TokenProvenance::Draft), s.emitted_from_drafts);
    // Every verification but perhaps the last, whose block may have been cut, ends with a token of the target's own.
    let own = count(TokenProvenance::Recovered) + count(TokenProvenance::Bonus);
    assert!(own == s.num_spec_steps || own + 1 == s.num_spec_steps);
    let full = s
        .per_step_accepted
        .iter()
        .zip(&s.per_step_drafted)
        .filter(|(accepted, drafted)| accepted == drafted)
        .count() as u64;
    let bonus = count(TokenProvenance::Bonus);
    assert!(bonus == full || bonus + 1 == full);
    assert_eq!(
        run.blocks.len() as u64,
        1 + s.plain_steps + s.num_spec_steps
    );
}

/// One case by chance.
#[derive(Debug)]
pub struct Case {
    pub script: Script,
    pub vocab: u32,
    pub context: u32,
    pub prompt: Vec<TokenId>,
    pub sampling: Sampling,
    pub stop: StopConditions,
}

pub fn random_sampling(random: &mut Random, vocab: u32, stop_ids: Vec<TokenId>) -> Sampling {
    let biases = random.pick(&[0, 0, 1, 3]);
    Sampling {
        temperature: random.pick(&[0.0, 0.0, 0.3, 0.8, 1.0, 2.0]),
        top_k: random.pick(&[0, 0, 1, 2, 4, vocab + 5]),
        top_p: random.pick(&[1.0, 1.0, 0.5, 0.9]),
        min_p: random.pick(&[0.0, 0.0, 0.05, 0.3]),
        repetition_penalty: random.pick(&[1.0, 1.0, 1.3, 0.8]),
        frequency_penalty: random.pick(&[0.0, 0.0, 0.5, -0.5, 1.5]),
        presence_penalty: random.pick(&[0.0, 0.0, 0.5, -0.5, 1.5]),
        seed: random.next(),
        choice: random.pick(&[0, 0, 1, 2]),
        min_tokens: random.pick(&[0, 0, 1, 3, 8]),
        stop_ids,
        logit_bias: (0..biases)
            .map(|_| {
                let token = random.below(vocab as usize) as TokenId;
                (token, random.pick(&[-100.0, -1.0, 1.0, 2.5]))
            })
            .collect(),
    }
}

pub fn random_case(random: &mut Random) -> Case {
    let vocab = 8 + random.below(57) as u32;
    let context = 16 + random.below(80) as u32;
    let seed = random.next();
    let script = match random.below(3) {
        0 => Script::seeded(seed, vocab, context),
        memory => forgetful(seed, vocab, context, memory),
    };
    let len = 1 + random.below(context as usize - 1);
    let len = len.min(1 + random.below(context as usize - 1));
    let prompt = (0..len)
        .map(|_| random.below(vocab as usize) as TokenId)
        .collect();
    let token_ids: Vec<TokenId> = (0..random.below(3))
        .map(|_| random.below(vocab as usize) as TokenId)
        .collect();
    let near = (len + 1 + random.below(10)).min(context as usize);
    let stop = StopConditions {
        token_ids: token_ids.clone(),
        max_tokens: 1 + random.below(60),
        context: random.pick(&[context as usize, context as usize, near]),
    };
    Case {
        sampling: random_sampling(random, vocab, token_ids),
        script,
        vocab,
        context,
        prompt,
        stop,
    }
}
