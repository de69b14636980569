//! Which layers the load-time check runs.

use foretoken_core::MatrixPart;

/// What decides the pipelines that a layer uses, formats and shapes, not names; and the window it attends to.
#[derive(Debug, PartialEq)]
pub(crate) struct LayerSignature {
    parts: Vec<(&'static str, u32, u32)>,
    bias: bool,
    window: Option<u32>,
}

impl LayerSignature {
    /// Of a layer made of `parts`, in order.
    pub(crate) fn new<'a>(
        parts: impl IntoIterator<Item = &'a MatrixPart>,
        bias: bool,
        window: Option<u32>,
    ) -> Self {
        let parts = parts
            .into_iter()
            .map(|part| (part.format.name(), part.rows, part.cols))
            .collect();
        Self {
            parts,
            bias,
            window,
        }
    }
}

/// The first layer of each signature.
pub(crate) fn distinct_layers(signatures: &[LayerSignature]) -> Vec<usize> {
    let mut first = Vec::new();
    for (layer, signature) in signatures.iter().enumerate() {
        if !first
            .iter()
            .any(|&seen| signatures.get(seen) == Some(signature))
        {
            first.push(layer);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_of_each_kind() {
        let signature = |format: &'static str, rows, bias| LayerSignature {
            parts: vec![(format, rows, 32)],
            bias,
            window: None,
        };
        let layers = [
            signature("q4_1", 64, false),
            signature("q4_1", 64, false),
            signature("q8_0", 64, false),
            signature("q4_1", 64, true),
            signature("q4_1", 96, false),
            signature("q8_0", 64, false),
        ];
        assert_eq!(distinct_layers(&layers), [0, 2, 3, 4]);
    }
}
