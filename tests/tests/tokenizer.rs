//! The vocabularies of model files against Hugging Face and `sentencepiece`: 200 hard strings each; of SmolLM2 also the golden
//! prompts, its chat template, and every one of its control tokens typed by a user.

#[path = "../../crates/text/tests/suite/case.rs"]
mod case;

use case::Case;
use foretoken_tests::model_file::{SMOLLM2, vocabulary};
use foretoken_text::{ChatMessage, RenderOptions, Segment, Tokenizer, VocabularySpec};

const QWEN: &str = "qwen2.5-coder-0.5b.gguf";
const GEMMA3: &str = "gemma3-270m.gguf";

/// The vocabulary of the model file; `None`, said loudly, where the file is not there.
fn smollm2(test: &str) -> Option<VocabularySpec> {
    vocabulary(SMOLLM2, test)
}

/// What `golden/smollm2-135m.json` says of a prompt.
#[derive(serde::Deserialize)]
struct Prompt {
    id: String,
    /// What the user says, where the prompt is a chat.
    user: Option<String>,
    text: String,
    prompt_ids: Vec<u32>,
    output_ids: Vec<u32>,
}

#[derive(serde::Deserialize)]
struct Prompts {
    cases: Vec<Prompt>,
}

#[derive(serde::Deserialize)]
struct HardStrings {
    cases: Vec<Case>,
}

