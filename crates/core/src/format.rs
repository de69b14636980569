//! What a quantisation format must say of itself. The formats are in `foretoken-weights`, one file each.

use std::fmt::Debug;

/// Weights in one device block. Every format is laid out on the device in blocks of this many
/// weights of one row, whatever its block length in the file.
pub const WEIGHTS_PER_BLOCK: usize = 32;

/// A quantisation format: a row of weights is a whole number of blocks.
pub type Format = &'static dyn QuantFormat;

/// Encodes weights: whole blocks of `values` to the bytes of a file, appended to `out`. A block with a value that is not
/// finite decodes to nothing but NaN.
pub type Quantize = fn(values: &[f32], out: &mut Vec<u8>);

/// One quantisation format, host side. Its kernels' side is `shaders/quant/<name>.wgsl`.
///
/// On the device a **unit** of `unit_len` weights, a block of the file but at least 32, is `quant_vec4s` values of `vec4<u32>` and
/// `scale_words` values of `u32` ([`QuantFormat::repack`] says which bits go where; the WGSL file reads them back).
pub trait QuantFormat: Debug + Sync + Send {
    /// The stem: lower case, as in the WGSL file's name (`q4_1`).
    fn name(&self) -> &'static str;
    /// The type number in a GGUF file.
    fn ggml_type(&self) -> u32;
    /// Weights in one block of the file (1 for plain floats).
    fn block_len(&self) -> usize;
    /// Bytes of one block of the file.
    fn block_bytes(&self) -> usize;
    /// Decodes whole file blocks: `out.len() == bytes.len() / block_bytes * block_len`.
    fn dequantize(&self, bytes: &[u8], out: &mut [f32]);
    /// Weights of a unit: what `repack` rewrites at once and the two counts below are for. A multiple of [`WEIGHTS_PER_BLOCK`].
    fn unit_len(&self) -> usize {
        self.block_len().max(WEIGHTS_PER_BLOCK)
    }
    /// `vec4<u32>` values that hold the quants of a unit on the device.
    fn quant_vec4s(&self) -> usize;
    /// `u32` words that hold the scales of a unit on the device, and what else is no whole `vec4` of every block.
    fn scale_words(&self) -> usize;
    /// Rewrites a unit from file bytes to device words: `quants` gets `4 * quant_vec4s` words and `scales` `scale_words`.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]);

    /// What encodes weights in this format; `None` for one that is only read.
    fn quantize(&self) -> Option<Quantize> {
        None
    }

    /// Bytes of a row of `cols` weights in the file, or `None` if `cols` is no whole number of blocks
    /// or the product overflows.
    fn row_bytes(&self, cols: u64) -> Option<u64> {
        let len = self.block_len() as u64;
        if !cols.is_multiple_of(len) {
            return None;
        }
        (cols / len).checked_mul(self.block_bytes() as u64)
    }
}

impl PartialEq for dyn QuantFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
impl Eq for dyn QuantFormat {}
