//! Allocation that fails with a message.

use foretoken_core::OpsError;

/// `len` zeros for `what`.
pub(crate) fn zeros<T: Copy + Default>(what: &str, len: u64) -> Result<Vec<T>, OpsError> {
    let needed = len.saturating_mul(size_of::<T>() as u64);
    let fail = |available: &str| OpsError::OutOfMemory {
        what: what.to_owned(),
        needed,
        available: available.to_owned(),
    };
    let len = usize::try_from(len).map_err(|_| fail("more than an address space holds"))?;
    Vec::<T>::new()
        .try_reserve_exact(len)
        .map_err(|_| fail("and the allocation failed"))?;
    // Zeros of the system, which takes no memory for them before they are written: a load that is only planned takes none.
    Ok(vec![T::default(); len])
}

#[cfg(test)]
mod tests {
    use super::zeros;

    #[test]
    fn too_much_is_an_error_that_names_it() {
        let error = zeros::<f32>("blk.0", u64::MAX / 2).expect_err("more than any machine has");
        assert!(error.to_string().contains("blk.0"), "{error}");
        assert_eq!(zeros::<u8>("small", 3).expect("three bytes"), [0, 0, 0]);
    }
}
