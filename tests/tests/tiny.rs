//! TINY models on `CpuOps` against transformers, which computed `golden/tiny.json` (`scripts/make_tiny.py`) and
//! `golden/tiny_models.json` (`scripts/make_tiny_models.py`).

use std::collections::BTreeSet;

use foretoken_core::{LanguageModel, Ops, Phase, Row};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{TINY_GOLDENS, TinyGolden, data_file, read_golden};
use foretoken_tests::greedy::greedy;
use foretoken_tests::model_file::load_file;

/// On logits of up to ±25: 1e-4 is some ten roundings of an f32.
const TOLERANCE: f32 = 1e-4;

fn golden() -> TinyGolden {
    read_golden("tiny.json")
}

fn load(ops: &mut CpuOps, file: &str) -> Box<dyn LanguageModel<CpuOps>> {
    pollster::block_on(load_file(ops, &data_file(file)))
}

#[test]
fn logits_and_ids_equal_transformers() {
    for golden in TINY_GOLDENS.map(read_golden) {
        equal_transformers(&golden);
    }
}

fn equal_transformers(golden: &TinyGolden) {
    for (file, cases) in &golden.files {
        let mut ops = CpuOps::new();
        let model = load(&mut ops, file);
        assert!(cases.len() >= 2, "{file}");
        for (name, case) in cases {
            let prompt = &golden.prompts[name].prompt_ids;
            let run = greedy(&mut ops, &*model, prompt, &[], case.output_ids.len());
            let run = pollster::block_on(run).expect("CpuOps never fails");
            assert_eq!(run.prompt_logits.len(), case.logits.len(), "{file}, {name}");
            let worst = run
                .prompt_logits
                .iter()
                .zip(&case.logits)
                .map(|(got, expected)| (got - expected).abs())
                .fold(0.0, f32::max);
            println!(
                "{file}, {name}: largest difference {worst}, smallest gap {}",
                case.smallest_gap
            );
            // The reference turns by angles in single precision, which at hundreds of positions are as far off.
            let tolerance = match prompt.len() {
                ..=256 => TOLERANCE,
                _ => 2.0 * TOLERANCE,
            };
            assert!(
                worst <= tolerance,
                "{file}, {name}: a logit is off by {worst}"
            );
            assert_eq!(run.output_ids, case.output_ids, "{file}, {name}");
        }
    }
}

#[test]
fn every_file_has_its_golden_values_and_the_other_way_round() {
    let folder = data_file("");
    let files: BTreeSet<String> = std::fs::read_dir(&folder)
        .expect("the data folder is there")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("plain names")
        })
        .filter(|name| name.starts_with("tiny") && name.ends_with(".gguf"))
        .collect();
    let golden: BTreeSet<String> = TINY_GOLDENS
        .map(read_golden::<TinyGolden>)
        .into_iter()
        .flat_map(|golden| golden.files.into_keys())
        .collect();
    assert!(!golden.is_empty());
    assert_eq!(files, golden);
}

/// The last row's logits, as bits, of `rows` given `at_a_time` rows a pass.
fn logit_bits(file: &str, phase: Phase, rows: &[Row], at_a_time: usize) -> Vec<u32> {
    let mut ops = CpuOps::new();
    let model = load(&mut ops, file);
    let mut logits = Vec::new();
    for rows in rows.chunks(at_a_time) {
        ops.begin(phase, rows, 1);
        let out = model.forward(&mut ops);
        ops.submit().expect("CpuOps never fails");
        logits = pollster::block_on(ops.read_activation(out)).expect("CpuOps never fails");
    }
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn chunks_of_any_size_give_the_same_bits() {
    let prompt = &golden().prompts["nearly_full"].prompt_ids;
    let rows: Vec<Row> = (0..)
        .zip(prompt)
        .map(|(position, &token)| Row {
            token,
            position,
            sequence: 0,
        })
        .collect();
    let expected = logit_bits("tiny_mixed.gguf", Phase::Prefill, &rows, 32);
    for at_a_time in [1, 7, 16] {
        assert!(
            logit_bits("tiny_mixed.gguf", Phase::Prefill, &rows, at_a_time) == expected,
            "{at_a_time}"
        );
        assert!(
            logit_bits("tiny_mixed.gguf", Phase::Rows, &rows, at_a_time) == expected,
            "{at_a_time}"
        );
    }
}

#[test]
fn a_model_keeps_nothing_of_the_last_prompt() {
    let golden = golden();
    let mut ops = CpuOps::new();
    let model = load(&mut ops, "tiny.gguf");
    for name in ["plain", "nearly_full", "plain", "chat", "plain"] {
        let case = &golden.files["tiny.gguf"][name];
        let run = greedy(
            &mut ops,
            &*model,
            &golden.prompts[name].prompt_ids,
            &[],
            case.output_ids.len(),
        );
        assert_eq!(
            pollster::block_on(run)
                .expect("CpuOps never fails")
                .output_ids,
            case.output_ids,
            "{name}"
        );
    }
}
