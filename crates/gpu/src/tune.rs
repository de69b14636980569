//! Which shape of the matmul kernels is fastest on a device, measured on matrices like the model's.
//!
//! What changes no bit of a result is chosen freely: workgroup, outputs and rows a thread, the way to the
//! activations. What changes bits, the order of summation and the prefill family, stays that of the device's class
//! unless another is at least a fifth faster. Which of the two a candidate is, is not believed but looked at: its
//! results are compared with those of the class.

use foretoken_core::{
    Clock, Format, MAX_PREFILL_ROWS, MatrixLayout, MatrixPart, Ops, OpsError, Phase, Row, RowSet,
};

use crate::gpu_ops::{GpuActivation, GpuOps};
use crate::matmul_shape::MatmulShape;
use crate::matrix::GpuMatrix;
use crate::recording::Copy;

/// A kind of matrix to measure on: weights `[rows, cols]` in one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunedMatrix {
    /// How its weights are stored.
    pub format: Format,
    /// Its outputs.
    pub rows: u32,
    /// Its inputs.
    pub cols: u32,
}

/// What was measured of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The candidate.
    pub shape: MatmulShape,
    /// Milliseconds of a pass over the matrices, at each of [`Measured::ROWS`].
    pub ms: [f64; 3],
    /// Whether its results are those of the device's class, bit for bit.
    pub same_bits: bool,
}

impl Measured {
    /// Row counts that are timed: a plain step, a verify step of few drafts, one of many.
    pub const ROWS: [usize; 3] = [1, 4, 8];

    /// Of ten steps: plain decoding, and steps in which nothing is drafted, have one row; with drafts, short ones are
    /// the more frequent, as acceptance falls with every further position. A sum of times, not of ratios, so that a row
    /// count weighs as much as it takes.
    const STEPS: [f64; 3] = [5.0, 3.0, 2.0];

    /// Milliseconds of ten steps.
    pub fn cost(&self) -> f64 {
        self.ms.iter().zip(Self::STEPS).map(|(ms, n)| ms * n).sum()
    }
}

/// What tuning found.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The shape to take.
    pub shape: MatmulShape,
    /// What was measured for it, the shape of the device's class first. Empty where there was no time to measure.
    pub measured: Vec<Measured>,
}

/// Tuning ends about here, whatever is left to measure.
const MOST_MS: f64 = 1800.0;
/// From here on no further candidate is compiled: the rest of the time is for measuring those there are.
const MOST_COMPILING_MS: f64 = 900.0;
/// Rounds in which every candidate is timed at every row count; the shortest counts.
const ROUNDS: usize = 8;
/// Of which a choice needs at least.
const LEAST_ROUNDS: usize = 3;
/// A submission must take this long to be timed, so that submitting it and waiting for it counts for little.
const LEAST_MS: f64 = 2.0;
/// Passes of a submission at most, whatever a coarse clock says.
const MOST_PASSES: u32 = 1 << 9;
/// A candidate this much slower than the fastest is not timed again, after so many rounds: one look may have met
/// something else at work.
const HOPELESS: f64 = 1.5;
const HOPEFUL_ROUNDS: usize = 2;
/// By how much a change of bits has to be faster.
const WORTH_OTHER_BITS: f64 = 1.2;
/// By how much anything has to be faster than what the class has: two looks at one kernel differ by as much.
const WORTH_A_CHANGE: f64 = 1.05;
/// Results further apart than this, of the largest, are not those of the same sums in another order.
const SAME_SUMS: f32 = 1e-3;
/// A forged matrix ends here: more weights take longer and teach nothing.
const MOST_MATRIX_BYTES: u64 = 32 << 20;
/// Longest row of weights, and most outputs, of a matrix that is measured.
const MOST_COLS: u32 = 1 << 15;
const MOST_OUTPUTS: u32 = 1 << 16;

