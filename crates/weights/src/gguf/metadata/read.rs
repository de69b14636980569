//! Reading keys and values from the header.

use super::{Metadata, Slot, SlotValue, Span, ValueType};
use crate::error::{QUOTED_CHARS, quoted};
use crate::gguf::header::HeaderReader;
use crate::gguf::limits;
use crate::{ByteSource, WeightsError};

/// The fewest bytes an entry takes: a key of one byte, a type, a value of one byte.
const LEAST_ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;
/// The fewest bytes an array takes: the elements' type and their number.
const LEAST_ARRAY_BYTES: u64 = 4 + 8;
/// The fewest bytes a string takes: its length.
const LEAST_STRING_BYTES: u64 = 8;

impl Metadata {
    /// Reads `count` entries and checks that their keys are unique.
    pub(in crate::gguf) async fn read<S: ByteSource + ?Sized>(
        reader: &mut HeaderReader<'_, S>,
        count: u64,
    ) -> Result<Self, WeightsError> {
        reader.set_place(format_args!("the metadata"));
        reader.check_limit(
            "the number of metadata entries",
            count,
            limits::METADATA_ENTRIES,
        )?;
        reader.check_backed(count, LEAST_ENTRY_BYTES)?;
        let count = reader.index("the number of metadata entries", count)?;

        let mut builder = Builder {
            text: Vec::new(),
            metadata: Metadata::default(),
        };
        let capacity = usize::try_from(count).unwrap_or(usize::MAX);
        reader.reserve(&mut builder.metadata.entries, capacity)?;
        for index in 0..count {
            reader.set_place(format_args!("metadata key number {index}"));
            let slot = builder.entry(reader).await?;
            builder.metadata.entries.push(slot);
        }
        reader.set_place(format_args!("the metadata"));
        let Builder { text, mut metadata } = builder;
        metadata.text = String::from_utf8(text)
            .map_err(|_| reader.malformed("holds text that is not UTF-8".to_owned()))?;
        let mut by_key: Vec<u32> = (0..count).collect();
        let key = |index: u32| metadata.key(&metadata.entries[index as usize]);
        by_key.sort_unstable_by(|&a, &b| key(a).cmp(key(b)));
        for pair in by_key.windows(2) {
            if let &[a, b] = pair
                && key(a) == key(b)
            {
                reader.set_place(format_args!(
                    "metadata key `{}`",
                    quoted(key(a), QUOTED_CHARS)
                ));
                return Err(reader.malformed("is there twice: a duplicate key".to_owned()));
            }
        }
        metadata.by_key = by_key;
        Ok(metadata)
    }
}

/// Metadata whose text is still bytes, every piece of which was checked.
struct Builder {
    text: Vec<u8>,
    metadata: Metadata,
}

impl Builder {
    async fn entry<S: ByteSource + ?Sized>(
        &mut self,
        reader: &mut HeaderReader<'_, S>,
    ) -> Result<Slot, WeightsError> {
        let key = self
            .string(reader, "the length of the key", limits::NAME_BYTES)
            .await?;
        {
            let bytes = self.text.get(key.start as usize..).unwrap_or_default();
            let name = std::str::from_utf8(bytes).unwrap_or_default();
            reader.set_place(format_args!(
                "metadata key `{}`",
                quoted(name, QUOTED_CHARS)
            ));
        }
        if key.len == 0 {
            return Err(reader.malformed("is an empty key".to_owned()));
        }
        let value = match value_type(reader).await? {
            ValueType::U8 => SlotValue::Unsigned(ValueType::U8, reader.u8().await?.into()),
            ValueType::I8 => SlotValue::Signed(
                ValueType::I8,
                i8::from_le_bytes(reader.take().await?).into(),
            ),
            ValueType::U16 => SlotValue::Unsigned(
                ValueType::U16,
                u16::from_le_bytes(reader.take().await?).into(),
            ),
            ValueType::I16 => SlotValue::Signed(
                ValueType::I16,
                i16::from_le_bytes(reader.take().await?).into(),
            ),
            ValueType::U32 => SlotValue::Unsigned(ValueType::U32, reader.u32().await?.into()),
            ValueType::I32 => SlotValue::Signed(
                ValueType::I32,
                i32::from_le_bytes(reader.take().await?).into(),
            ),
            ValueType::U64 => SlotValue::Unsigned(ValueType::U64, reader.u64().await?),
            ValueType::I64 => {
                SlotValue::Signed(ValueType::I64, i64::from_le_bytes(reader.take().await?))
            }
            ValueType::F32 => SlotValue::F32(f32::from_le_bytes(reader.take().await?)),
            ValueType::F64 => SlotValue::F64(f64::from_le_bytes(reader.take().await?)),
            ValueType::Bool => match reader.u8().await? {
                byte @ (0 | 1) => SlotValue::Bool(byte == 1),
                byte => return Err(not_a_bool(reader, byte)),
            },
            ValueType::String => SlotValue::Text(
                self.string(reader, "the length of the string", limits::STRING_BYTES)
                    .await?,
            ),
            ValueType::Array => self.array(reader).await?,
        };
        Ok(Slot { key, value })
    }

