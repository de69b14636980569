//! Scratch buffers that all models on the ops share, each of the size that the largest needs.

use foretoken_core::OpsError;

use crate::gpu_ops::GpuOps;
use crate::recording::Buffer;

/// Scratch that all models on the ops share, of the size that the largest needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scratch {
    Attention,
    Choose,
    History,
    TokenRules,
}

impl Scratch {
    fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention partials",
            Self::Choose => "argmax partials",
            Self::History => "history",
            Self::TokenRules => "token rules",
        }
    }
}

impl GpuOps {
    pub(crate) fn grow_token_rules(&mut self, bytes: u64) -> Result<(), OpsError> {
        self.grow(Scratch::TokenRules, bytes)
    }

    fn scratch(&mut self, which: Scratch) -> &mut Option<Buffer> {
        match which {
            Scratch::Attention => &mut self.attention_parts,
            Scratch::Choose => &mut self.choose_parts,
            Scratch::History => &mut self.history,
            Scratch::TokenRules => &mut self.token_rules,
        }
    }

    /// Sees to it that a scratch buffer has `bytes` at least.
    pub(crate) fn grow(&mut self, which: Scratch, bytes: u64) -> Result<(), OpsError> {
        let place = self.scratch(which);
        if place
            .as_ref()
            .is_some_and(|buffer| buffer.raw.size() >= bytes)
        {
            return Ok(());
        }
        let recorder = &mut self.recorder;
        let before = recorder.plan.all;
        let grown = recorder.buffer(which.name(), bytes)?;
        if recorder.plan.on {
            // What was only planned is no buffer to keep: the largest stands for all.
            let size = recorder.plan.all - before;
            recorder.plan.all = before;
            let largest = recorder.plan.grown.entry(which.name()).or_default();
            *largest = size.max(*largest);
        } else {
            let outgrown = self.scratch(which).replace(grown);
            self.outgrown.push((which, outgrown));
        }
        Ok(())
    }

    /// Takes back what was replaced since the last wait: there may have been no memory for what replaced it.
    pub(crate) fn restore_outgrown(&mut self) {
        while let Some((which, outgrown)) = self.outgrown.pop() {
            *self.scratch(which) = outgrown;
        }
    }
}