/// The shape to take of those measured, the class's first: the fastest of those with its bits, unless another is a fifth
/// faster than that one, at one row and at four.
fn choose(measured: &[Measured]) -> MatmulShape {
    let class = &measured[0];
    let fastest = |of: &mut dyn Iterator<Item = &Measured>| {
        of.min_by(|a, b| a.cost().total_cmp(&b.cost())).copied()
    };
    let free = fastest(&mut measured.iter().filter(|m| m.same_bits))
        .filter(|free| free.cost() * WORTH_A_CHANGE <= class.cost())
        .unwrap_or(*class);
    let pays = |other: &&Measured| {
        let faster = |i: usize| other.ms[i] * WORTH_OTHER_BITS <= free.ms[i];
        !other.same_bits && faster(0) && faster(1) && other.cost() <= free.cost()
    };
    fastest(&mut measured.iter().filter(pays))
        .unwrap_or(free)
        .shape
}

/// Whether prompts should run the other prefill family, given milliseconds of the class's and of the other.
fn other_family_pays(class_ms: f64, other_ms: f64) -> bool {
    other_ms * WORTH_OTHER_BITS <= class_ms
}

impl GpuOps {
    /// Measures which shape of the matmul kernels suits this device, on forged matrices of these kinds, in one to two
    /// seconds: when the time is over, what was not measured is not taken, and a device too slow to measure keeps the
    /// shape of its class. Changes nothing here: [`GpuOps::set_matmul_shape`] does. What is compiled and allocated for
    /// it is freed again, and nothing of it is in [`GpuOps::counters`].
    ///
    /// # Errors
    /// Whatever the device says.
    pub async fn tune(&self, matrices: &[TunedMatrix]) -> Result<Tuning, OpsError> {
        let gpu = self.recorder.gpu.clone();
        let choices = MatmulShape::choices(&gpu.report, gpu.tier);
        let class = choices[0];
        let forgeable = |m: &&TunedMatrix| {
            m.rows > 0
                && (1..=MOST_COLS).contains(&m.cols)
                && (m.cols as usize).is_multiple_of(m.format.unit_len())
        };
        let matrices: Vec<TunedMatrix> = matrices.iter().filter(forgeable).copied().collect();
        if matrices.is_empty() {
            return Ok(Tuning {
                shape: class,
                measured: Vec::new(),
            });
        }
        let own = GpuOps::on(gpu.clone(), self.recorder.overrides().clone(), class)?;
        let mut tuner = Tuner::new(own, &matrices)?;
        let measured = tuner.measure(&choices).await?;
        let mut shape = class;
        if !measured.is_empty() {
            shape = choose(&measured);
            if tuner.clock.elapsed_ms() < MOST_MS {
                shape.tiled_prefill = tuner.prefill(shape).await?;
            }
        }
        drop(tuner);
        // The device lets go of buffers when it is next asked how far it is.
        gpu.wait()?;
        gpu.check()?;
        Ok(Tuning { shape, measured })
    }

    /// Takes a shape that tuning chose. Before loading: what is compiled for another shape stays allocated.
    ///
    /// # Errors
    /// If it is none that this device may take.
    pub fn set_matmul_shape(&mut self, shape: MatmulShape) -> Result<(), OpsError> {
        if !shape.is_choice(self.adapter(), self.tier()) {
            return Err(OpsError::Unavailable {
                reason: format!(
                    "{} on tier {} has no matmul shape {shape}: tune again",
                    self.adapter().name,
                    self.tier()
                ),
            });
        }
        self.shape = shape;
        Ok(())
    }
}

/// A forged matrix with its input and output.
struct Forged {
    weights: GpuMatrix,
    input: GpuActivation,
    output: GpuActivation,
}

/// Ops of its own on the device, with forged matrices: everything it creates ends with it.
struct Tuner {
    ops: GpuOps,
    matrices: Vec<Forged>,
    readback: wgpu::Buffer,
    clock: Clock,
}

/// Words that are numbers of moderate size in every format, as quants, scales and f32: in each half, the exponent of an
/// f16 between 0.5 and 2, any sign, any fraction. No infinities, and no denormals, which processors are slow at.
struct Words(u32);

impl Iterator for Words {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        Some(self.0 & 0x87ff_87ff | 0x3800_3800)
    }
}

