//! What a quantisation format must say of itself. The formats are in `foretoken-weights`, one file each.

use std::fmt::Debug;

/// Weights in one device block. Every format is laid out on the device in blocks of this many
/// weights of one row, whatever its block length in the file.
pub const WEIGHTS_PER_BLOCK: usize = 32;

/// A quantisation format: a row of weights is a whole number of blocks.
pub type Format = &'static dyn QuantFormat;

/// One quantisation format, host side. Its kernels' side is `shaders/quant/<name>.wgsl`.
///
/// On the device 32 weights are `quant_vec4s` values of `vec4<u32>` and `scale_words` values of `u32`
/// ([`QuantFormat::repack`] says which bits go where; the WGSL file reads them back).
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
    /// `vec4<u32>` values that hold the quants of 32 weights on the device.
    fn quant_vec4s(&self) -> usize;
    /// `u32` words that hold the scales of 32 weights on the device.
    fn scale_words(&self) -> usize;
    /// Rewrites `max(block_len, 32)` weights from file bytes to device words:
    /// `quants` gets `4 * quant_vec4s` words and `scales` `scale_words` words per 32 weights.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]);

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
