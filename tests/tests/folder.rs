//! Safetensors folders on `CpuOps` against transformers, which saved them and computed `golden/folder.json`
//! (`scripts/make_tiny_folders.py`); and quantised while loading, against the same weights quantised by the gguf package.

use std::collections::BTreeMap;

use foretoken_core::TokenId;
use foretoken_engine::{Engine, EngineOptions};
use foretoken_models::{LoadOptions, ModelsError, Quantization, load_model, plan_model};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{
    GoldenFile, SMOLLM2_STOP_IDS, TinyCase, TinyPrompt, data_file, read_golden,
};
use foretoken_tests::greedy::{GreedyRun, assert_golden, greedy, run_golden_case};
use foretoken_tests::model_file::find_folder;
use foretoken_weights::{FileSource, Gguf, TensorConvention};
use serde::Deserialize;

/// On logits of up to ±25: 1e-4 is some ten roundings of an f32.
const TOLERANCE: f32 = 1e-4;
/// Golden cases of SmolLM2 that are run.
const CASES: usize = 8;

#[derive(Deserialize)]
struct Golden {
    prompt: TinyPrompt,
    end_ids: Vec<TokenId>,
    folders: BTreeMap<String, TinyCase>,
}

fn golden() -> Golden {
    read_golden("folder.json")
}

/// A greedy run on `name` in the data folder, whose tensors are laid out as `convention` says.
fn run_greedy(
    name: &str,
    convention: TensorConvention,
    quantize: Option<Quantization>,
    prompt: &[TokenId],
    tokens: usize,
) -> GreedyRun {
    let source = FileSource::open(data_file(name)).unwrap();
    let mut ops = CpuOps::new();
    let options = LoadOptions {
        quantize,
        ..LoadOptions::default()
    };
    pollster::block_on(async {
        let mut gguf = Gguf::read(&source).await.unwrap();
        gguf.convention = convention;
        plan_model::<_, FileSource>(&mut ops, &gguf, options)
            .await
            .expect("what loads can be planned");
        let model = load_model(&mut ops, &gguf, &source, options, &mut |_, _| {})
            .await
            .unwrap();
        greedy(&mut ops, &*model, prompt, &[], tokens)
            .await
            .expect("CpuOps never fails")
    })
}

#[test]
fn logits_and_ids_equal_transformers() {
    let golden = golden();
    assert_eq!(golden.folders.len(), 2);
    for (name, case) in &golden.folders {
        let prompt = &golden.prompt.prompt_ids;
        let tokens = case.output_ids.len();
        let run = run_greedy(name, TensorConvention::HuggingFace, None, prompt, tokens);
        assert_eq!(run.prompt_logits.len(), case.logits.len(), "{name}");
        let worst = run
            .prompt_logits
            .iter()
            .zip(&case.logits)
            .map(|(got, expected)| (got - expected).abs())
            .fold(0.0, f32::max);
        println!(
            "{name}: largest difference {worst}, smallest gap {}",
            case.smallest_gap
        );
        assert!(worst <= TOLERANCE, "{name}: a logit is off by {worst}");
        assert_eq!(run.output_ids, case.output_ids, "{name}");
        // The order of q and k is the architecture's to ask for.
        let other = run_greedy(name, TensorConvention::Gguf, None, prompt, 1);
        assert_ne!(other.prompt_logits, run.prompt_logits, "{name}");
    }
}

#[test]
fn the_end_of_an_answer_is_the_tokenizers_and_the_generation_configurations() {
    let golden = golden();
    let source = FileSource::open(data_file("folder")).unwrap();
    let options = EngineOptions::new("m", "cpu");
    let mut ignore = |_| {};
    let engine = Engine::load(CpuOps::new(), &source, options, &mut ignore);
    let engine = pollster::block_on(engine).unwrap();
    let mut ends = engine.tokenizer().end_of_generation().to_vec();
    ends.sort_unstable();
    let mut expected = golden.end_ids.clone();
    expected.sort_unstable();
    assert_eq!(ends, expected);
    let ids = engine.tokenizer().encode(&golden.prompt.text, false);
    assert_eq!(ids.unwrap(), golden.prompt.prompt_ids);
}

