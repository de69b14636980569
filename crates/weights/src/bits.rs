//! Orders of bits that several quantisation formats share: in a file's block, and on the device.
//!
//! On the device byte b of a word belongs to weights b, 4 + b, 8 + b, …: so the four weights that a kernel uses together stand at the
//! same bit of the four bytes, and one mask takes them all.

/// Little-endian word `at`.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = &bytes[4 * at..][..4];
    u32::from_le_bytes([word[0], word[1], word[2], word[3]])
}

/// The nibbles that stand from `shift` on in 32 bytes → four words: 4w.. in the low nibbles of word w, 16 + 4w.. in the high ones.
pub(crate) fn nibbles_in_order(bytes: &[u8], shift: usize, to: &mut [u32]) {
    for (w, to) in to[..4].iter_mut().enumerate() {
        let nibbles = |at: usize| word(bytes, at) >> shift & 0x0f0f_0f0f;
        *to = nibbles(w) | nibbles(4 + w) << 4;
    }
}

/// Bit `bit` of each of 32 bytes → a word: that of byte 4i + b at bit i of byte b.
pub(crate) fn bits_in_order(bytes: &[u8], bit: usize) -> u32 {
    let bits = |i: usize| (word(bytes, i) >> bit & 0x0101_0101) << i;
    (0..8).fold(0, |word, i| word | bits(i))
}

/// A word whose bit n belongs to weight n → a word as [`bits_in_order`] has it.
pub(crate) fn fifth_bits(bits: u32) -> u32 {
    // The product puts bit b of a nibble at bit 8b, among others.
    let spread = |nibble: u32| (nibble * 0x0020_4081) & 0x0101_0101;
    (0..8).fold(0, |word, i| word | spread(bits >> (4 * i) & 0xf) << i)
}

/// The quant of weight `weight` of 256 in the 64 bytes where `q2_k` and `q3_k` keep two bits of each.
pub(crate) fn two_bits(bytes: &[u8], weight: usize) -> u8 {
    bytes[32 * (weight / 128) + weight % 32] >> (2 * (weight / 32 % 4)) & 3
}

/// The same 64 bytes → a word for every 16 weights: 4i.. of them from bit 2i of each byte on.
pub(crate) fn two_bits_in_order(bytes: &[u8], to: &mut [u32]) {
    for (at, to) in to[..16].iter_mut().enumerate() {
        let bytes = &bytes[32 * (at / 8) + 16 * (at % 2)..];
        let bits = |i: usize| (word(bytes, i) >> (2 * (at / 2 % 4)) & 0x0303_0303) << (2 * i);
        *to = bits(0) | bits(1) | bits(2) | bits(3);
    }
}

/// The scale and the minimum of every 32 weights of `q4_k` and `q5_k`, 6 bits each, of the twelve bytes that hold them: those of the
/// last four lie in three pieces.
pub(crate) fn scales_and_minima(bytes: &[u8]) -> [[u8; 2]; 8] {
    std::array::from_fn(|at| {
        let (scale, minimum) = (bytes[at % 4], bytes[4 + at % 4]);
        if at < 4 {
            return [scale & 0x3f, minimum & 0x3f];
        }
        let low = bytes[4 + at];
        [(low & 0xf) | scale >> 6 << 4, low >> 4 | minimum >> 6 << 4]
    })
}

/// The first 16 bytes of a block of `q4_k` or `q5_k` → five words: scale and minimum of every 32 weights in two bytes, then d and dmin
/// as they are.
pub(crate) fn scale_words(block: &[u8], to: &mut [u32]) {
    let scales = scales_and_minima(&block[4..]);
    for (to, pair) in to[..4].iter_mut().zip(scales.chunks_exact(2)) {
        *to = u32::from_le_bytes([pair[0][0], pair[0][1], pair[1][0], pair[1][1]]);
    }
    to[4] = word(block, 0);
}

/// What a kernel makes of [`nibbles_in_order`] and [`bits_in_order`]: 32 quants of five bits.
#[cfg(test)]
pub(crate) fn five_bit_quants(nibbles: &[u32], fifth: u32) -> impl Iterator<Item = f32> {
    (0..32).map(move |i| {
        let (word, byte, high) = (i % 16 / 4, i % 4, i / 16);
        let nibble = nibbles[word] >> (8 * byte + 4 * high) & 0xf;
        let bit = fifth >> (8 * byte + 4 * high + word) & 1;
        (nibble | bit << 4) as f32
    })
}
