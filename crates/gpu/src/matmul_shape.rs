//! How a matmul is shared out between threads: the part of a kernel that is chosen per device.

use crate::device::AdapterReport;
use crate::tier::Tier;

/// The shape of the matmul kernels. `split` decides the order of summation and so the bits of a result, and so does
/// `tiled_prefill` for prompts; nothing else here does. None of it depends on how many rows a pass has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Activations are handed round a subgroup instead of loaded by every thread. Needs `split` 1 and subgroups of at
    /// least 8 lanes.
    pub broadcast: bool,
    /// Threads in a workgroup: a multiple of 8 · `split`.
    pub workgroup: u32,
    /// Outputs a thread computes (R); even, as a gate and an up make a pair.
    pub outputs: u32,
    /// Threads that share an output, each with every `split`-th block of its inputs. A power of two.
    pub split: u32,
    /// The most rows a thread carries (C); a pass of fewer takes 1, 2 or 4.
    pub most_rows: u32,
    /// Prompts run tiles in workgroup memory instead of row kernels in chunks.
    pub tiled_prefill: bool,
}

impl MatmulShape {
    /// For devices that compute on the CPU and have subgroups: a thread an output, weights decoded for eight rows
    /// (8 rows cost 2.2 passes of one there, 2.5 in two chunks of four).
    const fn software_subgroups(lanes: u32) -> Self {
        Self {
            broadcast: true,
            workgroup: lanes,
            outputs: 4,
            split: 1,
            most_rows: 8,
            tiled_prefill: false,
        }
    }

    /// For devices that compute on the CPU: more than four rows would spill.
    const SOFTWARE: Self = Self {
        broadcast: false,
        workgroup: 8,
        outputs: 4,
        split: 1,
        most_rows: 4,
        tiled_prefill: false,
    };

    /// For hardware: eight threads share an output, so that a few hundred outputs fill it and 64 threads load a contiguous
    /// kilobyte of weights.
    const HARDWARE: Self = Self {
        broadcast: false,
        workgroup: 64,
        outputs: 2,
        split: 8,
        most_rows: 4,
        tiled_prefill: true,
    };

    /// The shapes that devices of a tier take unless told otherwise.
    pub const fn all(tier: Tier) -> [Self; 2] {
        let software = if tier.subgroups {
            Self::software_subgroups(8)
        } else {
            Self::SOFTWARE
        };
        [software, Self::HARDWARE]
    }

    /// The shape of a device's class.
    pub fn of(report: &AdapterReport, tier: Tier) -> Self {
        match (report.software, tier.subgroups) {
            (true, true) => Self::software_subgroups(report.subgroup_size.0),
            (true, false) => Self::SOFTWARE,
            (false, _) => Self::HARDWARE,
        }
    }

    /// Rows a thread takes of a pass of `rows`: as few as hold them all.
    pub(crate) fn rows_a_thread(&self, rows: u32) -> u32 {
        let least = match rows {
            1 => 1,
            2 => 2,
            3 | 4 => 4,
            _ => self.most_rows,
        };
        least.min(self.most_rows)
    }

    /// What a kernel of this shape needs to hold, or why there can be none.
    pub(crate) fn check(&self, tier: Tier) -> Result<(), String> {
        let lanes = 8 * self.split;
        if !self.split.is_power_of_two()
            || self.workgroup == 0
            || !self.workgroup.is_multiple_of(lanes)
        {
            return Err(format!(
                "{self:?}: a workgroup is whole groups of {lanes} threads"
            ));
        }
        if self.outputs == 0 || !self.outputs.is_multiple_of(2) {
            return Err(format!("{self:?}: outputs are even"));
        }
        if ![1, 2, 4, 8].contains(&self.most_rows) {
            return Err(format!("{self:?}: rows are 1, 2, 4 or 8"));
        }
        if self.broadcast && (self.split != 1 || !tier.subgroups) {
            return Err(format!(
                "{self:?}: broadcasting needs subgroups and no split"
            ));
        }
        Ok(())
    }
}
