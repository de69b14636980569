//! Activations.

use std::cell::{Ref, RefCell, RefMut};

use foretoken_core::{MAX_PREFILL_ROWS, MAX_VERIFY_ROWS, OpsError, RowSet};

use crate::zeros::zeros;

/// f32 `[rows, cols]`, with room for the largest pass.
#[derive(Debug)]
pub struct CpuActivation {
    pub(crate) name: String,
    pub(crate) cols: usize,
    pub(crate) rows: RowSet,
    /// Behind a cell because a recording borrows several activations of one model at once. Reading and
    /// writing the same one in a single op panics here; on a device it would be a data race.
    values: RefCell<Vec<f32>>,
}

impl CpuActivation {
    pub(crate) fn new(name: &str, cols: u32, rows: RowSet) -> Result<Self, OpsError> {
        let capacity = match rows {
            RowSet::All => MAX_PREFILL_ROWS,
            RowSet::Logits => MAX_VERIFY_ROWS,
        };
        let values = RefCell::new(zeros(name, capacity as u64 * u64::from(cols))?);
        Ok(Self {
            name: name.to_owned(),
            cols: cols as usize,
            rows,
            values,
        })
    }

    /// The first `rows` rows.
    pub(crate) fn read(&self, rows: usize) -> Ref<'_, [f32]> {
        Ref::map(self.values.borrow(), |values| &values[..rows * self.cols])
    }

    /// The first `rows` rows.
    pub(crate) fn write(&self, rows: usize) -> RefMut<'_, [f32]> {
        RefMut::map(self.values.borrow_mut(), |values| {
            &mut values[..rows * self.cols]
        })
    }
}
