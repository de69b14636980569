//! Architectures: one file each, listed in the generated `registry.rs`.
//!
//! A file gives `NAMES`, the values of `general.architecture` it loads, and `load`, which makes a
//! [`LanguageModel`](foretoken_core::LanguageModel) of a [`LoadContext`](crate::load_context::LoadContext).

mod registry;

pub(crate) use registry::load;

use crate::ModelsError;

/// The values of `general.architecture` that this build loads.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    registry::NAMES
        .iter()
        .flat_map(|names| names.iter().copied())
}

/// The error for a name that no file knows.
fn unsupported(architecture: &str) -> ModelsError {
    ModelsError::UnsupportedArchitecture {
        architecture: architecture
            .chars()
            .take(96)
            .flat_map(char::escape_debug)
            .collect(),
        known: architectures().collect::<Vec<_>>().join(", "),
    }
}
