//! Level 2 for choosing: the device's tokens and log-probabilities are those of the definition in `foretoken-core`, for
//! every mix of processors, with drafts in the block, after acceptance; and no row depends on the rows around it.

use foretoken_core::sampling::{NoiseKey, choose_rows, gumbel, token_logprobs};
use foretoken_core::{
    Chooser, Chosen, MatrixLayout, MatrixPart, Ops, Phase, Row, RowSet, Sampling, TokenId,
};
use foretoken_gpu::{GpuActivation, GpuMatrix, GpuOps, GpuVector, Tier};
use foretoken_tests::gpu;
use foretoken_weights::quant::FORMATS;
use pollster::block_on;

const VOCAB: u32 = 5024;
const PROMPT: [TokenId; 6] = [3, 9, 9, 40, 7, 5000];

/// A model that is nothing but a table of logits: token t's row is what follows it.
struct Table {
    table: GpuMatrix,
    all: GpuActivation,
    logits: GpuActivation,
    ones: GpuVector,
}

fn mix(x: u64) -> u64 {
    let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Table {
    /// 24 rows with a few large logits and a long tail, as a language model's.
    fn new(ops: &mut GpuOps) -> Self {
        let f32_format = FORMATS
            .iter()
            .copied()
            .find(|f| f.name() == "f32")
            .expect("f32 is a format");
        let part = MatrixPart {
            name: "table".into(),
            format: f32_format,
            rows: 24,
            cols: VOCAB,
        };
        let mut table = ops.matrix(&[part], MatrixLayout::Stacked).unwrap();
        let bytes: Vec<u8> = (0..24 * u64::from(VOCAB))
            .flat_map(|i| {
                let uniform = (mix(i
                    .wrapping_add(0x1234_5678)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    >> 40) as f32
                    / (1u64 << 24) as f32;
                (uniform.powi(24) * 12.0 + uniform - 0.5).to_le_bytes()
            })
            .collect();
        ops.write_rows(&mut table, 0, 0, &bytes).unwrap();
        Self {
            table,
            all: ops.activation("all", VOCAB, RowSet::All).unwrap(),
            logits: ops.activation("logits", VOCAB, RowSet::Logits).unwrap(),
            ones: ops.vector("ones", &vec![2.0; VOCAB as usize]).unwrap(),
        }
    }

    /// Chooses for a block of rows; returns the choices and the logits they came from.
    fn run(
        &self,
        ops: &mut GpuOps,
        rows: &[Row],
        top_logprobs: Option<u32>,
    ) -> (Vec<Chosen>, Vec<f32>) {
        ops.begin(Phase::Rows, rows, rows.len());
        ops.embed(&self.table, 1.0, &self.all);
        ops.rms_norm(&self.all, &self.ones, 1e-5, &self.logits);
        ops.choose(&self.logits);
        if let Some(top) = top_logprobs {
            ops.logprobs(&self.logits, top);
        }
        ops.submit().unwrap();
        let chosen = block_on(ops.read_chosen()).unwrap();
        (chosen, block_on(ops.read_activation(&self.logits)).unwrap())
    }
}

fn mixes() -> Vec<Sampling> {
    let base = Sampling {
        temperature: 1.0,
        seed: 7,
        ..Sampling::greedy()
    };
    let bias = vec![(12, 6.0), (5023, -100.0), (0, 4.5)];
    vec![
        Sampling::greedy(),
        base.clone(),
        Sampling {
            temperature: 0.3,
            seed: u64::MAX - 3,
            ..base.clone()
        },
        Sampling {
            temperature: 1.9,
            choice: 3,
            ..base.clone()
        },
        Sampling {
            top_k: 1,
            ..base.clone()
        },
        Sampling {
            top_k: 40,
            temperature: 0.8,
            ..base.clone()
        },
        Sampling {
            top_p: 0.9,
            temperature: 0.8,
            ..base.clone()
        },
        Sampling {
            top_p: 0.05,
            ..base.clone()
        },
        Sampling {
            min_p: 0.1,
            ..base.clone()
        },
        Sampling {
            top_k: 100,
            top_p: 0.8,
            min_p: 0.01,
            temperature: 1.5,
            ..base.clone()
        },
        Sampling {
            repetition_penalty: 1.4,
            ..base.clone()
        },
        Sampling {
            frequency_penalty: 1.1,
            presence_penalty: -0.7,
            repetition_penalty: 0.8,
            ..base.clone()
        },
        Sampling {
            logit_bias: bias.clone(),
            ..base.clone()
        },
        Sampling {
            logit_bias: bias.clone(),
            ..Sampling::greedy()
        },
        Sampling {
            min_tokens: 4,
            stop_ids: (0..2500).collect(),
            ..Sampling::greedy()
        },
        Sampling {
            min_tokens: 3,
            stop_ids: vec![1, 2, 3],
            logit_bias: bias,
            repetition_penalty: 1.2,
            frequency_penalty: 0.5,
            presence_penalty: 0.5,
            top_k: 50,
            top_p: 0.95,
            min_p: 0.02,
            ..base
        },
    ]
}

/// Rows of one block from position `first`: the last committed token, then drafts.
fn block(first: u32, tokens: &[TokenId]) -> Vec<Row> {
    (first..)
        .zip(tokens)
        .map(|(position, &token)| Row {
            token,
            position,
            sequence: 0,
        })
        .collect()
}

/// Whether the device's token is one the definition gives but for rounding: its score within 1e-3 of the best, or
/// the choice under a top-p or min-p moved by 1e-4.
fn agrees(chooser: &Chooser, logits: &[f32], row: &Row, drafts: &[TokenId], got: TokenId) -> bool {
    let sampling = chooser.sampling();
    let key = NoiseKey::new(sampling.seed, sampling.choice, row.position + 1);
    let processed = chooser.processed(logits, row.position, drafts);
    let score = |t: TokenId| {
        let noise = if sampling.is_greedy() {
            0.0
        } else {
            gumbel(key.hash(t))
        };
        processed[t as usize] + noise
    };
    let best = (0..VOCAB).map(score).fold(f32::MIN, f32::max);
    if best - score(got) < 1e-3 {
        return true;
    }
    [-1e-4, 1e-4].iter().any(|shift| {
        let moved = Sampling {
            top_p: (sampling.top_p + shift).min(1.0),
            min_p: (sampling.min_p * (1.0 + shift)).max(0.0),
            ..sampling.clone()
        };
        chooser
            .with_sampling(moved)
            .choose(logits, row.position, drafts)
            == Chosen::Token(got)
    })
}

#[test]
fn the_device_chooses_as_the_definition_says_for_every_mix() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    ops.kv_cache(foretoken_core::KvShape {
        sequences: 2,
        context: 64,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        window: None,
    })
    .unwrap();
    let table = Table::new(&mut ops);
    let (mut compared, mut equal) = (0, 0);
    for (case, sampling) in mixes().into_iter().enumerate() {
        ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
        let mut choosers = [Chooser::new(sampling, &PROMPT)];
        let mut position = PROMPT.len() as u32 - 1;
        let mut last = 5;
        for step in 0..6u32 {
            // Drafts: what an oracle would say for two rows, then arbitrary ones; so some are accepted.
            let mut tokens = vec![last % 24];
            for draft in 0..step {
                tokens.push((last * 7 + draft) % 24);
            }
            let rows = block(position, &tokens);
            let (chosen, logits) = table.run(&mut ops, &rows, None);
            for (i, row) in rows.iter().enumerate() {
                let logits = &logits[i * VOCAB as usize..][..VOCAB as usize];
                let drafts = &tokens[1..=i];
                let Chosen::Token(got) = chosen[i] else {
                    panic!("case {case}: finite logits")
                };
                compared += 1;
                equal += usize::from(choosers[0].choose(logits, row.position, drafts) == chosen[i]);
                assert!(
                    agrees(&choosers[0], logits, row, drafts, got),
                    "case {case} step {step} row {i}: {got}"
                );
            }
            let accepted = foretoken_core::sampling::accepted_drafts(&chosen, &tokens[1..]);
            for choice in &chosen[..=accepted] {
                if let Chosen::Token(token) = choice {
                    choosers[0].commit(*token);
                    last = *token;
                }
            }
            position += accepted as u32 + 1;
        }
    }
    println!("{equal} of {compared} choices are the definition's own, the others within rounding");
    assert!(equal * 100 >= compared * 98, "{equal} of {compared} equal");
}

#[test]
fn accepted_drafts_count_for_penalties_and_name_the_token_on_the_device() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let table = Table::new(&mut ops);
    let sampling = Sampling {
        frequency_penalty: 2.0,
        ..Sampling::greedy()
    };
    ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
    let mut plain = [Chooser::new(sampling, &PROMPT)];
    // Plainly: three tokens, one a pass. Only rows below 24 are in the table.
    let mut tokens = vec![5];
    for i in 0..3u32 {
        let row = block(5 + i, &[tokens[i as usize] % 24]);
        let (chosen, logits) = table.run(&mut ops, &row, None);
        let (expected, _) = choose_rows(&mut plain, &row, &logits);
        assert_eq!(chosen, expected, "token {i}");
        let Chosen::Token(token) = chosen[0] else {
            panic!("finite")
        };
        tokens.push(token);
    }
    // As one verified block: the counts of accepted drafts, and the token that only the device knows.
    let bias = vec![(1, 90.0), (2, 80.0)];
    let sampling = Sampling {
        frequency_penalty: 2.0,
        presence_penalty: 20.0,
        logit_bias: bias,
        ..Sampling::greedy()
    };
    ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
    let mut choosers = [Chooser::new(sampling, &PROMPT)];
    // The bias makes 1 win, then (once 1 is penalised by a draft) 2, and so on: drafts 1, 2 are right, 9 is wrong.
    let rows = block(5, &[5, 1, 2, 9]);
    let (chosen, logits) = table.run(&mut ops, &rows, None);
    let (expected, last) = choose_rows(&mut choosers, &rows, &logits);
    assert_eq!(chosen, expected);
    assert_eq!(chosen[0], Chosen::Token(1));
    // The next pass begins with the token only the device knows; its embedding is the last committed token's.
    let next = [Row {
        token: foretoken_core::TOKEN_ON_DEVICE,
        position: 5 + 3,
        sequence: 0,
    }];
    let (chosen, on_device) = table.run(&mut ops, &next, None);
    let named = [Row {
        token: last[0].1,
        ..next[0]
    }];
    let (_, by_host) = table.run(&mut ops, &named, None);
    assert_eq!(
        on_device, by_host,
        "TOKEN_ON_DEVICE is the last committed token"
    );
    assert_eq!(
        chosen,
        choose_rows(&mut choosers, &named, &on_device).0,
        "committed tokens count"
    );
}

