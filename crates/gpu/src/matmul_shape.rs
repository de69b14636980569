//! How a matmul is shared out between threads: the part of a kernel that is chosen per device.

use std::fmt;
use std::str::FromStr;

use foretoken_core::OpsError;

use crate::device::{AdapterReport, NARROW_LANES};
use crate::tier::Tier;

/// Threads in a workgroup at most, on every device.
const MAX_WORKGROUP: u32 = 256;

/// The shape of the matmul kernels. `split` decides the order of summation and so the bits of a result, and so does
/// `tiled_prefill` for prompts; nothing else here does. None of it depends on how many rows a pass has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Activations are handed round a subgroup instead of loaded by every thread. Needs `split` 1 and subgroups of at
    /// least 4 lanes.
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

    /// For devices that compute on the CPU and have subgroups of four lanes, as SwiftShader: more outputs share what is
    /// loaded, fewer rows stay in registers.
    const SOFTWARE_NARROW: Self = Self {
        outputs: 8,
        most_rows: 4,
        ..Self::software_subgroups(8)
    };

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

    /// What the tuner measures beside the shape of a device's class: shapes for devices that compute on the CPU, or for
    /// hardware. Few, as each is compiled while a model loads, and every one of them by the compile tests.
    pub fn candidates(software: bool, tier: Tier) -> Vec<Self> {
        let mut shapes = Vec::new();
        if !software {
            let hardware = Self::HARDWARE;
            shapes.extend([
                Self {
                    workgroup: 128,
                    ..hardware
                },
                Self {
                    outputs: 4,
                    ..hardware
                },
                // More threads an output: fills a device with fewer outputs. Fewer: wastes less on adding up.
                Self {
                    workgroup: 128,
                    split: 16,
                    ..hardware
                },
                Self {
                    split: 2,
                    ..hardware
                },
            ]);
            if tier.subgroups {
                shapes.push(Self {
                    broadcast: true,
                    split: 1,
                    ..hardware
                });
            }
        } else if tier.subgroups {
            let broadcast = Self::software_subgroups(8);
            shapes.extend([
                broadcast,
                Self {
                    workgroup: 16,
                    ..broadcast
                },
                Self {
                    most_rows: 4,
                    ..broadcast
                },
                Self {
                    outputs: 8,
                    most_rows: 4,
                    ..broadcast
                },
                Self::SOFTWARE,
            ]);
        } else {
            shapes.push(Self {
                outputs: 8,
                ..Self::SOFTWARE
            });
        }
        if software {
            shapes.push(Self {
                tiled_prefill: false,
                ..Self::HARDWARE
            });
        }
        shapes
    }

    /// The same where subgroups are sure of four lanes only.
    pub fn narrow_candidates(software: bool) -> Vec<Self> {
        if software {
            let narrow = Self::SOFTWARE_NARROW;
            let shapes = [
                narrow,
                Self {
                    outputs: 4,
                    most_rows: 8,
                    ..narrow
                },
                Self {
                    workgroup: 16,
                    ..narrow
                },
                Self::SOFTWARE,
            ];
            return shapes.to_vec();
        }
        let subgroups = Tier {
            subgroups: true,
            f16: false,
        };
        Self::candidates(false, subgroups)
    }

    /// Every shape that a device may take by its class or by tuning, without regard to the prefill family: that of its
    /// class first.
    pub fn choices(report: &AdapterReport, tier: Tier) -> Vec<Self> {
        let mut shapes = vec![Self::of(report, tier)];
        let candidates = if tier.subgroups && report.broadcast_lanes() == NARROW_LANES {
            Self::narrow_candidates(report.software)
        } else {
            Self::candidates(report.software, tier)
        };
        for shape in candidates {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        shapes
    }

    /// Whether tuning may give a device this shape.
    pub fn is_choice(&self, report: &AdapterReport, tier: Tier) -> bool {
        let same = |choice: &Self| {
            Self {
                tiled_prefill: self.tiled_prefill,
                ..*choice
            } == *self
        };
        Self::choices(report, tier).iter().any(same)
    }

    /// The shape of a device's class.
    pub fn of(report: &AdapterReport, tier: Tier) -> Self {
        match (report.software, tier.subgroups) {
            (true, true) if report.broadcast_lanes() == NARROW_LANES => Self::SOFTWARE_NARROW,
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
        let lanes = self.split.saturating_mul(8);
        if !self.split.is_power_of_two()
            || self.split > MAX_WORKGROUP
            || self.workgroup == 0
            || self.workgroup > MAX_WORKGROUP
            || !self.workgroup.is_multiple_of(lanes)
        {
            return Err(format!(
                "{self}: a workgroup is whole groups of {lanes} threads, {MAX_WORKGROUP} at most"
            ));
        }
        if self.outputs == 0 || !self.outputs.is_multiple_of(2) {
            return Err(format!("{self}: outputs are even"));
        }
        if ![1, 2, 4, 8].contains(&self.most_rows) {
            return Err(format!("{self}: rows are 1, 2, 4 or 8"));
        }
        if self.broadcast && (self.split != 1 || !tier.subgroups) {
            return Err(format!("{self}: broadcasting needs subgroups and no split"));
        }
        Ok(())
    }
}

/// The short form, as `split=1,wg=8,R=4,C=8,bcast,rows`: what is kept, shown and named in answers.
impl fmt::Display for MatmulShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "split={},wg={},R={},C={},{},{}",
            self.split,
            self.workgroup,
            self.outputs,
            self.most_rows,
            if self.broadcast { "bcast" } else { "direct" },
            if self.tiled_prefill { "tiles" } else { "rows" },
        )
    }
}

