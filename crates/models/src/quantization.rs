//! [`Quantization`]: what matrices become while they are loaded.

use foretoken_core::Format;
use foretoken_weights::{Gguf, StoredType, TensorInfo, format_by_name};

use crate::ModelsError;
use crate::config::{EMBEDDING, OUTPUT};

/// The formats of matrices that are not quantised yet.
const PLAIN: [&str; 3] = ["f32", "f16", "bf16"];

/// A format that a model's matrices are quantised to while they are loaded, row by row as they stream.
///
/// Quantised is what the file stores as `f32`, `f16` or `bf16`; matrices that are quantised already stay as they are, and norms and
/// biases are `f32` in any case. The blocks have the same bits as those of the reference quantiser of the format, so that a model
/// answers as its GGUF file in that format would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantization {
    /// All of them to `q8_0`.
    Q8_0,
    /// To `q4_0`, but for the embedding and the head, which become `q8_0`: every token goes through them, they are the most
    /// sensitive, and in a small model they are a large part of the weights that 4 bits would spoil.
    Q4_0,
}

impl Quantization {
    /// Every choice.
    pub const ALL: [Self; 2] = [Self::Q8_0, Self::Q4_0];

    /// Its name: `q8_0`, `q4_0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// The choice of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// What the matrix `tensor`, stored as `stored`, becomes.
    pub fn format(self, tensor: &TensorInfo, stored: Format) -> Format {
        if !PLAIN.contains(&stored.name()) {
            return stored;
        }
        let name = match &*tensor.name {
            EMBEDDING | OUTPUT => "q8_0",
            _ => self.name(),
        };
        format_by_name(name).expect("the formats to quantise to are built in")
    }

    /// Whether `gguf` has a matrix that would change.
    pub fn changes(self, gguf: &Gguf) -> bool {
        self.check(gguf).is_ok()
    }

    /// Fails where `gguf` has no matrix that would change.
    pub(crate) fn check(self, gguf: &Gguf) -> Result<(), ModelsError> {
        let mut kept = None;
        for tensor in gguf.tensors.iter().filter(|tensor| tensor.rows() > 1) {
            match tensor.stored.format() {
                Some(stored) if self.format(tensor, stored) != stored => return Ok(()),
                _ => kept = Some(tensor.stored),
            }
        }
        Err(ModelsError::AlreadyQuantized {
            asked: self.name(),
            stored: kept.map_or_else(|| "no matrix".to_owned(), StoredType::name),
        })
    }
}
