//! Loading, and files that cannot be loaded.

use std::cell::Cell;

use foretoken_engine::{Engine, EngineOptions, Error, RowInvariance, plan};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::data_file;
use foretoken_weights::{ByteSource, BytesSource, FileSource, Gguf, WeightsError};
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
pub fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
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

/// A source that notes how far it was read.
struct Watched {
    bytes: BytesSource<Vec<u8>>,
    read_to: Cell<u64>,
}

impl ByteSource for Watched {
    fn name(&self) -> &str {
        "watched"
    }
    fn len(&self) -> u64 {
        self.bytes.len()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let end = offset + into.len() as u64;
        self.read_to.set(self.read_to.get().max(end));
        self.bytes.read(offset, into).await
    }
}

#[test]
fn planning_fails_where_loading_would_and_reads_the_header_only() {
    let tiny = std::fs::read(data_file("tiny.gguf")).unwrap();
    // Weights enough that they are no part of what the header's window holds.
    let header = block_on(Gguf::read(&BytesSource(&tiny)))
        .unwrap()
        .data_offset;
    let cases = [
        (tiny.clone(), None, None),
        (tiny.clone(), Some(64), None),
        (tiny.clone(), Some(65), Some("invalid_request")),
        (
            replaced(&tiny, b"smollm", b"smollx"),
            None,
            Some("unsupported_architecture"),
        ),
        (
            replaced(&tiny, b"blk.1.ffn_up", b"blk.1.ffn_ux"),
            None,
            Some("corrupt_weights"),
        ),
    ];
    for (bytes, context_length, code) in cases {
        let options = EngineOptions {
            context_length,
            ..options()
        };
        let source = Watched {
            bytes: BytesSource(bytes.clone()),
            read_to: Cell::new(0),
        };
        let planned = block_on(plan(&mut CpuOps::with_threads(1), &source, None, &options));
        let loaded = block_on(Engine::load(
            CpuOps::with_threads(1),
            &BytesSource(bytes),
            options,
            &mut |_| {},
        ));
        // The context that is planned is the one that is loaded.
        let loaded = loaded.map(|engine| engine.limits().context);
        let words = |error: Error| (error.code(), error.to_string());
        let planned = planned.map(|plan| plan.context_length).map_err(words);
        let loaded = loaded.map_err(words);
        assert_eq!(planned.as_ref().err().map(|(code, _)| *code), code);
        assert_eq!(planned, loaded);
        let read_to = source.read_to.get();
        assert!(read_to < header + (64 << 10), "{read_to} bytes read");
    }
}
