//! Weights are streamed whole, in order, and in small pieces.

use std::cell::RefCell;

use foretoken_weights::forge::Forge;
use foretoken_weights::{
    ByteSource, BytesSource, Gguf, RowBlocks, WeightsError, format_by_name, read_vector_f32,
};

/// A source that notes what was read.
struct Noting {
    bytes: BytesSource<Vec<u8>>,
    reads: RefCell<Vec<usize>>,
}

impl ByteSource for Noting {
    fn name(&self) -> &str {
        "noting"
    }
    fn len(&self) -> u64 {
        self.bytes.len()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        self.reads.borrow_mut().push(into.len());
        self.bytes.read(offset, into).await
    }
}

fn open(forge: Forge) -> (Noting, Gguf) {
    let source = Noting {
        bytes: BytesSource(forge.build().bytes),
        reads: RefCell::default(),
    };
    let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
    source.reads.borrow_mut().clear();
    (source, gguf)
}

#[test]
fn blocks_hold_whole_groups_of_rows_in_order() {
    let (rows, row_bytes) = (37_u64, 18 * 2);
    let data: Vec<u8> = (0..rows * row_bytes).map(|i| (i * 7 % 251) as u8).collect();
    let (source, gguf) = open(Forge::new().tensor("first", &[3], 0, &[9; 12]).tensor(
        "t",
        &[64, rows],
        2,
        &data,
    ));
    let tensor = gguf.required_tensor("t").unwrap();
    // The largest block, and the rows it must have: less than a group, one group, between, all.
    for (max_bytes, rows_expected) in [(0, 8), (1, 8), (288, 8), (575, 8), (576, 16), (1 << 30, 37)]
    {
        source.reads.borrow_mut().clear();
        let mut blocks = RowBlocks::new(&source, tensor, max_bytes, 8).unwrap();
        let mut seen = Vec::new();
        let mut first_rows = Vec::new();
        while let Some(block) = pollster::block_on(blocks.next()).unwrap() {
            first_rows.push(block.first_row);
            seen.extend_from_slice(block.bytes);
        }
        assert!(pollster::block_on(blocks.next()).unwrap().is_none());
        assert_eq!(seen, data, "{max_bytes}");
        assert_eq!(
            first_rows,
            (0..rows).step_by(rows_expected).collect::<Vec<_>>()
        );
        let reads = source.reads.borrow();
        assert!(
            reads
                .iter()
                .all(|read| *read <= rows_expected * row_bytes as usize),
            "{reads:?}"
        );
        assert_eq!(reads.len(), first_rows.len());
    }
}

#[test]
fn a_tensor_of_more_dimensions_is_rows_too() {
    let data: Vec<u8> = (0..96).collect();
    let (source, gguf) = open(Forge::new().tensor("t", &[2, 3, 4], 0, &data));
    let tensor = gguf.required_tensor("t").unwrap();
    assert_eq!(
        (tensor.cols(), tensor.rows(), tensor.shape_text().as_str()),
        (2, 12, "2 x 3 x 4")
    );
    let mut blocks = RowBlocks::new(&source, tensor, 64, 8).unwrap();
    let first = pollster::block_on(blocks.next())
        .unwrap()
        .unwrap()
        .bytes
        .to_vec();
    assert_eq!(first, data[..64]);
}

#[test]
fn vectors_of_every_format_become_f32() {
    let values = [1.0_f32, -0.5, 0.25, 1e-3];
    let (source, gguf) = open(Forge::new().tensor_f32("bias", &[4], &values).tensor_f32(
        "m",
        &[2, 2],
        &values,
    ));
    let bias = gguf.required_tensor("bias").unwrap();
    assert_eq!(
        pollster::block_on(read_vector_f32(&source, bias)).unwrap(),
        values
    );
    let matrix = gguf.required_tensor("m").unwrap();
    let message = pollster::block_on(read_vector_f32(&source, matrix))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`m` must be a vector") && message.contains("2 x 2"),
        "{message}"
    );

    // d = 0.5 (0x3800), nibbles 0 and 15.
    let block = [&[0x00, 0x38][..], &[0xf0; 16]].concat();
    let (source, gguf) =
        open(Forge::new().tensor("q", &[64], 2, &[&block[..], &block[..]].concat()));
    let tensor = gguf.required_tensor("q").unwrap();
    assert_eq!(tensor.format().unwrap(), format_by_name("q4_0").unwrap());
    let values = pollster::block_on(read_vector_f32(&source, tensor)).unwrap();
    let expected: Vec<f32> = (0..64)
        .map(|i| if i % 32 < 16 { -4.0 } else { 3.5 })
        .collect();
    assert_eq!(values, expected);
}
