//! [`Metadata`]: a header's keys and values, kept compactly.

mod build;
mod read;
mod value;

use crate::WeightsError;
use crate::error::{QUOTED_CHARS, quoted};
pub(crate) use build::NewValue;
pub use value::{NumberArray, StringArray, Value, ValueType};

/// Keys and values of a GGUF header.
///
/// All text lies in one string and all numbers of arrays in one byte vector; an entry is 24 bytes that point
/// there. So a file of many tiny entries, or of a large vocabulary, takes no more memory than file.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    entries: Vec<Slot>,
    /// Indexes into `entries`, sorted by key.
    by_key: Vec<u32>,
    /// Keys, strings, and the strings of arrays.
    text: String,
    /// For an array of n strings n + 1 offsets into `text`.
    offsets: Vec<u32>,
    /// The elements of arrays of numbers, as in the file.
    numbers: Vec<u8>,
}

/// Part of a vector: where it starts and how long it is.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

/// An entry.
#[derive(Debug, Clone, Copy)]
struct Slot {
    key: Span,
    value: SlotValue,
}

/// An entry's value, or where it lies.
#[derive(Debug, Clone, Copy)]
enum SlotValue {
    Unsigned(ValueType, u64),
    Signed(ValueType, i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    /// In `text`.
    Text(Span),
    /// `len` strings; the first of their `len + 1` offsets.
    Strings(Span),
    /// Bytes of `numbers`.
    Numbers(ValueType, Span),
    /// An array of this many arrays, which nobody needs and which is not kept.
    Nested(u32),
}

/// A key and its value.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value. Its `Display` is short and fit for a terminal.
    pub value: Value<'a>,
    stored: Option<ValueType>,
}

impl Entry<'_> {
    /// The value's type as GGUF calls it: `u32`, `string`, `array of 49152 strings`.
    pub fn type_name(&self) -> String {
        match (self.value, self.stored) {
            (_, Some(stored)) => stored.name().to_owned(),
            (value, None) => value.type_name(),
        }
    }
}

