//! Damage without a name: truncation anywhere, flipped bits anywhere.

use foretoken_weights::{BytesSource, RowBlocks, read_vector_f32};

use crate::cases::valid;
use crate::read;

#[test]
fn every_truncation_is_an_error() {
    let bytes = valid().build().bytes;
    assert!(read(&bytes).is_ok());
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).err();
        assert!(error.is_some(), "cut at {len} of {} was read", bytes.len());
    }
}

/// xorshift64*: the same damage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[test]
fn flipped_bytes_neither_panic_nor_hang() {
    let original = valid().build();
    let header = original.field("tensor[0].data").start;
    let mut random = Random(7);
    let mut read_anyway = 0;
    for _ in 0..20_000 {
        let mut bytes = original.bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(header);
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 255,
                2 => bytes[at] ^ (1 << random.below(8)),
                _ => random.next() as u8,
            };
        }
        let Ok(gguf) = read(&bytes) else { continue };
        read_anyway += 1;
        // What was read can be loaded, or says why not.
        let source = BytesSource(&bytes);
        for tensor in &gguf.tensors {
            if let Ok(mut blocks) = RowBlocks::new(&source, tensor, 64, 8) {
                while let Some(block) = pollster::block_on(blocks.next()).unwrap() {
                    assert!(!block.bytes.is_empty());
                }
            }
            let _ = pollster::block_on(read_vector_f32(&source, tensor));
        }
        for key in ["general.architecture", "tokens", "scores", "count", "flag"] {
            let _ = gguf.metadata.u32(key);
            let _ = gguf.metadata.str(key);
            let _ = gguf.metadata.string_array(key);
            let _ = gguf.metadata.f32_array(key);
            let _ = gguf.metadata.i32_array(key);
        }
    }
    // Both outcomes were seen: flips in names and values leave a valid file.
    assert!((1_000..19_000).contains(&read_anyway), "{read_anyway}");
}
