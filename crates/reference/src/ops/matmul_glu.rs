//! `matmul_glu`: the first half of a feed-forward layer.

use foretoken_core::{GluActivation, MatrixLayout};

use super::matmul::matmul;
use crate::matrix::CpuMatrix;

/// `out = activation(x · Wgateᵀ) ⊙ (x · Wupᵀ)`; `out` is `[rows, ffn]`.
pub(crate) fn matmul_glu(
    x: &[f32],
    w: &CpuMatrix,
    activation: GluActivation,
    threads: usize,
    out: &mut [f32],
) {
    let activate = match activation {
        GluActivation::Silu => silu,
        GluActivation::GeluTanh => gelu_tanh,
    };
    assert!(
        w.layout == MatrixLayout::GateUp,
        "matmul_glu: {} has no gate and up",
        w.name()
    );
    let ffn = w.parts[0].rows;
    // Outputs come in order, gates (the first ffn of them) before ups.
    matmul(x, w, threads, |row, output, value| {
        if output < ffn {
            out[row * ffn + output] = activate(value);
        } else {
            out[row * ffn + output - ffn] *= value;
        }
    });
}

/// `x · sigmoid(x)`.
fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// The approximation of `x · Φ(x)` with a hyperbolic tangent (Hendrycks and Gimpel, 2016).
fn gelu_tanh(x: f32) -> f32 {
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

#[cfg(test)]
mod tests {
    use foretoken_core::{GluActivation, MatrixLayout};

    use super::{gelu_tanh, matmul_glu, silu};
    use crate::testing::f32_matrix;

    #[test]
    fn hand_values() {
        // sigmoid(ln 3) = 3/4.
        let ln3 = 3.0f32.ln();
        assert!((silu(ln3) - 0.75 * ln3).abs() < 1e-6);
        assert_eq!((silu(0.0), silu(200.0), silu(-200.0)), (0.0, 200.0, 0.0));
        // torch.nn.functional.gelu(torch.tensor([1.0, -1.0, 2.5]), approximate="tanh")
        for (x, expected) in [(1.0, 0.841_192), (-1.0, -0.158_808), (2.5, 2.484_916)] {
            assert!((gelu_tanh(x) - expected).abs() < 1e-5, "{}", gelu_tanh(x));
        }
        assert_eq!(
            (gelu_tanh(0.0), gelu_tanh(200.0), gelu_tanh(-200.0)),
            (0.0, 200.0, 0.0)
        );

        let (mut gate, mut up) = (vec![0.0; 64], vec![0.0; 64]);
        (gate[0], gate[32]) = (1.0, 0.0);
        (up[0], up[32]) = (2.0, 5.0);
        let mut w = f32_matrix(&[("gate", 2, &gate), ("up", 2, &up)], 32);
        w.layout = MatrixLayout::GateUp;
        let mut x = vec![0.0; 64];
        (x[0], x[32]) = (ln3, 1.0);
        let mut out = [f32::NAN; 4];
        matmul_glu(&x, &w, GluActivation::Silu, 2, &mut out);
        let sigmoid1 = 1.0 / (1.0 + (-1.0f32).exp());
        for (got, expected) in out
            .iter()
            .zip([0.75 * ln3 * 2.0 * ln3, 0.0, 2.0 * sigmoid1, 0.0])
        {
            assert!((got - expected).abs() < 1e-5, "{out:?}");
        }
    }
}