impl Tuner {
    fn new(mut ops: GpuOps, matrices: &[TunedMatrix]) -> Result<Self, OpsError> {
        let mut words = Words(0x9e37_79b9);
        let mut forged = Vec::new();
        for matrix in matrices {
            let row_bytes = u64::from(matrix.cols) / matrix.format.unit_len() as u64
                * (16 * matrix.format.quant_vec4s() + 4 * matrix.format.scale_words()) as u64;
            let most = u32::try_from(MOST_MATRIX_BYTES / row_bytes).unwrap_or(u32::MAX);
            let part = MatrixPart {
                name: "tuning weights".to_owned(),
                format: matrix.format,
                rows: matrix.rows.min(most).clamp(1, MOST_OUTPUTS),
                cols: matrix.cols,
            };
            let weights = ops.matrix(std::slice::from_ref(&part), MatrixLayout::Stacked)?;
            let input = ops.activation("tuning input", part.cols, RowSet::All)?;
            let output = ops.activation("tuning output", part.rows, RowSet::All)?;
            let slabs = weights.slabs.iter();
            for buffer in slabs
                .flat_map(|slab| [&slab.quants, &slab.scales])
                .chain([&input.buffer])
            {
                const CHUNK: u64 = 1 << 20;
                let bytes = buffer.raw.size();
                for offset in (0..bytes).step_by(CHUNK as usize) {
                    let count = (bytes - offset).min(CHUNK) / 4;
                    let chunk: Vec<u32> = words.by_ref().take(count as usize).collect();
                    ops.recorder
                        .write(buffer, offset, bytemuck::cast_slice(&chunk));
                }
            }
            forged.push(Forged {
                weights,
                input,
                output,
            });
        }
        let readback = ops.recorder.readback_buffer(16);
        Ok(Self {
            ops,
            matrices: forged,
            readback,
            clock: Clock::start(),
        })
    }

