//! `rms_norm`.

/// `out = x / sqrt(mean(x²) + eps) · weight`; `x` and `out` are `[rows, weight.len()]`.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let cols = weight.len();
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
        let mean = crate::dot::dot(x, x) / cols as f32;
        let factor = 1.0 / (mean + eps).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * factor * weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rms_norm;

    #[test]
    fn hand_values() {
        // mean(x²) = (9 + 16) / 2 = 12.5; with eps 0.5 the divisor is sqrt(13).
        let mut out = [0.0; 4];
        rms_norm(&[3.0, 4.0, 0.0, 0.0], &[1.0, 2.0], 0.5, &mut out);
        let root = 13.0f32.sqrt();
        for (got, expected) in out.iter().zip([3.0 / root, 8.0 / root, 0.0, 0.0]) {
            assert!((got - expected).abs() < 1e-6, "{out:?}");
        }
    }
}
