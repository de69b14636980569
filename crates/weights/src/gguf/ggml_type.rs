//! The types a tensor can be stored in, by ggml's numbers.

/// A tensor type by its number in a GGUF file, whether this build reads it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredType(pub u32);

/// Number, name, weights in a block, bytes of a block; 0 and 0 for types that ggml withdrew.
const TYPES: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (4, "Q4_2", 0, 0),
    (5, "Q4_3", 0, 0),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 40),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (31, "Q4_0_4_4", 0, 0),
    (32, "Q4_0_4_8", 0, 0),
    (33, "Q4_0_8_8", 0, 0),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (36, "IQ4_NL_4_4", 0, 0),
    (37, "IQ4_NL_4_8", 0, 0),
    (38, "IQ4_NL_8_8", 0, 0),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
];

impl StoredType {
    fn entry(self) -> Option<&'static (u32, &'static str, u64, u64)> {
        TYPES.iter().find(|entry| entry.0 == self.0)
    }

    /// Its name in ggml (`Q4_K`), or `type 99 (unknown)`.
    pub fn name(self) -> String {
        match self.entry() {
            Some(entry) => entry.1.to_owned(),
            None => format!("type {} (unknown)", self.0),
        }
    }

    /// Weights in a block and bytes of a block, where the type is one whose size is known.
    pub fn block(self) -> Option<(u64, u64)> {
        let &(_, _, weights, bytes) = self.entry()?;
        (weights > 0).then_some((weights, bytes))
    }
}
