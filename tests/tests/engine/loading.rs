//! Loading, and files that cannot be loaded.

use foretoken_engine::{Engine, EngineOptions, Error, RowInvariance};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::data_file;
use foretoken_weights::{BytesSource, FileSource};
use pollster::block_on;
use serde_json::json;

use crate::rig::{chat, complete, options, refused};

#[test]
fn loading_reports_progress_and_checks_rows() {
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    let mut seen = Vec::new();
    let engine = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |p| seen.push(p),
    ))
    .unwrap();
    assert_eq!(engine.row_invariance(), RowInvariance::Holds);
    let uploads: Vec<_> = seen.iter().filter(|p| p.total > 0).collect();
    let last = uploads.last().expect("weights are reported");
    assert_eq!(last.loaded, last.total);
    assert!(
        uploads
            .windows(2)
            .all(|pair| pair[0].loaded <= pair[1].loaded)
    );
}

fn load_error(bytes: Vec<u8>) -> Error {
    let source = BytesSource(bytes);
    block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |_| {},
    ))
    .unwrap_err()
}

#[test]
fn files_that_cannot_be_loaded_have_a_code() {
    let tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    assert_eq!(
        load_error(b"not a model at all".to_vec()).code(),
        "corrupt_weights"
    );
    assert_eq!(
        load_error(tiny[..tiny.len() / 2].to_vec()).code(),
        "corrupt_weights"
    );
    assert_eq!(
        load_error(replaced(&tiny, b"llama", b"lhama")).code(),
        "unsupported_architecture"
    );
    assert_eq!(
        load_error(replaced(&tiny, b"smollm", b"smollx")).code(),
        "unsupported_architecture"
    );
    let source = BytesSource(tiny);
    let options = EngineOptions {
        context_length: Some(65),
        ..options()
    };
    let error = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options,
        &mut |_| {},
    ))
    .unwrap_err();
    assert_eq!(error.code(), "invalid_request");
}

/// The first occurrence replaced by something as long.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .expect("it is in the file");
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn a_template_that_raises_is_a_request_error_with_its_words() {
    let tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    let source = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}";
    let source = source.replace("\\n", "\n");
    let raising = "{{ raise_exception('roles must alternate') }}";
    let padded = format!("{raising:width$}", width = source.len());
    let bytes = replaced(&tiny, source.as_bytes(), padded.as_bytes());
    let source = BytesSource(bytes);
    let engine = block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options(),
        &mut |_| {},
    ))
    .unwrap();
    let body = json!({"messages": [{"role": "user", "content": "x"}], "temperature": 0});
    let (code, param, message) = refused(chat(&engine, &body));
    assert_eq!((&*code, &*param), ("invalid_request", "messages"));
    assert!(message.contains("roles must alternate"), "{message}");
    // Text completions do without a template.
    complete(
        &engine,
        &json!({"prompt": "x", "temperature": 0, "max_tokens": 1}),
    )
    .unwrap();
}