#[test]
fn quantised_while_loading_is_quantised_before() {
    let golden = golden();
    let prompt = &golden.prompt.prompt_ids;
    let bits = |run: GreedyRun| -> Vec<u32> {
        run.prompt_logits
            .iter()
            .map(|logit| logit.to_bits())
            .collect()
    };
    let of = |name: &str, quantize| {
        // The gguf package was given the folder's tensors as they are.
        bits(run_greedy(
            name,
            TensorConvention::HuggingFace,
            quantize,
            prompt,
            1,
        ))
    };
    let plain = of("folder", None);
    for quantize in Quantization::ALL {
        let loaded = of("folder", Some(quantize));
        let file = of(&format!("folder_{}.gguf", quantize.name()), None);
        assert!(loaded == file, "{}: other logits", quantize.name());
        assert!(
            loaded != plain,
            "{}: nothing was quantised",
            quantize.name()
        );
        // Shards of bf16 too, which no file is made of.
        of("folder_shards", Some(quantize));
    }
}

/// Plans to load `gguf`.
fn plan(gguf: &Gguf, options: LoadOptions) -> Result<(), ModelsError> {
    let mut ops = CpuOps::new();
    pollster::block_on(plan_model::<_, FileSource>(&mut ops, gguf, options))
}

#[test]
fn what_is_quantised_already_is_refused() {
    let source = FileSource::open(data_file("folder_q4_0.gguf")).unwrap();
    let options = LoadOptions {
        quantize: Some(Quantization::Q8_0),
        ..LoadOptions::default()
    };
    let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
    let message = plan(&gguf, options).unwrap_err().to_string();
    assert!(
        message.contains("`quantize` is q8_0") && message.contains("already"),
        "{message}"
    );
}

#[test]
fn a_tensor_that_no_architecture_asks_for_is_refused() {
    let source = FileSource::open(data_file("folder")).unwrap();
    let mut gguf = pollster::block_on(Gguf::read(&source)).unwrap();
    let more = "blk.1.attn_sinks.weight";
    let mut extra = gguf.tensors[0].clone();
    extra.name = more.into();
    gguf.tensors.push(extra);
    let options = LoadOptions::default();
    let message = plan(&gguf, options).unwrap_err().to_string();
    assert!(
        message.contains(more) && message.contains("llama"),
        "{message}"
    );
    // A GGUF file may have what sees images beside the language model; a folder's reader has left that out.
    gguf.convention = TensorConvention::Gguf;
    plan(&gguf, options).unwrap_err();
    for (name, loads) in [("v.blk.0.attn_q.weight", true), ("blk.1.attn_sinks", false)] {
        gguf.tensors.last_mut().unwrap().name = name.into();
        assert_eq!(plan(&gguf, options).is_ok(), loads, "{name}");
    }
}

/// The golden answers' SmolLM2, as transformers saves its weights and its tokenizer (`scripts/make_smollm2_folder.py`).
#[test]
#[ignore = "minutes, and a folder that a script makes; cargo xtask test --all"]
fn smollm2_as_a_folder_gives_the_golden_answers() {
    const NAME: &str = "smollm2-135m-safetensors";
    let test = "smollm2_as_a_folder_gives_the_golden_answers";
    let Some(folder) = find_folder(NAME) else {
        let how = "tests/scripts/make_smollm2_folder.py makes it";
        foretoken_tests::skip(&format!("{test}: no {NAME} in the models folder; {how}"));
        return;
    };
    let source = FileSource::open(folder).unwrap();
    let mut ops = CpuOps::new();
    let golden: GoldenFile = read_golden("smollm2-135m.json");
    pollster::block_on(async {
        let gguf = Gguf::read(&source).await.unwrap();
        let options = LoadOptions::default();
        let model = load_model(&mut ops, &gguf, &source, options, &mut |_, _| {})
            .await
            .unwrap();
        for case in golden.cases.iter().take(CASES) {
            let run = run_golden_case(&mut ops, &*model, case, SMOLLM2_STOP_IDS, 48).await;
            let worst = assert_golden(case, &run.unwrap(), 48, 0.02);
            println!("{}: largest difference of a logit {worst}", case.id);
        }
    });
}
