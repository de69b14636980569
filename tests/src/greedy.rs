//! A plain greedy loop over any ops: the simplest thing that can be right, not the engine's loop.

use foretoken_core::{
    Chosen, LanguageModel, MAX_PREFILL_ROWS, Ops, OpsError, Phase, Position, Row, TOKEN_ON_DEVICE,
    TokenId,
};

use crate::golden::GoldenCase;

/// What one prompt led to.
#[derive(Debug)]
pub struct GreedyRun {
    /// All logits at the prompt's last position.
    pub prompt_logits: Vec<f32>,
    /// The tokens chosen, with the stop token where there is one.
    pub output_ids: Vec<TokenId>,
}

/// Prefills `prompt` from position 0 of sequence 0, [`MAX_PREFILL_ROWS`] rows a pass, and returns the logits of
/// its last position, `[vocab]`.
pub async fn prompt_logits<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    prompt: &[TokenId],
) -> Result<Vec<f32>, OpsError> {
    assert!(!prompt.is_empty(), "a prompt has at least one token");
    let rows: Vec<Row> = (0..)
        .zip(prompt)
        .map(|(position, &token)| row(token, position))
        .collect();
    let mut logits = Vec::new();
    for rows in rows.chunks(MAX_PREFILL_ROWS) {
        ops.begin(Phase::Prefill, rows, 1);
        let out = model.forward(ops);
        ops.choose(out);
        ops.submit()?;
        logits = ops.read_activation(out).await?;
    }
    Ok(logits)
}

/// Prefills `prompt`, then decodes greedily, one row a step, until a token of `stop` or `max_tokens`.
pub async fn greedy<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    prompt: &[TokenId],
    stop: &[TokenId],
    max_tokens: usize,
) -> Result<GreedyRun, OpsError> {
    let prompt_logits = prompt_logits(ops, model, prompt).await?;
    let mut output_ids = vec![only(&ops.read_chosen().await?)];
    let after = Position::try_from(prompt.len()).expect("prompts are short");
    for position in after.. {
        if output_ids.len() >= max_tokens
            || output_ids.last().is_some_and(|last| stop.contains(last))
        {
            break;
        }
        // The device knows the token: the path that decoding takes, and a wrong one would show at once.
        ops.begin(Phase::Rows, &[row(TOKEN_ON_DEVICE, position)], 1);
        let out = model.forward(ops);
        ops.choose(out);
        ops.submit()?;
        output_ids.push(only(&ops.read_chosen().await?));
    }
    Ok(GreedyRun {
        prompt_logits,
        output_ids,
    })
}

/// Runs a golden case, at most `max_tokens` tokens of it.
pub async fn run_golden_case<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    case: &GoldenCase,
    stop: &[TokenId],
    max_tokens: usize,
) -> Result<GreedyRun, OpsError> {
    greedy(ops, model, &case.prompt_ids, stop, max_tokens).await
}

/// Compares a run of at most `max_tokens` tokens with its case: ids equal, and each of the largest logits
/// within `tolerance`. Returns the largest difference of a logit.
pub fn assert_golden(case: &GoldenCase, run: &GreedyRun, max_tokens: usize, tolerance: f32) -> f32 {
    let expected: Vec<_> = case.output_ids.iter().copied().take(max_tokens).collect();
    assert_eq!(run.output_ids, expected, "{}: output ids", case.id);
    let mut worst = 0.0f32;
    for &(token, expected) in &case.top20 {
        let got = run.prompt_logits[token as usize];
        assert!(
            (got - expected).abs() <= tolerance,
            "{}: logit of token {token} is {got}, the reference has {expected}",
            case.id
        );
        worst = worst.max((got - expected).abs());
    }
    worst
}

fn row(token: TokenId, position: Position) -> Row {
    Row {
        token,
        position,
        sequence: 0,
    }
}

/// The choice of a step with one logit row.
fn only(chosen: &[Chosen]) -> TokenId {
    match chosen {
        [Chosen::Token(token)] => *token,
        other => panic!("one finite row expected, got {other:?}"),
    }
}
