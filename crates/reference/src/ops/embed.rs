//! `embed`: rows of the embedding table.

use foretoken_core::TokenId;

use crate::matrix::CpuMatrix;

/// `out[i] = table[tokens[i]] · scale`; `out` is `[rows, hidden]`.
pub(crate) fn embed(table: &CpuMatrix, tokens: &[TokenId], scale: f32, out: &mut [f32]) {
    for (&token, out) in tokens.iter().zip(out.chunks_exact_mut(table.cols)) {
        assert!(
            (token as usize) < table.rows(),
            "embed: token {token} of a vocabulary of {}",
            table.rows()
        );
        table.dequantize_row(token as usize, out);
        for value in out {
            *value *= scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::f32_matrix;

    #[test]
    fn takes_the_rows_named() {
        let values: Vec<f32> = (0..4 * 32).map(|i| i as f32).collect();
        let table = f32_matrix(&[("table", 4, &values)], 32);
        let mut out = vec![0.0; 3 * 32];
        super::embed(&table, &[3, 0, 3], 2.0, &mut out);
        let row = |r: usize| {
            (r * 32..(r + 1) * 32)
                .map(|i| 2.0 * i as f32)
                .collect::<Vec<_>>()
        };
        assert_eq!(out, [row(3), row(0), row(3)].concat());
    }

    #[test]
    #[should_panic(expected = "token 4 of a vocabulary of 4")]
    fn a_token_beyond_the_table_asserts() {
        let table = f32_matrix(&[("table", 4, &[0.0; 4 * 32])], 32);
        super::embed(&table, &[4], 1.0, &mut [0.0; 32]);
    }
}
