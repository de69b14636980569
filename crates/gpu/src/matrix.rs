//! Weights on the device: repacked at load, interleaved by groups of eight outputs, split where a binding ends.
//!
//! A [`Slab`] is one contiguous run of outputs in one format: quants `[groups, units, vec4s, 8 lanes]` of
//! `vec4<u32>` and scales `[groups, units, words, 8 lanes]`. The layout depends on neither the tile nor the row
//! count, so both can be tuned without repacking. A stacked matrix has a slab per format, more where 128 MiB end
//! one; a gate-and-up matrix is one slab of two halves where both share a format, else a list of each.

use bytemuck::cast_slice;
use foretoken_core::{Format, MatrixLayout, MatrixPart, OpsError, ROW_GROUP};

use crate::recording::{Buffer, Recorder};

/// Outputs in one format, consecutive on the device.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) format: Format,
    /// Where its outputs begin in the result's columns.
    pub(crate) first_output: u32,
    /// Its outputs; of one half, where paired.
    pub(crate) outputs: u32,
    /// Whether a second half (up) follows the first (gate).
    pub(crate) paired: bool,
    pub(crate) quants: Buffer,
    pub(crate) scales: Buffer,
    /// Bytes of both.
    pub(crate) bytes: u64,
}

impl Slab {
    /// Groups of eight outputs, of one half.
    pub(crate) fn groups(&self) -> u32 {
        self.outputs.div_ceil(ROW_GROUP)
    }
}

/// Where some rows of a part went.
#[derive(Debug)]
struct Place {
    part: usize,
    first_row: u32,
    rows: u32,
    slab: usize,
    first_group: u32,
}

/// A matrix of [`foretoken_core::Ops`] on the device.
#[derive(Debug)]
pub struct GpuMatrix {
    pub(crate) cols: u32,
    pub(crate) outputs: u32,
    pub(crate) layout: MatrixLayout,
    /// Slabs of a stacked matrix, or of a gate that could not be paired with its up.
    pub(crate) slabs: Vec<Slab>,
    /// The up slabs of such a matrix.
    pub(crate) up_slabs: Vec<Slab>,
    places: Vec<Place>,
    formats: Vec<Format>,
}

/// Bytes of one group of eight outputs: quants and scales.
fn group_bytes(format: Format, cols: u32) -> (u64, u64) {
    let units = u64::from(cols) / format.unit_len() as u64;
    let lanes = u64::from(ROW_GROUP);
    (
        units * lanes * 16 * format.quant_vec4s() as u64,
        units * lanes * 4 * format.scale_words() as u64,
    )
}

