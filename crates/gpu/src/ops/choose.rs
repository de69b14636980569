//! `choose`: a token for every logit row, on the device: processed logits, noise, narrowing, acceptance.

use foretoken_core::sampling::MASKED;
use foretoken_core::{MAX_VERIFY_ROWS, OpsError, RowSet, Sampling, SequenceSlot, TokenId};

use crate::gpu_ops::{GpuActivation, GpuOps};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Buffer, Constants, Kernel, Slots, constants, slots};

/// Tokens a workgroup looks through.
const SLICE: u32 = 2048;
/// Sequences whose sampling the device keeps (`last_token` of `lib/sequence_state.wgsl`).
pub(crate) const MAX_SEQUENCES: usize = 16;
/// Words of `Sampling` in `lib/sampling.wgsl`.
const SAMPLING_WORDS: usize = 12;
/// Bytes of the parameters of all sequences.
pub(crate) const SAMPLING_BYTES: u64 = (MAX_SEQUENCES * SAMPLING_WORDS * 4) as u64;
/// `RULE_IN_PROMPT` and `RULE_STOP` of `lib/token_rule_bits.wgsl`.
const RULE_IN_PROMPT: u32 = 1 << 31;
const RULE_STOP: u32 = 1 << 30;

const CONSTANTS: Constants = constants([MAX_STEP_ROWS]);
/// logits, sampling, rules, best.
const CHOICE_BINDINGS: &[Access] = &[Access::Read, Access::Read, Access::Read, Access::Write];
/// best, state, rules.
const REDUCE_BINDINGS: &[Access] = &[Access::Read, Access::Write, Access::Write];

/// Which files a choice needs: the least that every sequence of the pass is served by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    noise: bool,
    narrowing: bool,
    rules: bool,
}

impl Needs {
    pub(crate) fn of(sampling: &Sampling) -> Self {
        Self {
            noise: !sampling.is_greedy(),
            narrowing: sampling.narrows(),
            rules: sampling.has_token_rules(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            noise: self.noise || other.noise,
            narrowing: self.narrowing || other.narrowing,
            rules: self.rules || other.rules,
        }
    }

    pub(crate) fn without_rules(self) -> Self {
        Self {
            rules: false,
            ..self
        }
    }

    const fn slots(self) -> Slots {
        let rules = if self.rules {
            "lib/token_rules_table.wgsl"
        } else {
            "lib/token_rules_none.wgsl"
        };
        let noise = if self.noise {
            "lib/noise_gumbel.wgsl"
        } else {
            "lib/noise_none.wgsl"
        };
        slots([("token_rules", rules), ("noise", noise)])
    }
}

fn split_kernel(needs: Needs) -> Kernel {
    let kernel = Kernel::new("ops/choose_split.wgsl", CHOICE_BINDINGS);
    Kernel {
        slots: needs.slots(),
        constants: CONSTANTS,
        ..kernel
    }
}

fn narrow_kernel(needs: Needs) -> Kernel {
    let kernel = Kernel::new("ops/choose_narrow.wgsl", CHOICE_BINDINGS);
    Kernel {
        slots: needs.slots(),
        constants: CONSTANTS,
        ..kernel
    }
}

fn reduce_kernel(rules: bool) -> Kernel {
    let commit = if rules {
        "lib/commit_count.wgsl"
    } else {
        "lib/commit_none.wgsl"
    };
    let kernel = Kernel::new("ops/choose_reduce.wgsl", REDUCE_BINDINGS);
    Kernel {
        slots: slots([("commit", commit)]),
        constants: CONSTANTS,
        ..kernel
    }
}

pub(crate) fn catalog() -> Vec<Kernel> {
    let mut kernels = vec![reduce_kernel(false), reduce_kernel(true)];
    for rules in [false, true] {
        for noise in [false, true] {
            kernels.push(split_kernel(Needs {
                noise,
                rules,
                narrowing: false,
            }));
        }
        kernels.push(narrow_kernel(Needs {
            noise: true,
            rules,
            narrowing: true,
        }));
    }
    kernels
}

/// Bytes of the partial results for a vocabulary.
pub(crate) fn part_bytes(vocab: u32) -> u64 {
    MAX_VERIFY_ROWS as u64 * u64::from(vocab.div_ceil(SLICE)) * 16
}

/// The words of one sequence, as `lib/sampling.wgsl` reads them.
fn sampling_words(sampling: &Sampling, prompt_len: u32) -> [u32; SAMPLING_WORDS] {
    let greedy = sampling.is_greedy();
    let log_min_p = if greedy || sampling.min_p <= 0.0 {
        MASKED
    } else {
        sampling.min_p.ln().max(MASKED)
    };
    [
        if greedy {
            0
        } else {
            sampling.temperature.to_bits()
        },
        if greedy { 0 } else { sampling.top_k },
        if greedy {
            1f32.to_bits()
        } else {
            sampling.top_p.to_bits()
        },
        log_min_p.to_bits(),
        sampling.repetition_penalty.to_bits(),
        sampling.frequency_penalty.to_bits(),
        sampling.presence_penalty.to_bits(),
        sampling.min_tokens,
        sampling.seed as u32,
        (sampling.seed >> 32) as u32,
        sampling.choice,
        prompt_len,
    ]
}

/// The table of one sequence: bias, and flags with the output count, a token.
fn token_rules(sampling: &Sampling, prompt: &[TokenId], vocab: u32) -> Vec<[u32; 2]> {
    let mut rules = vec![[0f32.to_bits(), 0]; vocab as usize];
    for &(token, bias) in &sampling.logit_bias {
        let [bits, _] = &mut rules[token as usize];
        *bits = (f32::from_bits(*bits) + bias).to_bits();
    }
    for &token in &sampling.stop_ids {
        rules[token as usize][1] |= RULE_STOP;
    }
    if sampling.penalizes() {
        for &token in prompt {
            rules[token as usize][1] |= RULE_IN_PROMPT;
        }
    }
    rules
}

impl GpuOps {
    pub(crate) fn write_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        vocab: u32,
    ) -> Result<(), OpsError> {
        let slot = sequence as usize;
        assert!(
            sequence < self.sequences && slot < MAX_SEQUENCES,
            "sequence {sequence} of {}",
            self.sequences
        );
        let prompt_len = u32::try_from(prompt.len()).expect("a prompt fits a context");
        let words = sampling_words(sampling, prompt_len);
        let offset = (slot * SAMPLING_WORDS * 4) as u64;
        let buffer = self.sampling.clone();
        self.recorder
            .write(&buffer, offset, bytemuck::cast_slice(&words));
        self.needs[slot] = Needs::of(sampling);
        if self.needs[slot].rules {
            let row = 8 * u64::from(vocab);
            self.grow_token_rules(row * u64::from(self.sequences))?;
            let rules = token_rules(sampling, prompt, vocab);
            let buffer = self.token_rules.clone().expect("grown above");
            self.recorder.write(
                &buffer,
                row * u64::from(sequence),
                bytemuck::cast_slice(&rules),
            );
        }
        Ok(())
    }