    /// Appends a string to the text. What is appended is UTF-8.
    async fn string<S: ByteSource + ?Sized>(
        &mut self,
        reader: &mut HeaderReader<'_, S>,
        what: &'static str,
        limit: u64,
    ) -> Result<Span, WeightsError> {
        let start = self.text_end(reader)?;
        self.append_string(reader, what, limit).await?;
        let len = self.text_end(reader)? - start;
        let span = Span { start, len };
        match std::str::from_utf8(self.added(start)) {
            Ok(_) => Ok(span),
            Err(error) => Err(reader.malformed(format!(
                "holds a string of {len} bytes that is not UTF-8 from its byte {} on",
                error.valid_up_to()
            ))),
        }
    }

    /// Appends a string's bytes to the text, whatever they are.
    async fn append_string<S: ByteSource + ?Sized>(
        &mut self,
        reader: &mut HeaderReader<'_, S>,
        what: &'static str,
        limit: u64,
    ) -> Result<(), WeightsError> {
        let length = reader.u64().await?;
        reader.check_limit(what, length, limit)?;
        reader.check_backed(length, 1)?;
        let end = (self.text.len() as u64).saturating_add(length);
        reader.check_limit("the length of all text", end, limits::METADATA_BYTES)?;
        let count = usize::try_from(length).unwrap_or(usize::MAX);
        reader.grow(&mut self.text, count, 1)?;
        reader.append(count, &mut self.text).await
    }

    /// Where the text ends.
    fn text_end<S: ByteSource + ?Sized>(
        &self,
        reader: &HeaderReader<'_, S>,
    ) -> Result<u32, WeightsError> {
        reader.index("the length of all text", self.text.len() as u64)
    }

    /// The text from `start` on.
    fn added(&self, start: u32) -> &[u8] {
        self.text.get(start as usize..).unwrap_or_default()
    }

    async fn array<S: ByteSource + ?Sized>(
        &mut self,
        reader: &mut HeaderReader<'_, S>,
    ) -> Result<SlotValue, WeightsError> {
        let (element, len) = array_head(reader).await?;
        let Some(size) = element.size() else {
            return match element {
                ValueType::String => self.strings(reader, len).await,
                _ => {
                    for _ in 0..len {
                        pass_inner_array(reader).await?;
                    }
                    Ok(SlotValue::Nested(len))
                }
            };
        };
        // At most 16,000,000 elements of 8 bytes: nothing overflows.
        let bytes = u64::from(len) * size as u64;
        let start = self.metadata.numbers.len();
        let end = (start as u64).saturating_add(bytes);
        reader.check_limit("the size of all arrays", end, limits::METADATA_BYTES)?;
        let count = usize::try_from(bytes).unwrap_or(usize::MAX);
        reader.grow(&mut self.metadata.numbers, count, 1)?;
        reader.append(count, &mut self.metadata.numbers).await?;
        if element == ValueType::Bool {
            let added = self.metadata.numbers.get(start..).unwrap_or_default();
            if let Some(&byte) = added.iter().find(|byte| **byte > 1) {
                return Err(not_a_bool(reader, byte));
            }
        }
        let start = reader.index("the size of all arrays", start as u64)?;
        let len = reader.index("the size of all arrays", bytes)?;
        Ok(SlotValue::Numbers(element, Span { start, len }))
    }