impl GpuMatrix {
    pub(crate) fn new(
        recorder: &mut Recorder,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<Self, OpsError> {
        let cols = parts[0].cols;
        assert!(
            parts.iter().all(|part| part.cols == cols),
            "parts of one matrix share their inputs"
        );
        for part in parts {
            let whole = (cols as usize).is_multiple_of(part.format.unit_len());
            assert!(whole, "{}: inputs are whole blocks", part.name);
        }
        let mut matrix = Self {
            cols,
            outputs: 0,
            layout,
            slabs: Vec::new(),
            up_slabs: Vec::new(),
            places: Vec::new(),
            formats: parts.iter().map(|part| part.format).collect(),
        };
        match layout {
            MatrixLayout::Stacked => {
                matrix.slabs = matrix.stack(recorder, parts, 0)?;
                matrix.outputs = parts.iter().map(|part| part.rows).sum();
            }
            MatrixLayout::GateUp => {
                let [gate, up] = parts else {
                    panic!("a gate-and-up matrix has two parts")
                };
                assert_eq!(gate.rows, up.rows, "gate and up have one shape");
                matrix.outputs = gate.rows;
                let (quants, _) = group_bytes(gate.format, cols);
                let fits = 2 * quants * u64::from(gate.rows.div_ceil(ROW_GROUP))
                    <= recorder.gpu.max_binding_bytes;
                if gate.format == up.format && fits {
                    let slab = Slab::new(recorder, gate, 0, gate.rows, true, cols)?;
                    let groups = slab.groups();
                    for part in 0..2 {
                        let first_group = if part == 0 { 0 } else { groups };
                        matrix.places.push(Place {
                            part,
                            first_row: 0,
                            rows: gate.rows,
                            slab: 0,
                            first_group,
                        });
                    }
                    matrix.slabs.push(slab);
                } else {
                    matrix.slabs = matrix.stack(recorder, &parts[..1], 0)?;
                    matrix.up_slabs = matrix.stack(recorder, &parts[1..], 1)?;
                }
            }
        }
        Ok(matrix)
    }

    /// Lays parts one after another: neighbours of one format share a slab where the seam falls between groups.
    fn stack(
        &mut self,
        recorder: &mut Recorder,
        parts: &[MatrixPart],
        first_part: usize,
    ) -> Result<Vec<Slab>, OpsError> {
        // (format, name, first output, outputs) of each slab to make.
        let mut plans: Vec<(&MatrixPart, u32, u32)> = Vec::new();
        let mut output = 0;
        for (index, part) in (first_part..).zip(parts) {
            let (quants, _) = group_bytes(part.format, self.cols);
            let most_groups = (recorder.gpu.max_binding_bytes / quants).max(1);
            let most_rows =
                u32::try_from(most_groups * u64::from(ROW_GROUP)).unwrap_or(u32::MAX / 8 * 8);
            let mut row = 0;
            while row < part.rows {
                let joins = plans.last().is_some_and(|(last, _, outputs)| {
                    last.format == part.format && outputs % ROW_GROUP == 0 && *outputs < most_rows
                });
                if !joins {
                    plans.push((part, output, 0));
                }
                let slab = plans.len() - 1;
                let (_, _, outputs) = &mut plans[slab];
                let rows = (part.rows - row).min(most_rows - *outputs);
                let first_group = *outputs / ROW_GROUP;
                self.places.push(Place {
                    part: index,
                    first_row: row,
                    rows,
                    slab,
                    first_group,
                });
                *outputs += rows;
                row += rows;
                output += rows;
            }
        }
        plans
            .into_iter()
            .map(|(part, first, outputs)| {
                Slab::new(recorder, part, first, outputs, false, self.cols)
            })
            .collect()
    }

    pub(crate) fn write_rows(
        &self,
        recorder: &mut Recorder,
        part: usize,
        first_row: u32,
        bytes: &[u8],
    ) {
        let format = self.formats[part];
        let row_bytes = format
            .row_bytes(u64::from(self.cols))
            .expect("columns are whole blocks") as usize;
        assert_eq!(bytes.len() % row_bytes, 0, "whole rows");
        assert_eq!(first_row % ROW_GROUP, 0, "rows are written in whole groups");
        let rows = (bytes.len() / row_bytes) as u32;
        for place in self.places.iter().filter(|place| place.part == part) {
            let from = first_row.max(place.first_row);
            let to = (first_row + rows).min(place.first_row + place.rows);
            if from >= to {
                continue;
            }
            let slabs = if part == 1 && !self.up_slabs.is_empty() {
                &self.up_slabs
            } else {
                &self.slabs
            };
            let slab = &slabs[place.slab];
            let group = place.first_group + (from - place.first_row) / ROW_GROUP;
            let range =
                (from - first_row) as usize * row_bytes..(to - first_row) as usize * row_bytes;
            let (quants, scales) = interleave(format, self.cols, row_bytes, &bytes[range]);
            let (quant_bytes, scale_bytes) = group_bytes(format, self.cols);
            recorder.write(
                &slab.quants,
                u64::from(group) * quant_bytes,
                cast_slice(&quants),
            );
            if !scales.is_empty() {
                recorder.write(
                    &slab.scales,
                    u64::from(group) * scale_bytes,
                    cast_slice(&scales),
                );
            }
        }
    }
}

impl Slab {
    fn new(
        recorder: &mut Recorder,
        part: &MatrixPart,
        first_output: u32,
        outputs: u32,
        paired: bool,
        cols: u32,
    ) -> Result<Self, OpsError> {
        let groups = u64::from(outputs.div_ceil(ROW_GROUP)) * if paired { 2 } else { 1 };
        let (quant_bytes, scale_bytes) = group_bytes(part.format, cols);
        let quants = recorder.buffer(&part.name, groups * quant_bytes)?;
        let scales = if scale_bytes == 0 {
            recorder.nothing().clone()
        } else {
            recorder.buffer(&part.name, groups * scale_bytes)?
        };
        let bytes = groups * (quant_bytes + scale_bytes);
        if recorder.plan.on {
            recorder.plan.weights = recorder.plan.weights.saturating_add(bytes);
        } else {
            recorder.counters.weight_bytes += bytes;
        }
        Ok(Self {
            format: part.format,
            first_output,
            outputs,
            paired,
            quants,
            scales,
            bytes,
        })
    }
}

/// File rows → device words, the last group padded with zeros: quants and scales.
fn interleave(format: Format, cols: u32, row_bytes: usize, bytes: &[u8]) -> (Vec<u32>, Vec<u32>) {
    let lanes = ROW_GROUP as usize;
    let unit_len = format.unit_len();
    let units = cols as usize / unit_len;
    let (vec4s, words) = (format.quant_vec4s(), format.scale_words());
    let rows = bytes.len() / row_bytes;
    let groups = rows.div_ceil(lanes);
    let mut quants = vec![0; groups * units * vec4s * lanes * 4];
    let mut scales = vec![0; groups * units * words * lanes];
    let unit_bytes = unit_len / format.block_len() * format.block_bytes();
    let mut unit_quants = vec![0; vec4s * 4];
    let mut unit_scales = vec![0; words];
    for (row, row_data) in bytes.chunks_exact(row_bytes).enumerate() {
        let (group, lane) = (row / lanes, row % lanes);
        for (index, data) in row_data.chunks_exact(unit_bytes).enumerate() {
            format.repack(data, &mut unit_quants, &mut unit_scales);
            let unit = group * units + index;
            for (v, from) in unit_quants.chunks_exact(4).enumerate() {
                let to = ((unit * vec4s + v) * lanes + lane) * 4;
                quants[to..to + 4].copy_from_slice(from);
            }
            for (w, from) in unit_scales.iter().enumerate() {
                scales[(unit * words + w) * lanes + lane] = *from;
            }
        }
    }
    (quants, scales)
}