    pub(crate) fn record_choose(&mut self, logits: &GpuActivation) {
        let needs = self.needs_of_pass();
        self.record_choice(logits, needs, true);
    }

    /// What the sequences of the pass's logit rows need together.
    pub(crate) fn needs_of_pass(&self) -> Needs {
        let sequences = self.pass.logit_sequences;
        (0..MAX_SEQUENCES)
            .filter(|slot| sequences & 1 << slot != 0)
            .fold(Needs::default(), |needs, slot| needs.and(self.needs[slot]))
    }

    /// Chooses with the kernels that `needs` takes. What is accepted is counted for penalties only where it `commits`.
    pub(crate) fn record_choice(&mut self, logits: &GpuActivation, needs: Needs, commits: bool) {
        assert_eq!(logits.rows, RowSet::Logits, "choose: logits");
        assert!(
            self.pass.logit_rows > 0,
            "choose: a pass without logit rows"
        );
        let parts = self
            .choose_parts
            .clone()
            .expect("allocated with the logits");
        let nothing = self.recorder.nothing().clone();
        let rules: Buffer = match &self.token_rules {
            Some(rules) if needs.rules => rules.clone(),
            _ => nothing,
        };
        let (vocab, rows) = (logits.cols, self.pass.logit_rows);
        let sampling = self.sampling.clone();
        let buffers = [&logits.buffer, &sampling, &rules, &parts];
        let slices = if needs.narrowing {
            let params = [vocab, 0, 0, 0, 0, 0, 0, 0];
            self.recorder
                .dispatch(&narrow_kernel(needs), params, &buffers, [rows, 1, 1]);
            1
        } else {
            let slices = vocab.div_ceil(SLICE);
            let params = [vocab, SLICE, slices, 0, 0, 0, 0, 0];
            self.recorder
                .dispatch(&split_kernel(needs), params, &buffers, [slices, rows, 1]);
            slices
        };
        let state = self.state.clone();
        let params = [slices, vocab, 0, 0, 0, 0, 0, 0];
        self.recorder.dispatch(
            &reduce_kernel(needs.rules && commits),
            params,
            &[&parts, &state, &rules],
            [1, 1, 1],
        );
    }
}
