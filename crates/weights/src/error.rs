//! [`WeightsError`], and how text from a file is quoted in it.

/// Why a model file cannot be used. Every message is one line that names the place, the value found and,
/// where there is something to do, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// There is no such file.
    #[error("{path}: no such file; check the path or download the model first")]
    NotFound {
        /// The path as it was given.
        path: String,
    },
    /// The file is there, but cannot be opened as a model.
    #[error("{path}: {problem}")]
    NotReadable {
        /// The path as it was given.
        path: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Reading failed.
    #[error("{file}: reading {length} bytes at offset {offset} failed: {reason}")]
    Read {
        /// The source's name.
        file: String,
        /// Where the read began.
        offset: u64,
        /// How many bytes were asked for.
        length: u64,
        /// What the system said.
        reason: String,
    },
    /// The first four bytes are not `GGUF`.
    #[error("{file}: not a GGUF file: it begins with {begins}; give a .gguf model file")]
    NotGguf {
        /// The source's name.
        file: String,
        /// The first bytes, escaped.
        begins: String,
    },
    /// A version other than 2 and 3.
    #[error(
        "{file}: GGUF version {version} is not read (versions 2 and 3 are); convert the model again with a current converter"
    )]
    UnsupportedVersion {
        /// The source's name.
        file: String,
        /// The version found.
        version: u32,
    },
    /// A file for big-endian machines.
    #[error("{file}: a big-endian GGUF file is not read; get the little-endian one")]
    BigEndian {
        /// The source's name.
        file: String,
    },
    /// The file ends before what it announces.
    #[error(
        "{file}: truncated: {place} needs {needed} bytes at offset {offset}, but {available} are left; the file is incomplete or damaged, download it again"
    )]
    Truncated {
        /// The source's name.
        file: String,
        /// What was being read.
        place: String,
        /// Where.
        offset: u64,
        /// Bytes that what was announced takes at least.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// A count or length above what this build reads.
    #[error("{file}: {place}: {what} is {value}, the limit is {limit}")]
    Limit {
        /// The source's name.
        file: String,
        /// The key or tensor.
        place: String,
        /// What was counted.
        what: &'static str,
        /// How many the file says.
        value: u64,
        /// How many are read.
        limit: u64,
    },
    /// Memory for something the file really holds could not be had.
    #[error("{file}: {place}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The source's name.
        file: String,
        /// The key or tensor.
        place: String,
        /// How much was asked for.
        bytes: u64,
    },
    /// The file contradicts the format or itself.
    #[error("{file}: {place} {problem}; the file is damaged or was written wrongly")]
    Malformed {
        /// The source's name.
        file: String,
        /// The key or tensor.
        place: String,
        /// What is wrong with it, with the value found.
        problem: String,
    },
    /// The files given as one split model are not its parts.
    #[error(
        "{file}: metadata key `{key}` is {value}, but {because}; give all parts of one split model, in order"
    )]
    SplitMismatch {
        /// The source's name, and which part.
        file: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: u32,
        /// What it should be instead, and why.
        because: String,
    },
    /// A configuration asks for something that this build does not do.
    #[error("{file}: `{key}` is {value}, which this build does not support ({supported})")]
    UnsupportedConfig {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is supported, or what to do.
        supported: String,
    },
    /// A metadata key that is needed is not there.
    #[error(
        "metadata key `{key}` is missing ({expected} expected); this file cannot be loaded as this kind of model"
    )]
    MissingKey {
        /// The key.
        key: String,
        /// The type expected.
        expected: &'static str,
    },
    /// A metadata key has another type.
    #[error("metadata key `{key}` must be {expected}, but the file holds {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The type expected.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A metadata value does not fit what was asked for.
    #[error("metadata key `{key}` must be {expected}, but is {value}")]
    OutOfRange {
        /// The key, with an index where it is an array.
        key: String,
        /// What fits.
        expected: &'static str,
        /// The value found.
        value: String,
    },
    /// A tensor that is needed is not there.
    #[error("tensor `{tensor}` is missing; the file is incomplete or holds another kind of model")]
    MissingTensor {
        /// Its name.
        tensor: String,
    },
    /// A tensor is stored in a type that this build does not read.
    #[error(
        "tensor `{tensor}` is stored as {stored}, which this build does not read (it reads {readable}); get the model in one of these"
    )]
    UnsupportedFormat {
        /// Its name.
        tensor: String,
        /// The type's name in ggml.
        stored: String,
        /// The names of the types that are read.
        readable: String,
    },
    /// A tensor has another shape than its use asks for.
    #[error("tensor `{tensor}` must be {expected}, but its shape is {found}")]
    TensorShape {
        /// Its name.
        tensor: String,
        /// What its use asks for.
        expected: String,
        /// Its shape, columns first.
        found: String,
    },
}

/// Text from a file, fit for one line of a terminal: control characters escaped, cut after `most` characters.
pub(crate) fn quoted(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .take(most)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// How many characters of a key or name a message shows.
pub(crate) const QUOTED_CHARS: usize = 96;

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_is_escaped_and_cut() {
        assert_eq!(quoted("a\n\u{1b}[2Jb", 8), "a\\n\\u{1b}[2Jb");
        assert_eq!(quoted("äöüß", 3), "äöü…");
        assert_eq!(quoted("äöü", 3), "äöü");
    }
}