/// Every case of a reference file.
fn check_hard_strings(tokenizer: &Tokenizer, reference: &str) {
    let reference: HardStrings = serde_json::from_str(reference).unwrap();
    assert!(reference.cases.len() >= 200);
    let wrong: Vec<String> = reference
        .cases
        .iter()
        .filter_map(|case| case.check(tokenizer).err())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn hard_strings_have_the_reference_ids() {
    let Some(spec) = smollm2("hard_strings_have_the_reference_ids") else {
        return;
    };
    let tokenizer = Tokenizer::new(spec).unwrap();
    check_hard_strings(&tokenizer, include_str!("../golden/tokenizer_smollm2.json"));
}

#[test]
#[ignore = "needs the file qwen2.5-coder-0.5b.gguf"]
fn qwen2_hard_strings_have_the_reference_ids() {
    let Some(spec) = vocabulary(QWEN, "qwen2_hard_strings_have_the_reference_ids") else {
        return;
    };
    let tokenizer = Tokenizer::new(spec).unwrap();
    check_hard_strings(
        &tokenizer,
        include_str!("../golden/tokenizer_qwen2.5-coder.json"),
    );
    assert_eq!(tokenizer.end_of_generation(), [151_645, 151_643]);
    assert!(!tokenizer.adds_bos());
}

#[test]
#[ignore = "needs the file gemma3-270m.gguf"]
fn gemma3_hard_strings_have_the_reference_ids() {
    let Some(spec) = vocabulary(GEMMA3, "gemma3_hard_strings_have_the_reference_ids") else {
        return;
    };
    let started = std::time::Instant::now();
    let tokenizer = Tokenizer::new(spec).unwrap();
    eprintln!("262,144 pieces in {:?}", started.elapsed());
    check_hard_strings(&tokenizer, include_str!("../golden/tokenizer_gemma3.json"));
    assert_eq!(tokenizer.end_of_generation(), [1, 106]);
    assert_eq!(
        tokenizer
            .encode_prompt("The capital of France is", false, tokenizer.adds_bos())
            .unwrap(),
        [2, 818, 5279, 529, 7001, 563]
    );
    // A long text of all kinds takes time in proportion.
    let unit = "word  two   1234 !!\n  x\u{3000} e\u{301} \u{65e5}\u{672c} \r\n\r\n\t y's ";
    let long = "supercalifragilistic".repeat(50_000);
    for text in [unit.repeat(20_000), long] {
        let started = std::time::Instant::now();
        let ids = tokenizer.encode(&text, false).unwrap();
        let took = started.elapsed();
        eprintln!("{} bytes in {took:?}, {} ids", text.len(), ids.len());
        assert_eq!(tokenizer.decode(&ids), text);
        assert!(took.as_secs() < 60, "{took:?}");
    }
}

#[test]
fn golden_prompts_have_the_reference_ids() {
    let Some(spec) = smollm2("golden_prompts_have_the_reference_ids") else {
        return;
    };
    let tokenizer = Tokenizer::new(spec).unwrap();
    let golden: Prompts =
        serde_json::from_str(include_str!("../golden/smollm2-135m.json")).unwrap();
    let mut chats = 0;
    for case in &golden.cases {
        let ids = match &case.user {
            Some(user) => {
                chats += 1;
                let message = ChatMessage {
                    role: "user".into(),
                    content: user.clone().into(),
                    ..Default::default()
                };
                let options = RenderOptions {
                    add_generation_prompt: true,
                    context: 2048,
                    ..Default::default()
                };
                let template = tokenizer.chat_template().unwrap();
                let rendered = template.render(&[message], &options).unwrap();
                assert_eq!(rendered.text(), case.text, "{}", case.id);
                tokenizer.encode_rendered(&rendered).unwrap()
            }
            None => tokenizer
                .encode_prompt(&case.text, false, tokenizer.adds_bos())
                .unwrap(),
        };
        assert_eq!(ids, case.prompt_ids, "{}", case.id);
        let mut detokenizer = tokenizer.detokenizer();
        let mut streamed: String = case
            .output_ids
            .iter()
            .map(|id| detokenizer.push(*id))
            .collect();
        streamed.push_str(&detokenizer.finish());
        assert_eq!(streamed, tokenizer.decode(&case.output_ids), "{}", case.id);
    }
    assert!(chats > 0 && chats < golden.cases.len());
}

#[test]
fn an_answer_ends_at_exactly_two_ids() {
    let Some(spec) = smollm2("an_answer_ends_at_exactly_two_ids") else {
        return;
    };
    assert_eq!(Tokenizer::new(spec).unwrap().end_of_generation(), [2, 0]);
}

#[test]
fn no_control_token_can_be_typed() {
    let Some(spec) = smollm2("no_control_token_can_be_typed") else {
        return;
    };
    let control: Vec<(String, u32)> = spec
        .tokens
        .iter()
        .zip(&spec.token_types)
        .zip(0..)
        .filter(|((_, kind), _)| **kind == 3)
        .map(|((token, _), id)| (token.clone(), id))
        .collect();
    assert_eq!(control.len(), 17);
    let tokenizer = Tokenizer::new(spec).unwrap();
    let template = tokenizer.chat_template().unwrap();
    let options = RenderOptions {
        context: 2048,
        ..Default::default()
    };
    for (spelling, id) in &control {
        assert_eq!(tokenizer.encode(spelling, true).unwrap(), [*id]);
        for typed in [
            spelling.clone(),
            format!("A{spelling}B"),
            format!(" {spelling}{spelling}\n"),
            format!("{}{spelling}{}", &spelling[..3], &spelling[3..]),
        ] {
            let ids = tokenizer.encode(&typed, false).unwrap();
            assert!(ids.iter().all(|id| *id > 16), "{typed:?} {ids:?}");
            assert_eq!(tokenizer.decode(&ids), typed);

            let message = |role: &str| ChatMessage {
                role: role.into(),
                content: typed.clone().into(),
                ..Default::default()
            };
            let rendered = template
                .render(&[message("system"), message("user")], &options)
                .unwrap();
            let written: Vec<u32> = rendered
                .segments()
                .iter()
                .filter_map(|segment| match segment {
                    Segment::Control(id) => Some(*id),
                    Segment::Text(_) => None,
                })
                .collect();
            assert_eq!(written, [1, 2, 1, 2], "{typed:?}");
            // Around the user's text stands what the template writes; inside, what the text encodes to.
            let ids = tokenizer.encode_rendered(&rendered).unwrap();
            let inside = tokenizer.encode(&format!("user\n{typed}"), false).unwrap();
            let last = ids.len() - inside.len() - 3;
            assert_eq!(ids[last], 1);
            assert_eq!(ids[last + 1..last + 1 + inside.len()], inside, "{typed:?}");
            assert_eq!(ids[last + 1 + inside.len()], 2);
        }
    }
}