impl FromStr for MatmulShape {
    type Err = OpsError;

    /// Reads the short form back, and nothing but it.
    fn from_str(text: &str) -> Result<Self, OpsError> {
        let parse = || {
            let parts: Vec<&str> = text.split(',').collect();
            let [split, workgroup, outputs, most_rows, broadcast, prefill] = parts[..] else {
                return None;
            };
            let number = |part: &str, name| part.strip_prefix(name)?.parse().ok();
            let flag = |part: &str, on, off| (part == on || part == off).then_some(part == on);
            Some(Self {
                split: number(split, "split=")?,
                workgroup: number(workgroup, "wg=")?,
                outputs: number(outputs, "R=")?,
                most_rows: number(most_rows, "C=")?,
                broadcast: flag(broadcast, "bcast", "direct")?,
                tiled_prefill: flag(prefill, "tiles", "rows")?,
            })
        };
        parse()
            .filter(|shape| shape.to_string() == text)
            .ok_or_else(|| OpsError::Unavailable {
                reason: format!(
                    "no matmul shape {text:?}; one reads split=1,wg=8,R=4,C=8,bcast,rows"
                ),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every shape that some device may take.
    fn every() -> impl Iterator<Item = (Tier, MatmulShape)> {
        Tier::ALL.into_iter().flat_map(|tier| {
            let tuned = [true, false].map(|software| MatmulShape::candidates(software, tier));
            let narrow = [true, false].map(MatmulShape::narrow_candidates);
            let narrow = narrow.into_iter().flatten().filter(move |_| tier.subgroups);
            MatmulShape::all(tier)
                .into_iter()
                .chain(tuned.into_iter().flatten())
                .chain(narrow)
                .map(move |shape| (tier, shape))
        })
    }

    #[test]
    fn every_shape_holds_and_reads_back() {
        for (tier, shape) in every() {
            assert_eq!(shape.check(tier), Ok(()), "{tier}");
            assert!(
                shape.outputs * shape.most_rows <= 32,
                "{shape}: at most 32 accumulators a thread"
            );
            assert_eq!(shape.to_string().parse::<MatmulShape>().unwrap(), shape);
        }
    }

    #[test]
    fn what_is_no_short_form_is_refused() {
        for text in [
            "",
            "split=1",
            "split=1,wg=8,R=4,C=8,bcast",
            "split=1,wg=8,R=4,C=8,bcast,rows,rows",
            "wg=8,split=1,R=4,C=8,bcast,rows",
            "split=1,wg=8,R=4,C=8,bcast,columns",
            "split=1,wg=+8,R=4,C=8,bcast,rows",
            "split=1,wg=99999999999,R=4,C=8,bcast,rows",
            " split=1,wg=8,R=4,C=8,bcast,rows",
        ] {
            let error = text.parse::<MatmulShape>().expect_err(text);
            assert!(error.to_string().contains("split="), "{error}");
        }
    }
}
