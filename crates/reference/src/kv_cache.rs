//! One layer's KV cache.

use std::cell::RefCell;

use foretoken_core::{KvShape, OpsError, Row};

use crate::zeros::zeros;

/// Keys and values of one layer, each f32 `[sequences, context, kv_heads, head_dim]`: of every position, whatever window slides over
/// them.
#[derive(Debug)]
pub struct CpuKvCache {
    pub(crate) shape: KvShape,
    pub(crate) keys: RefCell<Vec<f32>>,
    pub(crate) values: RefCell<Vec<f32>>,
}

impl CpuKvCache {
    pub(crate) fn new(shape: KvShape) -> Result<Self, OpsError> {
        let len = [
            shape.sequences,
            shape.context,
            shape.kv_heads,
            shape.head_dim,
        ]
        .iter()
        .fold(1u64, |len, &dimension| {
            len.saturating_mul(u64::from(dimension))
        });
        let zeros = || zeros("KV cache", len).map(RefCell::new);
        Ok(Self {
            shape,
            keys: zeros()?,
            values: zeros()?,
        })
    }

    /// Values one position takes in `keys` and in `values`.
    pub(crate) fn position_len(&self) -> usize {
        self.shape.kv_heads as usize * self.shape.head_dim as usize
    }

    /// Where the position of `row` begins.
    pub(crate) fn offset(&self, row: &Row) -> usize {
        assert!(
            row.sequence < self.shape.sequences && row.position < self.shape.context,
            "KV cache of {} sequences of {} positions: row at position {} of sequence {}",
            self.shape.sequences,
            self.shape.context,
            row.position,
            row.sequence
        );
        let context = self.shape.context as usize;
        (row.sequence as usize * context + row.position as usize) * self.position_len()
    }
}