#[test]
fn a_rows_choice_does_not_depend_on_the_rows_around_it() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let table = Table::new(&mut ops);
    for sampling in mixes() {
        let penalizes = sampling.penalizes();
        ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
        let tokens: Vec<TokenId> = (0..16).map(|i| (i * 5 + 2) % 24).collect();
        let (whole, _) = table.run(&mut ops, &block(5, &tokens), None);
        for n in 1..16usize {
            if penalizes {
                // Counts move with every pass: start again.
                ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
            }
            let (some, _) = table.run(&mut ops, &block(5, &tokens[..n]), None);
            assert_eq!(some, whole[..n], "{n} rows, {sampling:?}");
        }
    }
}

#[test]
fn log_probabilities_are_those_of_the_raw_logits() {
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let table = Table::new(&mut ops);
    let sampling = Sampling {
        temperature: 0.7,
        top_k: 5,
        logit_bias: vec![(4, 50.0)],
        ..Sampling::greedy()
    };
    ops.set_sampling(0, &sampling, &PROMPT, VOCAB).unwrap();
    for top in [0, 1, 20] {
        let rows = block(5, &[1, 2, 3, 4, 5]);
        let (chosen, logits) = table.run(&mut ops, &rows, Some(top));
        // `run` read an activation since: record again for the log-probabilities alone.
        ops.begin(Phase::Rows, &rows, rows.len());
        ops.embed(&table.table, 1.0, &table.all);
        ops.rms_norm(&table.all, &table.ones, 1e-5, &table.logits);
        ops.choose(&table.logits);
        ops.logprobs(&table.logits, top);
        ops.submit().unwrap();
        assert_eq!(block_on(ops.read_chosen()).unwrap(), chosen);
        let found = block_on(ops.read_logprobs()).unwrap();
        assert_eq!(found.len(), 5);
        for (i, found) in found.iter().enumerate() {
            let Chosen::Token(token) = chosen[i] else {
                panic!("finite")
            };
            let expected = token_logprobs(
                &logits[i * VOCAB as usize..][..VOCAB as usize],
                token,
                top as usize,
            );
            assert!(
                (found.chosen - expected.chosen).abs() < 1e-4,
                "row {i}: {} {}",
                found.chosen,
                expected.chosen
            );
            assert_eq!(found.top.len(), top as usize);
            for (a, b) in found.top.iter().zip(&expected.top) {
                assert!(
                    a.0 == b.0 && (a.1 - b.1).abs() < 1e-4,
                    "row {i}: {a:?} {b:?}"
                );
            }
            let mass: f32 = found.top.iter().map(|(_, p)| p.exp()).sum();
            assert!(mass <= 1.0001, "{mass}");
        }
    }
}
