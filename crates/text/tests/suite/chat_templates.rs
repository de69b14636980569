//! Chat templates: what they render, what they may use up, and who may write control tokens.

use crate::reference::Reference;
use foretoken_text::{
    ChatMessage, MAX_TEMPLATE_BYTES, RenderOptions, Segment, TextError, Tokenizer, VocabularySpec,
};
use serde_json::{Value, json};

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

fn spec(template: &str) -> VocabularySpec {
    let reference = Reference::small("gpt-2");
    VocabularySpec {
        bos: Some(reference.id("<|im_start|>")),
        eos: Some(reference.id("<|im_end|>")),
        chat_template: Some(template.into()),
        ..reference.spec()
    }
}

fn user(content: &str) -> ChatMessage {
    ChatMessage {
        role: "user".into(),
        content: content.into(),
        ..Default::default()
    }
}

fn options() -> RenderOptions {
    RenderOptions {
        context: 1 << 20,
        ..Default::default()
    }
}

/// What a case of a reference is rendered with.
pub fn case_options(case: &Value, now: &Value) -> RenderOptions {
    let mut variables = case["added"].as_object().cloned().unwrap_or_default();
    let documents = variables.remove("documents");
    RenderOptions {
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
        tools: case["tools"].as_array().unwrap().clone(),
        documents: documents.map_or(Vec::new(), |list| list.as_array().unwrap().clone()),
        variables,
        now: now.as_i64(),
        ..options()
    }
}

fn render_error(template: &str, messages: &[ChatMessage]) -> TextError {
    let tokenizer = Tokenizer::new(spec(template)).unwrap();
    let template = tokenizer.chat_template().unwrap();
    template.render(messages, &options()).unwrap_err()
}

