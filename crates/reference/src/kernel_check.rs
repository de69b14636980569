//! Running every kernel on known data and comparing it with the same op of [`CpuOps`]: what tells a device, driver or
//! browser that computes wrongly from one that does not, and names the kernel.

mod cases;
mod data;
mod runs;

use foretoken_core::{Format, Ops, OpsError};

use crate::CpuOps;
use cases::Case;

/// What one kernel did.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCheck {
    /// The op, its format where it reads weights, and the rows of its pass: `matmul[q4_1], 4 rows`.
    pub kernel: String,
    /// What is wrong with it; none: it ran twice with the same bits, and agrees with [`CpuOps`].
    pub fault: Option<KernelFault>,
}

/// How a kernel's results are wrong. Numbers are those of activations; tokens count as numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelFault {
    /// Two runs on the same data differ.
    #[error("value {index} is {first:e} in one run and {second:e} in the next")]
    Unstable {
        /// Which number of the result.
        index: usize,
        /// Of the first run.
        first: f32,
        /// Of the second.
        second: f32,
    },
    /// It differs from the definition by more than rounding.
    #[error("value {index} is {found:e} where the CPU has {expected:e}")]
    Wrong {
        /// Which number of the result.
        index: usize,
        /// Of the kernel.
        found: f32,
        /// Of [`CpuOps`].
        expected: f32,
    },
    /// It did not run.
    #[error("{reason}")]
    Failed {
        /// What the device said.
        reason: String,
    },
}

/// Runs every op on `ops` twice, for each of `formats` where it reads weights (f32 must be one), and for row counts that
/// take kernels of their own. `half_precision_cache` says whether the KV cache holds f16: attention is then compared as loosely as
/// that rounds. `report` is called after each kernel. Use ops that hold nothing else: sequence 0 and the sampling of it are overwritten.
///
/// # Errors
/// If the device is lost or out of memory; a kernel that fails by itself is reported, and the others follow.
pub async fn check_kernels<O: Ops>(
    ops: &mut O,
    formats: &[Format],
    half_precision_cache: bool,
    report: &mut dyn FnMut(KernelCheck),
) -> Result<(), OpsError> {
    let mut cpu = CpuOps::new();
    for case in cases::all(formats, half_precision_cache) {
        let expected = case.run(&mut cpu).await?;
        let mut runs = Vec::new();
        for _ in 0..2 {
            runs.push(case.run(ops).await);
        }
        if runs.iter().any(Result::is_err) {
            // What a device says late of this kernel is not said of the next: a pipeline, then a pass that lacks it.
            for _ in 0..4 {
                if ops.flush().await.is_ok() {
                    break;
                }
            }
        }
        let fault = match (runs.swap_remove(0), runs.swap_remove(0)) {
            (Ok(first), Ok(second)) => compare(&case, &first, &second, &expected),
            (Err(error), _) | (_, Err(error)) => match error {
                OpsError::Kernel { .. } => Some(KernelFault::Failed {
                    reason: error.to_string(),
                }),
                other => return Err(other),
            },
        };
        report(KernelCheck {
            kernel: case.name,
            fault,
        });
    }
    Ok(())
}

fn compare(case: &Case, first: &[f32], second: &[f32], expected: &[f32]) -> Option<KernelFault> {
    if first.len() != expected.len() || second.len() != expected.len() {
        let lengths = [first.len(), second.len(), expected.len()];
        return Some(KernelFault::Failed {
            reason: format!("{lengths:?} values came of it, twice and on the CPU"),
        });
    }
    let scale = expected.iter().fold(1.0f32, |most, v| most.max(v.abs()));
    for index in 0..expected.len() {
        let (first, second, expected) = (first[index], second[index], expected[index]);
        if first.to_bits() != second.to_bits() {
            return Some(KernelFault::Unstable {
                index,
                first,
                second,
            });
        }
        // NaN is near nothing.
        let near = (first - expected).abs() <= case.tolerance * scale;
        if !near {
            return Some(KernelFault::Wrong {
                index,
                found: first,
                expected,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FLOATS;

    #[test]
    fn what_differs_is_said() {
        let case = cases::all(&[FLOATS], false).remove(0);
        let good = [1.0, 2.0];
        assert_eq!(compare(&case, &good, &good, &good), None);
        let other = [1.0, 2.5];
        let fault = compare(&case, &good, &other, &good).unwrap();
        assert_eq!(
            fault.to_string(),
            "value 1 is 2e0 in one run and 2.5e0 in the next"
        );
        let fault = compare(&case, &other, &other, &good).unwrap();
        assert_eq!(fault.to_string(), "value 1 is 2.5e0 where the CPU has 2e0");
        let none = [1.0, f32::NAN];
        assert!(matches!(
            compare(&case, &none, &none, &good),
            Some(KernelFault::Wrong { index: 1, .. })
        ));
        assert!(matches!(
            compare(&case, &good[..1], &good[..1], &good),
            Some(KernelFault::Failed { .. })
        ));
    }
}