impl Metadata {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries.iter().map(|slot| self.entry(slot))
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<Entry<'_>> {
        let at = self
            .by_key
            .binary_search_by(|&index| self.key(&self.entries[index as usize]).cmp(key))
            .ok()?;
        Some(self.entry(&self.entries[self.by_key[at] as usize]))
    }

    /// The integer of a key, of whatever integer type, if it fits; `None` without the key.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, WeightsError> {
        const EXPECTED: &str = "an integer from 0 to 4294967295";
        self.typed(key, EXPECTED, |value| match value {
            Value::Unsigned(value) => u32::try_from(value).map_err(|_| Mismatch::Range),
            Value::Signed(value) => u32::try_from(value).map_err(|_| Mismatch::Range),
            _ => Err(Mismatch::Type),
        })
    }

    /// The finite number of a key, stored in single or double precision; `None` without the key.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, WeightsError> {
        self.typed(key, "a finite number with a fraction (f32)", |value| {
            let value = match value {
                Value::F32(value) => value,
                // Rounds; what rounds to infinity does not fit.
                Value::F64(value) => value as f32,
                _ => return Err(Mismatch::Type),
            };
            if value.is_finite() {
                Ok(value)
            } else {
                Err(Mismatch::Range)
            }
        })
    }

    /// The bool of a key; `None` without the key.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, WeightsError> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(value) => Ok(value),
            _ => Err(Mismatch::Type),
        })
    }

    /// The string of a key; `None` without the key.
    pub fn str(&self, key: &str) -> Result<Option<&str>, WeightsError> {
        self.typed(key, "a string", |value| match value {
            Value::Str(value) => Ok(value),
            _ => Err(Mismatch::Type),
        })
    }

    /// The strings of a key, not copied; `None` without the key.
    pub fn string_array(&self, key: &str) -> Result<Option<StringArray<'_>>, WeightsError> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Strings(value) => Ok(value),
            _ => Err(Mismatch::Type),
        })
    }

    /// The integers of a key, of whatever integer type, if all fit; `None` without the key.
    pub fn u32_array(&self, key: &str) -> Result<Option<Vec<u32>>, WeightsError> {
        self.int_array(key, "an array of integers from 0 to 4294967295")
    }

    /// The integers of a key, of whatever integer type, if all fit; `None` without the key.
    pub fn i32_array(&self, key: &str) -> Result<Option<Vec<i32>>, WeightsError> {
        self.int_array(key, "an array of integers from -2147483648 to 2147483647")
    }

    /// The numbers of a key, stored in single or double precision, finite or not; `None` without the key.
    pub fn f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, WeightsError> {
        self.typed(
            key,
            "an array of numbers with a fraction (f32)",
            |value| match value {
                Value::Numbers(numbers) => numbers
                    .floats()
                    .map(Iterator::collect)
                    .ok_or(Mismatch::Type),
                _ => Err(Mismatch::Type),
            },
        )
    }

    /// [`Metadata::u32`] of a key that must be there.
    pub fn required_u32(&self, key: &str) -> Result<u32, WeightsError> {
        required(key, "an integer", self.u32(key)?)
    }

    /// [`Metadata::f32`] of a key that must be there.
    pub fn required_f32(&self, key: &str) -> Result<f32, WeightsError> {
        required(key, "a number with a fraction (f32)", self.f32(key)?)
    }

    /// [`Metadata::bool`] of a key that must be there.
    pub fn required_bool(&self, key: &str) -> Result<bool, WeightsError> {
        required(key, "a bool", self.bool(key)?)
    }

    /// [`Metadata::str`] of a key that must be there.
    pub fn required_str(&self, key: &str) -> Result<&str, WeightsError> {
        required(key, "a string", self.str(key)?)
    }

    /// [`Metadata::string_array`] of a key that must be there.
    pub fn required_string_array(&self, key: &str) -> Result<StringArray<'_>, WeightsError> {
        required(key, "an array of strings", self.string_array(key)?)
    }

    /// [`Metadata::u32_array`] of a key that must be there.
    pub fn required_u32_array(&self, key: &str) -> Result<Vec<u32>, WeightsError> {
        required(key, "an array of integers", self.u32_array(key)?)
    }

    /// [`Metadata::i32_array`] of a key that must be there.
    pub fn required_i32_array(&self, key: &str) -> Result<Vec<i32>, WeightsError> {
        required(key, "an array of integers", self.i32_array(key)?)
    }

    /// [`Metadata::f32_array`] of a key that must be there.
    pub fn required_f32_array(&self, key: &str) -> Result<Vec<f32>, WeightsError> {
        required(
            key,
            "an array of numbers with a fraction (f32)",
            self.f32_array(key)?,
        )
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(Value<'a>) -> Result<T, Mismatch>,
    ) -> Result<Option<T>, WeightsError> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        convert(entry.value)
            .map(Some)
            .map_err(|mismatch| match mismatch {
                Mismatch::Type => WeightsError::WrongType {
                    key: quoted(key, QUOTED_CHARS),
                    expected,
                    found: entry.type_name(),
                },
                Mismatch::Range => WeightsError::OutOfRange {
                    key: quoted(key, QUOTED_CHARS),
                    expected,
                    value: entry.value.to_string(),
                },
                Mismatch::ElementRange(index, value) => WeightsError::OutOfRange {
                    key: format!("{}[{index}]", quoted(key, QUOTED_CHARS)),
                    expected,
                    value,
                },
            })
    }

    fn int_array<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<Vec<T>>, WeightsError> {
        self.typed(key, expected, |value| {
            let Value::Numbers(numbers) = value else {
                return Err(Mismatch::Type);
            };
            let fit = |(index, value): (usize, i128)| {
                T::try_from(value).map_err(|_| Mismatch::ElementRange(index, value.to_string()))
            };
            numbers
                .integers()
                .ok_or(Mismatch::Type)?
                .enumerate()
                .map(fit)
                .collect()
        })
    }

    fn key(&self, slot: &Slot) -> &str {
        self.slice(slot.key)
    }

    fn slice(&self, span: Span) -> &str {
        &self.text[span.start as usize..][..span.len as usize]
    }

    fn entry(&self, slot: &Slot) -> Entry<'_> {
        let (value, stored) = match slot.value {
            SlotValue::Unsigned(stored, value) => (Value::Unsigned(value), Some(stored)),
            SlotValue::Signed(stored, value) => (Value::Signed(value), Some(stored)),
            SlotValue::F32(value) => (Value::F32(value), Some(ValueType::F32)),
            SlotValue::F64(value) => (Value::F64(value), Some(ValueType::F64)),
            SlotValue::Bool(value) => (Value::Bool(value), Some(ValueType::Bool)),
            SlotValue::Text(span) => (Value::Str(self.slice(span)), Some(ValueType::String)),
            SlotValue::Strings(Span { start, len }) => {
                let offsets = &self.offsets[start as usize..][..len as usize + 1];
                (
                    Value::Strings(StringArray {
                        text: &self.text,
                        offsets,
                    }),
                    None,
                )
            }
            SlotValue::Numbers(element, Span { start, len }) => {
                let bytes = &self.numbers[start as usize..][..len as usize];
                (Value::Numbers(NumberArray { element, bytes }), None)
            }
            SlotValue::Nested(len) => (Value::Nested { len }, None),
        };
        Entry {
            key: self.key(slot),
            value,
            stored,
        }
    }
}

/// Why a value is not what was asked for.
enum Mismatch {
    /// It has another type.
    Type,
    /// It does not fit.
    Range,
    /// The element at an index, which has this value, does not fit.
    ElementRange(usize, String),
}

fn required<T>(key: &str, expected: &'static str, value: Option<T>) -> Result<T, WeightsError> {
    value.ok_or_else(|| WeightsError::MissingKey {
        key: quoted(key, QUOTED_CHARS),
        expected,
    })
}
