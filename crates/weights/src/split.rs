//! Models split into several GGUF files: their names, and what the files must say of one another.
//!
//! The first part holds the metadata; each part lists its own tensors, and says which part of how many it is.

use crate::{ByteSource, Metadata, WeightsError};

/// A file name of a part, `<base>-<number>-of-<count>.gguf` with five digits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartName<'a> {
    /// What all parts share.
    pub base: &'a str,
    /// Which part, from 1 on.
    pub number: u32,
    /// How many there are, at least `number`.
    pub count: u32,
}

impl PartName<'_> {
    /// The file name of part `number`.
    pub fn of(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.base, self.count)
    }
}

/// Reads the file name (no path) of a part; `None` where it is no such name.
pub fn part_name(file_name: &str) -> Option<PartName<'_>> {
    let rest = file_name.strip_suffix(".gguf")?;
    let (rest, count) = rest.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| {
        let all = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| text.parse().ok()).flatten()
    };
    let (number, count): (u32, u32) = (digits(number)?, digits(count)?);
    (1..=count).contains(&number).then_some(PartName {
        base,
        number,
        count,
    })
}

/// One part of a source, as a source of its own.
pub(crate) struct Part<'s, S: ?Sized> {
    source: &'s S,
    name: String,
    start: u64,
    len: u64,
    pub(crate) index: u32,
    pub(crate) count: u32,
}

/// The parts of a source in order, and where each begins in it.
pub(crate) fn parts<S: ByteSource + ?Sized>(source: &S) -> Result<Vec<Part<'_, S>>, WeightsError> {
    let lengths = source.parts();
    let count = u32::try_from(lengths.len()).unwrap_or(u32::MAX);
    if u64::from(count) > crate::limits::PARTS {
        return Err(WeightsError::Limit {
            file: source.name().to_owned(),
            place: "the model".to_owned(),
            what: "the number of parts",
            value: u64::from(count),
            limit: crate::limits::PARTS,
        });
    }
    let mut start = 0_u64;
    let mut parts = Vec::new();
    for (index, len) in (0..).zip(lengths) {
        let name = match count {
            1 => source.name().to_owned(),
            _ => format!("{}, part {} of {count}", source.name(), index + 1),
        };
        parts.push(Part {
            source,
            name,
            start,
            len,
            index,
            count,
        });
        start = start.saturating_add(len);
    }
    Ok(parts)
}

impl<S: ?Sized> Part<'_, S> {
    /// Where it begins in its source.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Holds what the part says of itself against what it was given as.
    pub(crate) fn check(&self, metadata: &Metadata) -> Result<(), WeightsError> {
        // A model that was merged again says 0.
        let unsplit = self.count == 1 && metadata.u32(COUNT)?.unwrap_or(0) <= 1;
        if unsplit {
            return Ok(());
        }
        let given = match self.count {
            1 => "one file was given".to_owned(),
            count => format!("{count} files were given"),
        };
        self.expect(COUNT, metadata.required_u32(COUNT)?, self.count, &given)?;
        let place = format!("it was given as part {} of {}", self.index + 1, self.count);
        self.expect(NUMBER, metadata.required_u32(NUMBER)?, self.index, &place)
    }

    /// How many tensors it says all parts have.
    pub(crate) fn stated_tensors(&self, metadata: &Metadata) -> Result<u32, WeightsError> {
        metadata.required_u32(TENSORS)
    }

    /// Holds the number of tensors it says all parts have against what they have.
    pub(crate) fn check_tensors(&self, stated: u32, found: u32) -> Result<(), WeightsError> {
        self.expect(TENSORS, stated, found, &format!("the parts have {found}"))
    }

    fn expect(
        &self,
        key: &'static str,
        value: u32,
        expected: u32,
        because: &str,
    ) -> Result<(), WeightsError> {
        if value == expected {
            return Ok(());
        }
        Err(WeightsError::SplitMismatch {
            file: self.name.clone(),
            key,
            value,
            because: because.to_owned(),
        })
    }
}

const COUNT: &str = "split.count";
/// Of a part, from 0 on.
const NUMBER: &str = "split.no";
/// Of all parts together.
const TENSORS: &str = "split.tensors.count";

impl<S: ByteSource + ?Sized> ByteSource for Part<'_, S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    /// Its reader keeps within its length.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let offset = self.start.saturating_add(offset);
        self.source.read(offset, into).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let name = part_name("a-1-of-b-00002-of-00010.gguf").unwrap();
        assert_eq!((name.base, name.number, name.count), ("a-1-of-b", 2, 10));
        assert_eq!(name.of(1), "a-1-of-b-00001-of-00010.gguf");
        for other in [
            "model.gguf",
            "m-00001-of-00002.bin",
            "m-0001-of-0002.gguf",
            "m-00000-of-00002.gguf",
            "m-00003-of-00002.gguf",
            "m-+0001-of-00002.gguf",
            "00001-of-00002.gguf",
            "m-00001-of-00002.gguf.partial",
        ] {
            assert_eq!(part_name(other), None, "{other}");
        }
    }
}
