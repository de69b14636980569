//! How many positions the KV cache gets.

use crate::{DEFAULT_CONTEXT_LENGTH, ModelsError};

/// What was asked for if the model can do it; otherwise the smaller of the model's and the default.
pub(crate) fn context_length(requested: Option<u32>, most: u32) -> Result<u32, ModelsError> {
    match requested {
        None => Ok(most.min(DEFAULT_CONTEXT_LENGTH)),
        Some(requested) if (1..=most).contains(&requested) => Ok(requested),
        Some(requested) => Err(ModelsError::ContextLength { requested, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::context_length;

    #[test]
    fn bounds() {
        assert_eq!(context_length(None, 64).unwrap(), 64);
        assert_eq!(context_length(None, 8192).unwrap(), 4096);
        assert_eq!(context_length(Some(1), 64).unwrap(), 1);
        assert_eq!(context_length(Some(64), 64).unwrap(), 64);
        assert_eq!(context_length(Some(8192), 8192).unwrap(), 8192);
        for wrong in [0, 65, u32::MAX] {
            let error = context_length(Some(wrong), 64).unwrap_err().to_string();
            assert!(
                error.contains(&wrong.to_string()) && error.contains("1 to 64"),
                "{error}"
            );
        }
    }
}
