//! `matmul` and `matmul_add`.

use std::ops::Range;

use crate::{dot::dot, matrix::CpuMatrix, parallel::map_ranges};

/// Below this many multiplications starting threads costs more than it saves.
const WORTH_THREADS: usize = 1 << 17;

/// Calls `store(row of x, output, value)` with every value of `x · Wᵀ`; `x` is `[rows, cols]`.
pub(crate) fn matmul(
    x: &[f32],
    w: &CpuMatrix,
    threads: usize,
    mut store: impl FnMut(usize, usize, f32),
) {
    let rows = x.len() / w.cols;
    if rows == 0 {
        // The head, in a pass that wants no logits.
        return;
    }
    let products = |outputs: Range<usize>| {
        // [outputs, rows]: a row of weights is dequantised once for all rows of x.
        let mut values = Vec::with_capacity(outputs.len() * rows);
        let mut weights = vec![0.0; w.cols];
        for output in outputs {
            w.dequantize_row(output, &mut weights);
            values.extend(x.chunks_exact(w.cols).map(|x| dot(x, &weights)));
        }
        values
    };
    let threads = if x.len() * w.rows() < WORTH_THREADS {
        1
    } else {
        threads
    };
    for (outputs, values) in map_ranges(w.rows(), threads, products) {
        for (output, values) in outputs.zip(values.chunks_exact(rows)) {
            for (row, &value) in values.iter().enumerate() {
                store(row, output, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matmul;
    use crate::testing::{f32_matrix, noise};

    fn product(x: &[f32], w: &crate::CpuMatrix, threads: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / w.cols * w.rows()];
        matmul(x, w, threads, |row, output, value| {
            out[row * w.rows() + output] = value
        });
        out
    }

    #[test]
    fn stacked_parts_follow_one_another() {
        // One part of two rows, one of one row; x picks columns 0 and 31.
        let mut first = vec![0.0; 64];
        (first[0], first[31], first[32]) = (2.0, 3.0, 5.0);
        let mut second = vec![0.0; 32];
        second[31] = 7.0;
        let w = f32_matrix(&[("first", 2, &first), ("second", 1, &second)], 32);
        let mut x = vec![0.0; 64];
        (x[0], x[31], x[32]) = (1.0, 10.0, 100.0);
        assert_eq!(product(&x, &w, 1), [32.0, 5.0, 70.0, 200.0, 500.0, 0.0]);
    }

    #[test]
    fn equals_f64_and_does_not_depend_on_threads_or_rows() {
        let (rows, outputs, cols) = (5, 301, 160);
        let (x, weights) = (noise(1, rows * cols), noise(2, outputs * cols));
        let w = f32_matrix(&[("w", outputs as u32, &weights)], cols as u32);
        let got = product(&x, &w, 1);
        for (i, &value) in got.iter().enumerate() {
            let (row, output) = (i / outputs, i % outputs);
            let exact: f64 = (0..cols)
                .map(|c| f64::from(x[row * cols + c]) * f64::from(weights[output * cols + c]))
                .sum();
            assert!(
                (f64::from(value) - exact).abs() < 1e-5,
                "row {row}, output {output}"
            );
        }
        assert!(
            x.len() * outputs > super::WORTH_THREADS,
            "the test must reach the threads"
        );
        assert_eq!(product(&x, &w, 3), got);
        for row in 0..rows {
            let alone = product(&x[row * cols..(row + 1) * cols], &w, 2);
            assert_eq!(
                alone,
                got[row * outputs..(row + 1) * outputs],
                "row {row} alone"
            );
        }
    }
}