    async fn strings<S: ByteSource + ?Sized>(
        &mut self,
        reader: &mut HeaderReader<'_, S>,
        len: u32,
    ) -> Result<SlotValue, WeightsError> {
        let start = reader.index(
            "the number of all strings",
            self.metadata.offsets.len() as u64,
        )?;
        let count = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(1);
        reader.grow(&mut self.metadata.offsets, count, LEAST_STRING_BYTES)?;
        let first = self.text_end(reader)?;
        self.metadata.offsets.push(first);
        for _ in 0..len {
            if !reader.append_buffered_string(&mut self.text)? {
                self.append_string(reader, "the length of a string", limits::STRING_BYTES)
                    .await?;
            }
            let end = self.text_end(reader)?;
            self.metadata.offsets.push(end);
        }
        // All strings at once, which is much faster than each by itself: together they are UTF-8 and none begins
        // inside a character.
        let offsets = self
            .metadata
            .offsets
            .get(start as usize..)
            .unwrap_or_default();
        let together = std::str::from_utf8(self.added(first));
        let begins_a_character =
            |end: &u32| together.is_ok_and(|text| text.is_char_boundary((end - first) as usize));
        if !offsets.iter().all(begins_a_character) {
            return Err(self.not_utf8(reader, offsets));
        }
        Ok(SlotValue::Strings(Span { start, len }))
    }

    /// Says which string of an array is not UTF-8.
    fn not_utf8<S: ByteSource + ?Sized>(
        &self,
        reader: &HeaderReader<'_, S>,
        offsets: &[u32],
    ) -> WeightsError {
        let string = |pair: &[u32]| {
            self.text
                .get(*pair.first()? as usize..*pair.last()? as usize)
        };
        let is_not =
            |pair: &[u32]| string(pair).is_none_or(|bytes| std::str::from_utf8(bytes).is_err());
        let index = offsets.windows(2).position(is_not).unwrap_or_default();
        reader.malformed(format!("holds a string that is not UTF-8 at index {index}"))
    }
}

async fn value_type<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
) -> Result<ValueType, WeightsError> {
    let number = reader.u32().await?;
    ValueType::from_number(number)
        .ok_or_else(|| reader.malformed(format!("has the unknown value type {number}")))
}

/// The elements' type and number of an array; the file has bytes for as many at least.
async fn array_head<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
) -> Result<(ValueType, u32), WeightsError> {
    let element = value_type(reader).await?;
    let len = reader.u64().await?;
    reader.check_limit("the length of the array", len, limits::ARRAY_ELEMENTS)?;
    let least = match element {
        ValueType::String => LEAST_STRING_BYTES,
        ValueType::Array => LEAST_ARRAY_BYTES,
        number => number.size().unwrap_or(1) as u64,
    };
    reader.check_backed(len, least)?;
    Ok((element, reader.index("the length of the array", len)?))
}

/// Checks an array within an array, and passes over it.
async fn pass_inner_array<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
) -> Result<(), WeightsError> {
    let (element, len) = array_head(reader).await?;
    match element {
        ValueType::Array => reader.check_limit(
            "the nesting of arrays",
            limits::ARRAY_NESTING + 1,
            limits::ARRAY_NESTING,
        ),
        ValueType::String => {
            for _ in 0..len {
                let length = reader.u64().await?;
                reader.check_limit("the length of a string", length, limits::STRING_BYTES)?;
                reader.check_backed(length, 1)?;
                reader.skip(length);
            }
            Ok(())
        }
        number => {
            // `array_head` saw to it that the file has these bytes.
            reader.skip(u64::from(len) * number.size().unwrap_or(1) as u64);
            Ok(())
        }
    }
}

fn not_a_bool<S: ByteSource + ?Sized>(reader: &HeaderReader<'_, S>, byte: u8) -> WeightsError {
    reader.malformed(format!("holds the bool {byte}; a bool is 0 or 1"))
}
