//! Exact counts of what the recording layer did. Counts do not lie on a noisy machine.

/// Totals since the device was opened; subtract two snapshots to get a step's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Compute dispatches.
    pub dispatches: u64,
    /// Compute passes.
    pub passes: u64,
    /// Queue submissions.
    pub submits: u64,
    /// Waits for the device: each maps a buffer.
    pub syncs: u64,
    /// Bytes mapped for reading.
    pub mapped_bytes: u64,
    /// `write_buffer` calls.
    pub write_buffers: u64,
    /// Bytes they carried.
    pub written_bytes: u64,
    /// Buffers created.
    pub buffers_created: u64,
    /// Bind groups created.
    pub bind_groups_created: u64,
    /// Pipelines created.
    pub pipelines_created: u64,
    /// Bytes of quantised weights that the dispatches read, once per dispatch and chunk of rows.
    pub weight_bytes_read: u64,
    /// Bytes of keys and values that attention read: of every KV head the positions that a chunk of rows attends to.
    pub kv_bytes_read: u64,
    /// Bytes of all buffers alive.
    pub device_bytes: u64,
    /// The largest buffer.
    pub largest_buffer_bytes: u64,
    /// Bytes of quantised weights held.
    pub weight_bytes: u64,
}

impl Counters {
    /// Buffers, bind groups and pipelines created.
    pub fn objects_created(&self) -> u64 {
        self.buffers_created + self.bind_groups_created + self.pipelines_created
    }

    /// What happened between an earlier snapshot and this one; sizes stay as they are now.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            dispatches: self.dispatches - earlier.dispatches,
            passes: self.passes - earlier.passes,
            submits: self.submits - earlier.submits,
            syncs: self.syncs - earlier.syncs,
            mapped_bytes: self.mapped_bytes - earlier.mapped_bytes,
            write_buffers: self.write_buffers - earlier.write_buffers,
            written_bytes: self.written_bytes - earlier.written_bytes,
            buffers_created: self.buffers_created - earlier.buffers_created,
            bind_groups_created: self.bind_groups_created - earlier.bind_groups_created,
            pipelines_created: self.pipelines_created - earlier.pipelines_created,
            weight_bytes_read: self.weight_bytes_read - earlier.weight_bytes_read,
            kv_bytes_read: self.kv_bytes_read - earlier.kv_bytes_read,
            ..*self
        }
    }
}