    /// Measures what there is time for; the first of `choices` is the class's. Empty if there was no time to compare.
    async fn measure(&mut self, choices: &[MatmulShape]) -> Result<Vec<Measured>, OpsError> {
        let class_results = self.results(choices[0]).await?;
        let mut measured = vec![Measured {
            shape: choices[0],
            ms: [f64::INFINITY; 3],
            same_bits: true,
        }];
        for shape in &choices[1..] {
            if self.clock.elapsed_ms() > MOST_COMPILING_MS {
                break;
            }
            let results = match self.results(*shape).await {
                Ok(results) => results,
                // A candidate that this driver cannot have is none. What else it says of it belongs to it too.
                Err(OpsError::Kernel { .. } | OpsError::OutOfMemory { .. }) => {
                    self.ops.recorder.gpu.wait()?;
                    self.ops.recorder.gpu.forget();
                    continue;
                }
                Err(error) => return Err(error),
            };
            if results.are_sound(&class_results) {
                measured.push(Measured {
                    shape: *shape,
                    ms: [f64::INFINITY; 3],
                    same_bits: results.are_the_bits_of(&class_results),
                });
            }
        }
        let mut passes = [1; 3];
        for (passes, rows) in passes.iter_mut().zip(Measured::ROWS) {
            *passes = self.passes(Phase::Rows, choices[0], rows).await?;
        }
        let mut rounds = 0;
        'rounds: while rounds < ROUNDS {
            let fastest = measured.iter().map(Measured::cost).fold(f64::NAN, f64::min);
            for (i, candidate) in measured.iter_mut().enumerate() {
                if self.clock.elapsed_ms() > MOST_MS {
                    break 'rounds;
                }
                if i > 0 && candidate.cost() > HOPELESS * fastest && rounds >= HOPEFUL_ROUNDS {
                    continue;
                }
                for ((ms, passes), rows) in candidate.ms.iter_mut().zip(passes).zip(Measured::ROWS)
                {
                    let time = self
                        .time(Phase::Rows, candidate.shape, rows, passes)
                        .await?;
                    *ms = ms.min(time);
                }
            }
            rounds += 1;
        }
        if rounds < LEAST_ROUNDS {
            measured.clear();
        }
        Ok(measured)
    }

    /// Whether prompts take tiles with this shape: what its class has, unless the other family is a fifth faster.
    async fn prefill(&mut self, shape: MatmulShape) -> Result<bool, OpsError> {
        let other = MatmulShape {
            tiled_prefill: !shape.tiled_prefill,
            ..shape
        };
        let passes = self.passes(Phase::Prefill, shape, MAX_PREFILL_ROWS).await?;
        let mut shortest = [f64::INFINITY; 2];
        // The other is compiled before it is timed.
        self.time(Phase::Prefill, other, MAX_PREFILL_ROWS, 1)
            .await?;
        for _ in 0..LEAST_ROUNDS {
            for (shortest, shape) in shortest.iter_mut().zip([shape, other]) {
                let ms = self.time(Phase::Prefill, shape, MAX_PREFILL_ROWS, passes);
                *shortest = shortest.min(ms.await?);
            }
            if shortest[1] > HOPELESS * shortest[0] {
                break;
            }
        }
        let [own, others] = shortest;
        Ok(if other_family_pays(own, others) {
            other.tiled_prefill
        } else {
            shape.tiled_prefill
        })
    }

    /// Records the matrices once.
    fn record(&mut self) {
        for Forged {
            weights,
            input,
            output,
        } in &self.matrices
        {
            self.ops.matmul(input, weights, None, output);
        }
    }

    fn begin(&mut self, phase: Phase, shape: MatmulShape, rows: usize) {
        let row = |position| Row {
            token: 0,
            position,
            sequence: 0,
        };
        let rows: Vec<Row> = (0..rows as u32).map(row).collect();
        self.ops.shape = shape;
        self.ops.begin(phase, &rows, 1);
    }

    /// What a shape gives, which also compiles its kernels.
    async fn results(&mut self, shape: MatmulShape) -> Result<Results, OpsError> {
        let mut by_rows = Vec::new();
        for rows in Measured::ROWS {
            self.begin(Phase::Rows, shape, rows);
            self.record();
            self.ops.submit()?;
            let mut results = Vec::new();
            for forged in &self.matrices {
                results.push(self.ops.read_activation(&forged.output).await?);
            }
            by_rows.push(results);
        }
        Ok(Results(by_rows))
    }

    /// How many passes make a submission that lasts.
    async fn passes(
        &mut self,
        phase: Phase,
        shape: MatmulShape,
        rows: usize,
    ) -> Result<u32, OpsError> {
        self.time(phase, shape, rows, 1).await?;
        let mut passes = 1;
        while passes < MOST_PASSES
            && self.time(phase, shape, rows, passes).await? * f64::from(passes) < LEAST_MS
        {
            passes *= 2;
        }
        Ok(passes)
    }

    /// Milliseconds of a pass, as one of `passes` in a submission that is waited for.
    async fn time(
        &mut self,
        phase: Phase,
        shape: MatmulShape,
        rows: usize,
        passes: u32,
    ) -> Result<f64, OpsError> {
        self.begin(phase, shape, rows);
        for _ in 0..passes {
            self.record();
        }
        let clock = Clock::start();
        let recorder = &mut self.ops.recorder;
        let copied = &self.matrices[0].output.buffer;
        let copy = Copy::new(copied, &self.readback, 16);
        recorder.submit(1, &[copy])?;
        recorder.read(&self.readback, 16).await?;
        Ok(clock.elapsed_ms() / f64::from(passes))
    }
}

/// Outputs of every matrix, at each of [`Measured::ROWS`].
struct Results(Vec<Vec<Vec<f32>>>);

impl Results {
    /// Whether a row is the same whatever rows stand beside it, and everywhere about what the class computes.
    fn are_sound(&self, class: &Results) -> bool {
        let [fewer @ .., most] = &self.0[..] else {
            unreachable!("some row counts are timed")
        };
        let rows_agree = fewer
            .iter()
            .flat_map(|results| results.iter().zip(most))
            .all(|(few, many)| {
                few.iter()
                    .zip(many)
                    .all(|(a, b)| a.to_bits() == b.to_bits())
            });
        let near = self
            .0
            .iter()
            .flatten()
            .zip(class.0.iter().flatten())
            .all(|(own, class)| {
                let largest = class.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                own.iter()
                    .zip(class)
                    .all(|(a, b)| (a - b).abs() <= SAME_SUMS * largest)
            });
        rows_agree && near
    }

