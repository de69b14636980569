//! Weights.

use foretoken_core::{Format, MatrixLayout, MatrixPart, OpsError, ROW_GROUP};

use crate::zeros::zeros;

/// A matrix as its files have it: bytes, dequantised a row at a time when used.
#[derive(Debug)]
pub struct CpuMatrix {
    pub(crate) parts: Vec<CpuMatrixPart>,
    pub(crate) layout: MatrixLayout,
    pub(crate) cols: usize,
}

/// One matrix of the file, `[rows, cols]`.
#[derive(Debug)]
pub(crate) struct CpuMatrixPart {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) rows: usize,
    row_bytes: usize,
    bytes: Vec<u8>,
}

impl CpuMatrix {
    pub(crate) fn new(parts: &[MatrixPart], layout: MatrixLayout) -> Result<Self, OpsError> {
        let first = parts.first().expect("matrix: no parts");
        assert!(
            parts.iter().all(|part| part.cols == first.cols),
            "matrix {}: parts differ in cols",
            first.name
        );
        assert!(
            first.cols.is_multiple_of(32),
            "matrix {}: {} cols, not a multiple of 32",
            first.name,
            first.cols
        );
        if layout == MatrixLayout::GateUp {
            assert!(
                parts.len() == 2 && parts[0].rows == parts[1].rows,
                "matrix {}: gate and up are two parts of one shape",
                first.name
            );
        }
        let parts = parts
            .iter()
            .map(CpuMatrixPart::new)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            parts,
            layout,
            cols: first.cols as usize,
        })
    }

    /// Outputs of [`MatrixLayout::Stacked`].
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Writes row `row`, counted through the parts, to `out`, `[cols]`.
    pub(crate) fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        let mut row_of_part = row;
        for part in &self.parts {
            if row_of_part < part.rows {
                return part.dequantize_row(row_of_part, out);
            }
            row_of_part -= part.rows;
        }
        panic!("matrix {} of {} rows: row {row}", self.name(), self.rows());
    }

    /// The first part's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.parts[0].name
    }
}

impl CpuMatrixPart {
    fn new(part: &MatrixPart) -> Result<Self, OpsError> {
        let row_bytes = part
            .format
            .row_bytes(u64::from(part.cols))
            .unwrap_or_else(|| {
                panic!(
                    "matrix {}: {} cols are no whole blocks of {}",
                    part.name,
                    part.cols,
                    part.format.name()
                )
            });
        let bytes = zeros(&part.name, row_bytes.saturating_mul(u64::from(part.rows)))?;
        // No larger than `bytes`, unless the part has no rows and so no use for it.
        let row_bytes = usize::try_from(row_bytes).unwrap_or(usize::MAX);
        Ok(Self {
            name: part.name.clone(),
            format: part.format,
            rows: part.rows as usize,
            row_bytes,
            bytes,
        })
    }

    /// See [`foretoken_core::Ops::write_rows`].
    pub(crate) fn write_rows(&mut self, first_row: u32, bytes: &[u8]) {
        let group = ROW_GROUP as usize;
        let first = first_row as usize;
        let rows = bytes.len() / self.row_bytes;
        assert!(
            bytes.len() == rows * self.row_bytes
                && first.is_multiple_of(group)
                && first + rows <= self.rows,
            "write_rows {}: {} bytes of rows of {} at row {first} of {}",
            self.name,
            bytes.len(),
            self.row_bytes,
            self.rows
        );
        assert!(
            rows.is_multiple_of(group) || first + rows == self.rows,
            "write_rows {}: rows {first}..{} end inside a group of {group}",
            self.name,
            first + rows
        );
        self.bytes[first * self.row_bytes..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes row `row` to `out`, `[cols]`.
    pub(crate) fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        self.format
            .dequantize(&self.bytes[row * self.row_bytes..][..self.row_bytes], out);
    }
}
