//! The one inner loop.

/// Independent partial sums: enough for the compiler to keep several vector registers busy.
const LANES: usize = 16;

/// `Σ a[i] · b[i]` in one fixed order: sixteen interleaved partial sums, folded in halves, then the rest.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let mut sums = [0.0f32; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_blocks
        .remainder()
        .iter()
        .zip(b_blocks.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

#[cfg(test)]
mod tests {
    use super::dot;

    #[test]
    fn equals_a_sum_in_f64() {
        for len in [0usize, 1, 15, 16, 17, 64, 577] {
            let a: Vec<f32> = (0..len)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
                .collect();
            let b: Vec<f32> = (0..len)
                .map(|i| ((i * 61 % 89) as f32 - 44.0) / 44.0)
                .collect();
            let exact: f64 = a
                .iter()
                .zip(&b)
                .map(|(&x, &y)| f64::from(x) * f64::from(y))
                .sum();
            assert!((f64::from(dot(&a, &b)) - exact).abs() < 1e-5, "{len} terms");
        }
    }
}
