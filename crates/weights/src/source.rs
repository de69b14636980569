//! [`ByteSource`]: where a file's bytes come from.

use crate::WeightsError;

/// A file of known length that can be read at any offset: memory, a disk, a browser's storage, a network.
///
/// No `Send` bound: a browser has one thread, and natively one thread owns the engine.
pub trait ByteSource {
    /// What to call it in messages: a path, an address.
    fn name(&self) -> &str;

    /// Its length in bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of each part of a split model, whose bytes follow one another here; they add up to
    /// [`ByteSource::len`]. One part, unless it is split.
    fn parts(&self) -> Vec<u64> {
        vec![self.len()]
    }

    /// The name of each part where the source is a folder of files (`config.json`, `model.safetensors` …), as many as
    /// [`ByteSource::parts`]: plain names, no paths. None where it is a GGUF file or a split one.
    fn file_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Fills `into` with the bytes from `offset` on, or fails: there are no short reads.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError>;
}

impl<S: ByteSource + ?Sized> ByteSource for &S {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn parts(&self) -> Vec<u64> {
        (**self).parts()
    }
    fn file_names(&self) -> Vec<String> {
        (**self).file_names()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        (**self).read(offset, into).await
    }
}

/// Bytes in memory: a `Vec<u8>`, an `Arc<[u8]>`, a `&[u8]`.
#[derive(Debug, Clone)]
pub struct BytesSource<B>(pub B);

impl<B: AsRef<[u8]>> ByteSource for BytesSource<B> {
    fn name(&self) -> &str {
        "(memory)"
    }

    fn len(&self) -> u64 {
        self.0.as_ref().len() as u64
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.as_ref().get(start..))
            .and_then(|rest| rest.get(..into.len()));
        match bytes {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(WeightsError::Truncated {
                file: self.name().to_owned(),
                place: "the read".to_owned(),
                offset,
                needed: into.len() as u64,
                available: self.len().saturating_sub(offset),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_are_whole_or_fail() {
        let source = BytesSource(vec![1u8, 2, 3, 4]);
        let mut two = [0; 2];
        pollster::block_on(source.read(2, &mut two)).unwrap();
        assert_eq!(two, [3, 4]);
        for offset in [3, 4, 5, u64::from(u32::MAX) + 1, u64::MAX] {
            let error = pollster::block_on(source.read(offset, &mut two)).unwrap_err();
            assert!(
                matches!(error, WeightsError::Truncated { .. }),
                "{offset}: {error}"
            );
        }
        assert!(pollster::block_on(source.read(4, &mut [])).is_ok());
    }
}