    fn are_the_bits_of(&self, class: &Results) -> bool {
        let (own, class) = (self.0.iter().flatten(), class.0.iter().flatten());
        own.flatten()
            .zip(class.flatten())
            .all(|(a, b)| a.to_bits() == b.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(split: u32) -> MatmulShape {
        MatmulShape {
            broadcast: false,
            workgroup: 64,
            outputs: 2,
            split,
            most_rows: 4,
            tiled_prefill: true,
        }
    }

    #[test]
    fn bits_change_only_for_a_fifth_at_one_row_and_at_four() {
        let measured = |split, same_bits, ms| Measured {
            shape: of(split),
            ms,
            same_bits,
        };
        let class = measured(1, true, [1.2, 2.4, 4.8]);
        // (same bits, times, whether it is taken instead of the class)
        for (same_bits, ms, taken) in [
            (false, [1.0, 2.0, 4.8], true),
            (false, [1.001, 2.0, 4.0], false),
            (false, [1.0, 2.001, 4.0], false),
            (false, [0.1, 2.3, 0.1], false),
            (false, [1.0, 2.0, 9.0], false),
            (false, [f64::INFINITY; 3], false),
            (true, [1.1, 2.2, 4.4], true),
            (true, [0.9, 2.6, 4.6], true),
            (true, [1.15, 2.3, 4.6], false),
            (true, [1.2, 2.4, 4.8], false),
            (true, [f64::INFINITY; 3], false),
        ] {
            let other = measured(2, same_bits, ms);
            let split = choose(&[class, other]).split;
            assert_eq!(split == 2, taken, "{same_bits} {ms:?}");
        }
        // Other bits are held against the fastest that keeps them, not against the class.
        let free = measured(2, true, [1.0, 2.0, 4.0]);
        let other = measured(4, false, [0.9, 1.8, 3.6]);
        assert_eq!(choose(&[class, free, other]).split, 2);
        let other = measured(4, false, [0.8, 1.6, 3.2]);
        assert_eq!(choose(&[class, free, other]).split, 4);
    }

    #[test]
    fn the_prefill_family_changes_for_a_fifth() {
        for (class, other, pays) in [
            (1.2, 1.0, true),
            (1.2, 1.001, false),
            (1.0, 7.0, false),
            (1.0, f64::NAN, false),
        ] {
            assert_eq!(other_family_pays(class, other), pays, "{class} {other}");
        }
    }

    #[test]
    fn forged_words_are_moderate_numbers_in_every_format() {
        for word in Words(1).take(10_000) {
            let value = f32::from_bits(word);
            assert!(value.abs() > 1e-6 && value.abs() < 2.0, "{value}");
            for half in [word & 0xffff, word >> 16] {
                // The exponent of an f16: 14 and 15 are 0.5 to 2.
                assert!((14..=15).contains(&(half >> 10 & 31)), "{half:#x}");
            }
        }
    }

    #[test]
    fn results_are_looked_at_row_by_row() {
        let results = |one: f32, four: f32, eight: f32| {
            Results(vec![
                vec![vec![one]],
                vec![vec![four, 2.0]],
                vec![vec![eight, 2.0, 3.0]],
            ])
        };
        let class = results(1.0, 1.0, 1.0);
        let near = 1.0 + f32::EPSILON;
        assert!(class.are_sound(&class) && class.are_the_bits_of(&class));
        let other = results(near, near, near);
        assert!(other.are_sound(&class) && !other.are_the_bits_of(&class));
        assert!(!results(1.0, near, 1.0).are_sound(&class), "rows differ");
        assert!(!results(2.0, 2.0, 2.0).are_sound(&class), "another sum");
        let nan = f32::NAN;
        assert!(!results(nan, nan, nan).are_sound(&class));
    }
}