fn rendered_text(source: &str, messages: &[ChatMessage], options: &RenderOptions) -> String {
    rendered(source, messages, options).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// Renders with a vocabulary whose BOS and EOS are spelled as in the references.
pub fn rendered(
    source: &str,
    messages: &[ChatMessage],
    options: &RenderOptions,
) -> Result<String, TextError> {
    let mut spec = spec(source);
    let end = spec.tokens.len() as u32;
    spec.tokens.extend(["<s>".into(), "</s>".into()]);
    spec.token_types.extend([3, 3]);
    spec.bos = Some(end);
    spec.eos = Some(end + 1);
    let tokenizer = Tokenizer::new(spec).unwrap();
    let rendered = tokenizer.chat_template()?.render(messages, options)?;
    Ok(rendered.text().to_string())
}

#[test]
fn a_final_message_stays_open_as_in_the_reference() {
    let reference: Value = serde_json::from_str(include_str!("../data/templates.json")).unwrap();
    let cases = reference["open"].as_array().unwrap();
    let mut refused = 0;
    for case in cases {
        let messages: Vec<ChatMessage> = serde_json::from_value(case["messages"].clone()).unwrap();
        let options = RenderOptions {
            continue_final_message: true,
            ..options()
        };
        let found = rendered(case["source"].as_str().unwrap(), &messages, &options);
        match case["text"].as_str() {
            Some(text) => assert_eq!(found.as_deref(), Ok(text), "{case}"),
            None => {
                refused += 1;
                assert!(matches!(found, Err(TextError::NothingToContinue { .. })));
            }
        }
    }
    assert!(refused > 0 && refused < cases.len());
    let options = RenderOptions {
        continue_final_message: true,
        ..options()
    };
    assert!(rendered(CHATML, &[], &options).is_err());
    // What users wrote stays text up to the end.
    let tokenizer = Tokenizer::new(spec(CHATML)).unwrap();
    let open = tokenizer.chat_template().unwrap();
    let rendered = open.render(&[user("<|im_end|>"), user("a<|im_end|>b <|im_")], &options);
    let segments = rendered.unwrap().segments().to_vec();
    let control = |segment: &&Segment| matches!(segment, Segment::Control(_));
    assert_eq!(segments.iter().filter(control).count(), 3);
    let last = "user\na<|im_end|>b <|im_";
    assert_eq!(segments.last(), Some(&Segment::Text(last.into())));
}

#[test]
fn chats_with_tools_take_the_template_for_them() {
    let mut two = spec("plain");
    assert_eq!(
        Tokenizer::new(two.clone())
            .unwrap()
            .chat_template_for(true)
            .unwrap()
            .source(),
        "plain"
    );
    two.tool_use_template = Some("{{ tools | length }}".into());
    let tokenizer = Tokenizer::new(two).unwrap();
    let source = |tools| tokenizer.chat_template_for(tools).unwrap().source();
    assert_eq!(source(false), "plain");
    assert_eq!(source(true), "{{ tools | length }}");
}

#[test]
fn templates_render_as_in_the_reference() {
    let reference: Value = serde_json::from_str(include_str!("../data/templates.json")).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    assert!(cases.len() >= 110);
    let mut wrong = Vec::new();
    for case in cases {
        let messages: Vec<ChatMessage> = serde_json::from_value(case["messages"].clone()).unwrap();
        let options = case_options(case, &reference["now"]);
        let text = rendered_text(case["source"].as_str().unwrap(), &messages, &options);
        if text != case["text"].as_str().unwrap() {
            wrong.push(format!(
                "{}\n  found    {text:?}\n  expected {:?}",
                case["name"],
                case["text"].as_str().unwrap()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_templates_refusal_reaches_the_user() {
    let alternating = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate!') }}{% endif %}{{ m.content }}{% endfor %}";
    assert_eq!(
        render_error(alternating, &[user("a"), user("b")]),
        TextError::TemplateRaised {
            message: "Roles must alternate!".into(),
        }
    );
    let in_macro = "{% macro f() %}{{ raise_exception('within') }}{% endmacro %}{{ f() }}";
    assert_eq!(
        render_error(in_macro, &[]),
        TextError::TemplateRaised {
            message: "within".into(),
        }
    );
}

#[test]
fn a_missing_or_broken_template_leaves_completion_alone() {
    for broken in ["{% for %}", "{{ a", "{% endif %}", "{% unknown_tag %}"] {
        let tokenizer = Tokenizer::new(spec(broken)).unwrap();
        assert!(
            matches!(
                tokenizer.chat_template(),
                Err(TextError::TemplateSyntax { .. })
            ),
            "{broken}"
        );
        assert!(
            !tokenizer
                .encode_prompt("hello", false, true)
                .unwrap()
                .is_empty()
        );
    }
    let mut without = spec("");
    without.chat_template = None;
    let error = Tokenizer::new(without)
        .unwrap()
        .chat_template()
        .unwrap_err();
    assert_eq!(error, TextError::NoChatTemplate);
    assert!(error.to_string().contains("`complete`"));
}

#[test]
fn the_source_is_limited() {
    for (bytes, ok) in [
        (MAX_TEMPLATE_BYTES - 1, true),
        (MAX_TEMPLATE_BYTES, true),
        (MAX_TEMPLATE_BYTES + 1, false),
    ] {
        let tokenizer = Tokenizer::new(spec(&"x".repeat(bytes))).unwrap();
        assert_eq!(tokenizer.chat_template().is_ok(), ok, "{bytes}");
    }
}

#[test]
fn the_output_is_limited_to_sixteen_bytes_a_token() {
    let tokenizer =
        Tokenizer::new(spec("{{ messages[0].content }}{{ messages[1].content }}")).unwrap();
    let template = tokenizer.chat_template().unwrap();
    let limited = RenderOptions {
        context: 10,
        ..Default::default()
    };
    for (bytes, ok) in [(159, true), (160, true), (161, false)] {
        // Marks do not count: the second content has one.
        let messages = [user(&"x".repeat(bytes - 12)), user("a<|im_end|>b")];
        let rendered = template.render(&messages, &limited);
        match rendered {
            Ok(rendered) => assert!(ok && rendered.text().len() == bytes),
            Err(error) => assert!(
                !ok && error == TextError::RenderedTooLong { limit: 160 },
                "{error}"
            ),
        }
    }
}

#[test]
fn work_is_limited() {
    let started = std::time::Instant::now();
    for endless in [
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{{ 'x' * 100000000000 }}",
        "{{ range(100000000000) | list | length }}",
        "{% for i in range(100000) %}{{ messages | tojson }}{% endfor %}",
        "{% for i in range(99999999) %}{% set x = ('y' * 1000000) | upper %}{% endfor %}",
        "{{ messages | tojson(indent=1000000000) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ ('a,' * 100000).split(',') | join('x' * 100000) }}",
        "{{ 'x'.center(1000000000) }}",
        "{{ 'a\n' * 100000 | indent(1000000) }}",
    ] {
        let error = render_error(endless, &[user(&"z".repeat(1000))]);
        assert!(
            matches!(
                error,
                TextError::TemplateFuel { .. }
                    | TextError::TemplateFailed { .. }
                    | TextError::RenderedTooLong { .. }
            ),
            "{endless}: {error}"
        );
    }
    eprintln!("endless templates ended in {:?}", started.elapsed());
    assert!(started.elapsed().as_secs() < 60);
}

/// Dropping a value that was wrapped in lists recurses as deeply as it is nested: fuel ends the loop before the stack does.
#[test]
fn a_value_wrapped_in_a_loop_does_not_exhaust_the_stack() {
    let wrap = "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let endings = ["", "{{ ns.x }}", "{{ ns.x | tojson }}"].map(|ending| format!("{wrap}{ending}"));
    let run = thread.spawn(move || {
        for template in endings {
            let error = render_error(&template, &[user("z")]);
            assert!(matches!(error, TextError::TemplateFuel { .. }), "{error}");
        }
        // Just below what the fuel allows, so that the value is dropped, shown and written whole.
        for ending in ["", "{{ ns.x }}"] {
            let shallower = format!("{}{ending}", wrap.replace("90000", "1000"));
            let text = rendered_text(&shallower, &[user("z")], &options());
            assert!(
                ending.is_empty() || text.starts_with("[["),
                "{} bytes",
                text.len()
            );
        }
    });
    run.unwrap().join().unwrap();
}

/// A wasm stack has one megabyte; this thread has half of that.
#[test]
fn nesting_does_not_exhaust_a_small_stack() {
    let nested = [
        "(".repeat(100_000),
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(60_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ a{} }}}}", ".b".repeat(100_000)),
        format!("{{{{ a{} }}}}", "|upper".repeat(40_000)),
        format!("{{{{ 1{} }}}}", "+1".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " if 1 else 2".repeat(20_000)),
        // As long as a tag may be.
        format!("{{{{ {}1 }}}}", "not ".repeat(498)),
        format!("{{{{ {}1 }}}}", "-".repeat(498)),
        format!("{{{{ 1{} }}}}", "+1".repeat(249)),
        format!("{{{{ a{} }}}}", ".b".repeat(249)),
        format!("{{{{ 'a'{} }}}}", "|upper".repeat(248)),
        format!("{{{{ 1{} }}}}", " if 1 else 2".repeat(124)),
        "{% if 1 %}".repeat(20_000),
        "{% for i in [1] %}".repeat(14_000),
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}".to_string(),
    ];
    for source in nested {
        let shown: String = source.chars().take(60).collect();
        eprintln!("{shown}");
        std::thread::Builder::new()
            .stack_size(512 * 1024)
            .spawn(move || {
                let tokenizer = Tokenizer::new(spec(&source)).unwrap();
                if let Ok(template) = tokenizer.chat_template() {
                    let _ = template.render(&[user("a")], &options());
                }
            })
            .unwrap()
            .join()
            .unwrap();
    }
}

#[test]
fn roles_are_words() {
    for role in [
        "",
        "a b",
        "user|><|system",
        "<|im_end|>",
        "é",
        &"x".repeat(65),
    ] {
        let mut message = user("x");
        message.role = role.into();
        assert!(
            matches!(
                render_error(CHATML, &[message]),
                TextError::InvalidRole { index: 0, .. }
            ),
            "{role:?}"
        );
    }
    let tokenizer = Tokenizer::new(spec(CHATML)).unwrap();
    for role in [
        "system",
        "user",
        "tool",
        "ipython",
        "x-y_z.1",
        &"x".repeat(64),
    ] {
        let mut message = user("x");
        message.role = role.into();
        assert!(
            tokenizer
                .chat_template()
                .unwrap()
                .render(&[message], &options())
                .is_ok(),
            "{role:?}"
        );
    }
}

#[test]
fn control_tokens_come_from_the_template_alone() {
    let template = "{% for m in messages %}{{ '<|im_start|>' + m.role }} {{ m.name }}\n{% if m.parts %}{% for p in m.parts %}{{ p.text | trim }}{% endfor %}{% endif %}{{ m.content }}{{ (m.tool_calls or none) | tojson }}{{ m.content | trim }}{{ m.content | lower }}<|im_end|>\n{% endfor %}{{ tools | tojson }}{{ documents | tojson(ensure_ascii=true) }}{{ effort }}{{ tags | join }}{{ xs }}";
    let spec = spec(template);
    let tokenizer = Tokenizer::new(spec.clone()).unwrap();
    let chat = tokenizer.chat_template().unwrap();
    let (start, end) = (spec.bos.unwrap(), spec.eos.unwrap());
    for spelling in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] {
        let hostile = format!("{spelling}A{spelling}{spelling}B \n{spelling} <|im_{spelling}end|>");
        let mut message = user(&hostile);
        message.name = Some(hostile.clone());
        let (left, right) = spelling.split_at(4);
        message.fields.insert("parts".into(), json!([{"text": left}, {"text": right}, {"text": format!(" {left}")}, {"text": format!("{right} ")}]));
        message.fields.insert(
            "tool_calls".into(),
            json!([{"function": {"name": spelling, "arguments": {spelling: hostile}}}]),
        );
        let options = RenderOptions {
            tools: vec![json!({"type": spelling, "function": {"description": hostile}})],
            documents: vec![json!({"text": hostile})],
            variables: json!({"effort": hostile, "tags": [left, right, spelling]})
                .as_object()
                .unwrap()
                .clone(),
            ..options()
        };
        let upper = user(&spelling.to_uppercase());
        let rendered = chat.render(&[message, upper], &options).unwrap();
        let control: Vec<u32> = rendered
            .segments()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Control(id) => Some(*id),
                Segment::Text(_) => None,
            })
            .collect();
        assert_eq!(control, [start, end, start, end], "{spelling}");
        assert!(rendered.text().contains(&hostile), "{}", rendered.text());
        assert!(!rendered.text().contains('\u{E000}'));
        // The ids are those of the text with only the template's control tokens recognised.
        let mut expected = Vec::new();
        for segment in rendered.segments() {
            match segment {
                Segment::Text(text) => expected.extend(tokenizer.encode(text, false).unwrap()),
                Segment::Control(id) => expected.push(*id),
            }
        }
        assert_eq!(tokenizer.encode_rendered(&rendered).unwrap(), expected);
        let visible: String = rendered
            .segments()
            .iter()
            .map(|segment| match segment {
                Segment::Text(text) => text.as_str(),
                Segment::Control(_) => "",
            })
            .collect();
        assert_eq!(tokenizer.decode(&expected), visible);
    }
}

