//! [`ModelsError`].

use foretoken_core::OpsError;
use foretoken_weights::WeightsError;

/// Why a file does not load as a model. Every message is one line.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// The file itself.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The device.
    #[error(transparent)]
    Ops(#[from] OpsError),
    /// No file of `src/arch` knows the architecture.
    #[error("architecture `{architecture}` is not supported; this build loads {known}")]
    UnsupportedArchitecture {
        /// What `general.architecture` says.
        architecture: String,
        /// The names known.
        known: String,
    },
    /// The architecture is known, a variation of it is not.
    #[error(
        "metadata key `{key}` is {value}, which is not supported yet ({supported}); use another model"
    )]
    UnsupportedFeature {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is supported.
        supported: String,
    },
    /// A dimension that cannot be.
    #[error(
        "metadata key `{key}` is {value}, but must be {expected}; the file is damaged or was written wrongly"
    )]
    InvalidDimension {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// A tensor does not have the shape that the metadata implies.
    #[error(
        "tensor `{tensor}` must be {expected} (columns first), but its shape is {found}; \
         the file is damaged or was written wrongly"
    )]
    TensorShape {
        /// Its name.
        tensor: String,
        /// The shape that the metadata implies.
        expected: String,
        /// The shape found.
        found: String,
    },
    /// A tensor holds values that cannot be used.
    #[error(
        "tensor `{tensor}` holds {value}, but {expected}; the file is damaged or was written wrongly"
    )]
    InvalidValue {
        /// Its name.
        tensor: String,
        /// The value.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A tensor that the architecture never asked for: without it answers would be others.
    #[error(
        "tensor `{tensor}` is no part of a {architecture} model as this build knows it, and leaving it out would change \
         its answers; use another model"
    )]
    UnusedTensor {
        /// Its name.
        tensor: String,
        /// What `general.architecture` says.
        architecture: String,
    },
    /// There is nothing to quantise.
    #[error(
        "`quantize` is {asked}, but the model's matrices are quantised already ({stored}): leave `quantize` out"
    )]
    AlreadyQuantized {
        /// The format asked for.
        asked: &'static str,
        /// How a matrix is stored.
        stored: String,
    },
    /// More context was asked for than the model was trained for, or none.
    #[error(
        "a context length of {requested} tokens cannot be used; choose 1 to {most} for this model"
    )]
    ContextLength {
        /// What was asked for.
        requested: u32,
        /// What the model has.
        most: u32,
    },
}
