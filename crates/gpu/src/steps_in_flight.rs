//! What steps in flight leave for the host: outcomes, several to a buffer, mapped when a batch is full.

use std::collections::VecDeque;

use foretoken_core::{MAX_STEPS_A_WAIT, OpsError, StepOutcome};

use crate::device::Mapping;
use crate::ops::next_step::{OUTCOME_BYTES, outcomes};
use crate::recording::Recorder;

/// Batches there can be at once: one that fills, and those that the host has not read. Two batches are in flight, and a
/// third may begin while the first is read.
const BATCHES: usize = 3;

/// Submitted steps whose outcomes one buffer takes.
struct Batch {
    buffer: wgpu::Buffer,
    steps: usize,
    submission: Option<wgpu::SubmissionIndex>,
}

impl Batch {
    fn bytes(&self) -> u64 {
        self.steps as u64 * OUTCOME_BYTES
    }
}

/// Steps that were submitted and not read.
pub(crate) struct StepsInFlight {
    /// Steps a batch holds.
    batch: usize,
    free: Vec<wgpu::Buffer>,
    open: Option<Batch>,
    /// Full batches, and their maps: the oldest first.
    closed: VecDeque<(Batch, Mapping)>,
    read: VecDeque<StepOutcome>,
}

impl StepsInFlight {
    /// Makes the buffers that all steps will need.
    pub(crate) fn new(recorder: &mut Recorder) -> Self {
        let bytes = MAX_STEPS_A_WAIT as u64 * OUTCOME_BYTES;
        Self {
            batch: 1,
            free: (0..BATCHES)
                .map(|_| recorder.readback_buffer(bytes))
                .collect(),
            open: None,
            closed: VecDeque::new(),
            read: VecDeque::new(),
        }
    }

    pub(crate) fn start(&mut self, batch: usize) {
        assert!(
            (1..=MAX_STEPS_A_WAIT).contains(&batch),
            "{batch} steps a wait"
        );
        self.abandon();
        self.batch = batch;
    }

    /// Nobody will read what is in flight.
    pub(crate) fn abandon(&mut self) {
        self.read.clear();
        if let Some(batch) = self.open.take() {
            self.free.push(batch.buffer);
        }
        for (batch, mapping) in self.closed.drain(..) {
            // Takes a map back that has not come yet.
            drop(mapping);
            self.free.push(batch.buffer);
        }
    }

    /// Where the outcome of the step that is about to be submitted goes: buffer and offset.
    pub(crate) fn place(&mut self) -> (wgpu::Buffer, u64) {
        let open = self.open.get_or_insert_with(|| Batch {
            buffer: self.free.pop().expect("at most two batches are not read"),
            steps: 0,
            submission: None,
        });
        (open.buffer.clone(), open.bytes())
    }

    /// The step with that place was submitted.
    pub(crate) fn submitted(&mut self, recorder: &Recorder, submission: wgpu::SubmissionIndex) {
        let open = self.open.as_mut().expect("place comes first");
        open.steps += 1;
        open.submission = Some(submission);
        if open.steps == self.batch {
            self.close(recorder);
        }
    }

    fn close(&mut self, recorder: &Recorder) {
        if let Some(batch) = self.open.take() {
            let mapping = recorder.gpu.map(&batch.buffer, batch.bytes());
            self.closed.push_back((batch, mapping));
        }
    }

    /// The outcome of the oldest step: waits for its batch if that was not read.
    pub(crate) async fn next(&mut self, recorder: &mut Recorder) -> Result<StepOutcome, OpsError> {
        if let Some(outcome) = self.read.pop_front() {
            return Ok(outcome);
        }
        if self.closed.is_empty() {
            self.close(recorder);
        }
        // It stays in the list while it is waited for: whoever gives up waiting leaves it to be abandoned.
        let (batch, mapping) = self.closed.front().expect("a step that was not read");
        recorder.count_wait(batch.bytes());
        let words = recorder
            .gpu
            .mapped(mapping, batch.bytes(), batch.submission.clone())
            .await?;
        self.read
            .extend(outcomes(&bytemuck::pod_collect_to_vec::<u8, u32>(&words)));
        if let Some((batch, mapping)) = self.closed.pop_front() {
            drop(mapping);
            self.free.push(batch.buffer);
        }
        Ok(self.read.pop_front().expect("a batch has steps"))
    }
}