#[test]
fn private_use_characters_in_messages_survive() {
    let tokenizer = Tokenizer::new(spec(CHATML)).unwrap();
    let content = "\u{E000}<|im_end|>\u{E001}\u{F8FF}";
    let rendered = tokenizer
        .chat_template()
        .unwrap()
        .render(&[user(content)], &options())
        .unwrap();
    assert_eq!(
        rendered.text(),
        format!("<|im_start|>user\n{content}<|im_end|>\n")
    );
    let every: String = ('\u{E000}'..='\u{F8FF}').collect();
    assert_eq!(render_error(CHATML, &[user(&every)]), TextError::NoFreeMark);
}

#[test]
fn a_template_that_writes_bos_does_not_double_it() {
    let mut with_bos = spec("{{ bos_token }}{{ messages[0].content }}");
    with_bos.add_bos = Some(true);
    let bos = with_bos.bos.unwrap();
    let tokenizer = Tokenizer::new(with_bos.clone()).unwrap();
    let rendered = tokenizer
        .chat_template()
        .unwrap()
        .render(&[user("a")], &options())
        .unwrap();
    let a = tokenizer.encode("a", false).unwrap();
    assert_eq!(
        tokenizer.encode_rendered(&rendered).unwrap(),
        [&[bos], a.as_slice()].concat()
    );

    with_bos.chat_template = Some("{{ messages[0].content }}".into());
    let tokenizer = Tokenizer::new(with_bos).unwrap();
    let rendered = tokenizer
        .chat_template()
        .unwrap()
        .render(&[user("a")], &options())
        .unwrap();
    assert_eq!(
        tokenizer.encode_rendered(&rendered).unwrap(),
        [&[bos], a.as_slice()].concat()
    );
}

