//! Small inputs for the unit tests.

use foretoken_core::{Format, KvShape, MatrixLayout, MatrixPart, QuantFormat};

use crate::{kv_cache::CpuKvCache, matrix::CpuMatrix};

/// Plain little-endian floats, so that these tests are about ops and not about formats.
#[derive(Debug)]
struct Floats;

impl QuantFormat for Floats {
    fn name(&self) -> &'static str {
        "floats"
    }
    fn ggml_type(&self) -> u32 {
        0
    }
    fn block_len(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        4
    }
    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        for (bytes, out) in bytes.chunks_exact(4).zip(out) {
            *out = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
    }
    fn quant_vec4s(&self) -> usize {
        8
    }
    fn scale_words(&self) -> usize {
        0
    }
    fn repack(&self, _: &[u8], _: &mut [u32], _: &mut [u32]) {
        unreachable!("CpuOps keeps file bytes")
    }
}

/// Plain floats.
pub(crate) const FLOATS: Format = &Floats;

/// Values in -1..1 that depend on `seed` only.
pub(crate) fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (f64::from(state) / f64::from(u32::MAX) * 2.0 - 1.0) as f32
        })
        .collect()
}

/// Little-endian bytes.
pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// A stacked matrix of `(name, rows, values)`.
pub(crate) fn f32_matrix(parts: &[(&str, u32, &[f32])], cols: u32) -> CpuMatrix {
    let described: Vec<_> = parts
        .iter()
        .map(|&(name, rows, _)| MatrixPart {
            name: name.to_owned(),
            format: FLOATS,
            rows,
            cols,
        })
        .collect();
    let mut matrix = CpuMatrix::new(&described, MatrixLayout::Stacked).expect("fits in memory");
    for (part, (_, _, values)) in matrix.parts.iter_mut().zip(parts) {
        part.write_rows(0, &bytes(values));
    }
    matrix
}

/// An empty cache.
pub(crate) fn kv_cache(shape: KvShape) -> CpuKvCache {
    CpuKvCache::new(shape).expect("fits in memory")
}
