//! [`Value`] and the arrays in it: views of what [`super::Metadata`] keeps.

use std::fmt;

use crate::error::quoted;

/// Characters of a string that its short form shows.
const SHORT_CHARS: usize = 60;
/// Elements of an array that its short form shows.
const SHORT_ELEMENTS: usize = 4;

/// The types of GGUF's values, by their numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// Every type, in the order of their numbers.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The type of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The type's number in a file.
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// Its name: `u8` … `f64`, `bool`, `string`, `array`.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Bytes of a value; `None` for strings and arrays, which say it themselves.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

/// A metadata value. Its `Display` is one short line without control characters.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Any unsigned type.
    Unsigned(u64),
    /// Any signed type.
    Signed(i64),
    /// Single precision.
    F32(f32),
    /// Double precision.
    F64(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Str(&'a str),
    /// An array of strings.
    Strings(StringArray<'a>),
    /// An array of numbers or bools.
    Numbers(NumberArray<'a>),
    /// An array of arrays. Its contents are checked, but not kept.
    Nested {
        /// How many arrays.
        len: u32,
    },
}

impl Value<'_> {
    /// A name for the value's type; the exact one of a scalar is [`super::Entry::type_name`]'s.
    pub(super) fn type_name(&self) -> String {
        match self {
            Value::Unsigned(_) => "an unsigned integer".to_owned(),
            Value::Signed(_) => "a signed integer".to_owned(),
            Value::F32(_) => "f32".to_owned(),
            Value::F64(_) => "f64".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Str(_) => "string".to_owned(),
            Value::Strings(strings) => format!("array of {} strings", strings.len()),
            Value::Numbers(numbers) => {
                format!("array of {} {}", numbers.len(), numbers.element.name())
            }
            Value::Nested { len } => format!("array of {len} arrays"),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(value) => write!(f, "{value}"),
            Value::Signed(value) => write!(f, "{value}"),
            Value::F32(value) => write!(f, "{value}"),
            Value::F64(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Str(value) => write!(f, "\"{}\"", quoted(value, SHORT_CHARS)),
            Value::Strings(strings) => {
                let shown = strings
                    .iter()
                    .map(|string| format!("\"{}\"", quoted(string, SHORT_CHARS / SHORT_ELEMENTS)));
                write_list(f, shown, strings.len())
            }
            Value::Numbers(numbers) => match (numbers.integers(), numbers.floats()) {
                (Some(integers), _) => write_list(f, integers, numbers.len()),
                (None, Some(floats)) => write_list(f, floats, numbers.len()),
                (None, None) => write_list(
                    f,
                    numbers.bytes.iter().map(|byte| *byte != 0),
                    numbers.len(),
                ),
            },
            Value::Nested { len } => write!(f, "[{len} arrays]"),
        }
    }
}

fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    len: usize,
) -> fmt::Result {
    f.write_str("[")?;
    for (index, item) in items.take(SHORT_ELEMENTS).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    f.write_str(if len > SHORT_ELEMENTS { ", …]" } else { "]" })
}

/// An array of strings, which lie one after another in one text.
#[derive(Debug, Clone, Copy)]
pub struct StringArray<'a> {
    pub(super) text: &'a str,
    /// One more than there are strings; string i lies from offset i to offset i + 1.
    pub(super) offsets: &'a [u32],
}

impl<'a> StringArray<'a> {
    /// How many strings.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string at an index.
    pub fn get(&self, index: usize) -> Option<&'a str> {
        let start = *self.offsets.get(index)? as usize;
        let end = *self.offsets.get(index.checked_add(1)?)? as usize;
        self.text.get(start..end)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let text = self.text;
        self.offsets
            .windows(2)
            .map(move |pair| &text[pair[0] as usize..pair[1] as usize])
    }
}

/// An array of numbers or bools, as it lies in the file.
#[derive(Debug, Clone, Copy)]
pub struct NumberArray<'a> {
    pub(super) element: ValueType,
    pub(super) bytes: &'a [u8],
}

impl<'a> NumberArray<'a> {
    /// The elements' type.
    pub fn element(&self) -> ValueType {
        self.element
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.size().unwrap_or(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The elements, if their type is an integer's (bools are not integers).
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + use<'a>> {
        let decode: fn(&[u8]) -> i128 = match self.element {
            ValueType::U8 => |bytes| u8::from_le_bytes(fixed(bytes)).into(),
            ValueType::I8 => |bytes| i8::from_le_bytes(fixed(bytes)).into(),
            ValueType::U16 => |bytes| u16::from_le_bytes(fixed(bytes)).into(),
            ValueType::I16 => |bytes| i16::from_le_bytes(fixed(bytes)).into(),
            ValueType::U32 => |bytes| u32::from_le_bytes(fixed(bytes)).into(),
            ValueType::I32 => |bytes| i32::from_le_bytes(fixed(bytes)).into(),
            ValueType::U64 => |bytes| u64::from_le_bytes(fixed(bytes)).into(),
            ValueType::I64 => |bytes| i64::from_le_bytes(fixed(bytes)).into(),
            _ => return None,
        };
        Some(self.bytes.chunks_exact(self.element.size()?).map(decode))
    }

    /// The elements as flags, if their type is bool or an integer's, where 0 is no.
    pub fn flags(&self) -> Option<impl Iterator<Item = bool> + use<'a>> {
        let size = match self.element {
            ValueType::F32 | ValueType::F64 => return None,
            element => element.size()?,
        };
        let set = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
        Some(self.bytes.chunks_exact(size).map(set))
    }

    /// The elements in single precision, if their type is single or double precision.
    pub fn floats(&self) -> Option<impl Iterator<Item = f32> + use<'a>> {
        let decode: fn(&[u8]) -> f32 = match self.element {
            ValueType::F32 => |bytes| f32::from_le_bytes(fixed(bytes)),
            ValueType::F64 => |bytes| f64::from_le_bytes(fixed(bytes)) as f32,
            _ => return None,
        };
        Some(self.bytes.chunks_exact(self.element.size()?).map(decode))
    }
}

/// The bytes of an element; `chunks_exact` made them as many as its type has.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().unwrap_or(&[0; N])
}