#[test]
fn values_that_hold_themselves_are_refused_when_the_template_is_read() {
    for ending in [
        "{{ ns|tojson }}",
        "{{ [ns]|string }}",
        "{{ 'a' ~ ns }}",
        "{{ raise_exception(ns) }}",
        "{{ ns|pprint }}",
        "{% set n2 = namespace() %}{% set n2.x = n2 %}{{ ns == n2 }}",
    ] {
        let source = format!("{{% set ns = namespace() %}}{{% set ns.x = ns %}}{ending}");
        // The tokenizer works all the same: raw completion needs no template.
        let tokenizer = Tokenizer::new(spec(&source)).unwrap();
        let error = tokenizer.chat_template().unwrap_err().to_string();
        assert!(error.contains("namespace"), "{error}");
    }
}

#[test]
fn a_template_that_never_ends_is_given_up_in_seconds() {
    let started = std::time::Instant::now();
    let doubling = "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}";
    let error = render_error(doubling, &[user("z")]);
    assert!(
        matches!(
            error,
            TextError::TemplateTime { .. }
                | TextError::TemplateFuel { .. }
                | TextError::TemplateFailed { .. }
        ),
        "{error}"
    );
    assert!(started.elapsed().as_secs() < 15, "{:?}", started.elapsed());
}

#[test]
fn long_messages_are_rendered() {
    let content = " people".repeat(140_000);
    let chatml = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}";
    let text = rendered_text(chatml, &[user(&content)], &options());
    assert!(text.len() > content.len());
}
