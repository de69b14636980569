//! Writes small valid GGUF files, for tests and tools.
//!
//! [`Forge::build`] also says where every field of the header lies, so that a test can damage one by name:
//!
//! ```
//! use foretoken_weights::forge::Forge;
//! let mut file = Forge::new()
//!     .metadata("general.architecture", "llama")
//!     .tensor("token_embd.weight", &[32, 4], 0, &[0; 4 * 32 * 4])
//!     .build();
//! file.patch("tensor[0].dims[1]", &0_u64.to_le_bytes()); // a dimension of 0
//! # let source = foretoken_weights::BytesSource(file.bytes);
//! # assert!(pollster::block_on(foretoken_weights::Gguf::read(&source)).is_err());
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ValueType;

/// A metadata value to write.
#[derive(Debug, Clone, PartialEq)]
pub enum ForgeValue {
    /// An integer.
    U8(u8),
    /// An integer.
    I8(i8),
    /// An integer.
    U16(u16),
    /// An integer.
    I16(i16),
    /// An integer.
    U32(u32),
    /// An integer.
    I32(i32),
    /// An integer.
    U64(u64),
    /// An integer.
    I64(i64),
    /// Single precision.
    F32(f32),
    /// Double precision.
    F64(f64),
    /// A bool.
    Bool(bool),
    /// Text; bytes, so that a test may write what is no UTF-8.
    String(Vec<u8>),
    /// An array whose elements all have the first type.
    Array(ValueType, Vec<ForgeValue>),
}

impl ForgeValue {
    fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F32(_) => ValueType::F32,
            Self::F64(_) => ValueType::F64,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(..) => ValueType::Array,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for ForgeValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
        impl From<&[$from]> for ForgeValue {
            fn from(values: &[$from]) -> Self {
                let items = values.iter().cloned().map(ForgeValue::from).collect();
                Self::Array(ValueType::$variant, items)
            }
        }
    )*};
}
value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64);
value_from!(f32 => F32, f64 => F64, bool => Bool, &str => String, String => String);

/// A GGUF file in the making.
#[derive(Debug, Clone)]
pub struct Forge {
    version: u32,
    metadata: Vec<(String, ForgeValue)>,
    tensors: Vec<ForgeTensor>,
}

#[derive(Debug, Clone)]
struct ForgeTensor {
    name: String,
    shape: Vec<u64>,
    ggml_type: u32,
    bytes: Vec<u8>,
}

/// A finished file.
#[derive(Debug, Clone)]
pub struct Forged {
    /// The file.
    pub bytes: Vec<u8>,
    /// Where the fields of its header lie. The names: `magic`, `version`, `tensor_count`, `entry_count`;
    /// `entry[i]` with `.key_len`, `.key`, `.type`, `.value`, of an array also `.element_type`, `.len` and
    /// `.items` (a string's `.value` includes its length, as an array's its head); `tensor[i]` with `.name_len`, `.name`,
    /// `.n_dims`, `.dims[j]`, `.type`, `.offset`, `.data`.
    pub fields: BTreeMap<String, Range<usize>>,
}

impl Forged {
    /// The bytes of a field. Panics without it.
    pub fn field(&self, name: &str) -> Range<usize> {
        match self.fields.get(name) {
            Some(range) => range.clone(),
            None => panic!("no field {name}; there are {:?}", self.fields.keys()),
        }
    }

    /// Overwrites the beginning of a field. Panics without the field, or if `bytes` is longer.
    pub fn patch(&mut self, name: &str, bytes: &[u8]) {
        let range = self.field(name);
        assert!(
            bytes.len() <= range.len(),
            "{name} has only {} bytes",
            range.len()
        );
        self.bytes[range.start..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Default for Forge {
    fn default() -> Self {
        Self::new()
    }
}

impl Forge {
    /// An empty file of version 3.
    pub fn new() -> Self {
        Self {
            version: 3,
            metadata: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Sets the version.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Adds a metadata entry. A `general.alignment` of type `u32` is heeded.
    pub fn metadata(mut self, key: &str, value: impl Into<ForgeValue>) -> Self {
        self.metadata.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a tensor: its dimensions (columns first), its ggml type number, its bytes.
    pub fn tensor(mut self, name: &str, shape: &[u64], ggml_type: u32, bytes: &[u8]) -> Self {
        self.tensors.push(ForgeTensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            ggml_type,
            bytes: bytes.to_vec(),
        });
        self
    }

    /// Adds a tensor of type F32 with these values.
    pub fn tensor_f32(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.tensor(name, shape, 0, &bytes)
    }

    /// Writes a split model: a part for each of `tensors`, with that many of the tensors. The first part has the
    /// metadata. Panics unless they add up to the tensors there are.
    pub fn split(&self, tensors: &[usize]) -> Vec<Forged> {
        assert_eq!(tensors.iter().sum::<usize>(), self.tensors.len());
        let mut rest = &self.tensors[..];
        let part = |(number, count): (u16, &usize)| {
            let (own, others) = rest.split_at(*count);
            rest = others;
            let part = Self {
                version: self.version,
                metadata: match number {
                    0 => self.metadata.clone(),
                    _ => Vec::new(),
                },
                tensors: own.to_vec(),
            };
            // The types that files in use have.
            let parts = u16::try_from(tensors.len()).unwrap_or(u16::MAX);
            let all = i32::try_from(self.tensors.len()).unwrap_or(i32::MAX);
            part.metadata("split.no", number)
                .metadata("split.count", parts)
                .metadata("split.tensors.count", all)
                .build()
        };
        (0..).zip(tensors).map(part).collect()
    }

    /// Writes the file.
    pub fn build(&self) -> Forged {
        let alignment = self.metadata.iter().find_map(|(key, value)| match value {
            ForgeValue::U32(alignment) if key == "general.alignment" => Some(*alignment as usize),
            _ => None,
        });
        // An alignment no file may have is still written, for a test to see it refused.
        let alignment = alignment
            .filter(|alignment| (1..=1 << 20).contains(alignment))
            .unwrap_or(32);

        let mut writer = Writer::default();
        writer.field("magic", |w| w.bytes.extend(b"GGUF"));
        writer.field("version", |w| w.bytes.extend(self.version.to_le_bytes()));
        writer.field("tensor_count", |w| w.len(self.tensors.len()));
        writer.field("entry_count", |w| w.len(self.metadata.len()));
        for (index, (key, value)) in self.metadata.iter().enumerate() {
            let entry = format!("entry[{index}]");
            writer.field(&entry, |w| {
                w.field(&format!("{entry}.key_len"), |w| w.len(key.len()));
                w.field(&format!("{entry}.key"), |w| w.bytes.extend(key.as_bytes()));
                w.field(&format!("{entry}.type"), |w| {
                    w.value_type(value.value_type())
                });
                w.field(&format!("{entry}.value"), |w| match value {
                    ForgeValue::Array(element, items) => {
                        w.field(&format!("{entry}.element_type"), |w| w.value_type(*element));
                        w.field(&format!("{entry}.len"), |w| w.len(items.len()));
                        w.field(&format!("{entry}.items"), |w| {
                            items.iter().for_each(|item| w.value(item))
                        });
                    }
                    value => w.value(value),
                });
            });
        }
        let mut offset = 0;
        for (index, tensor) in self.tensors.iter().enumerate() {
            let name = format!("tensor[{index}]");
            writer.field(&name, |w| {
                w.field(&format!("{name}.name_len"), |w| w.len(tensor.name.len()));
                w.field(&format!("{name}.name"), |w| {
                    w.bytes.extend(tensor.name.as_bytes())
                });
                let dimensions = u32::try_from(tensor.shape.len()).unwrap_or(u32::MAX);
                w.field(&format!("{name}.n_dims"), |w| {
                    w.bytes.extend(dimensions.to_le_bytes())
                });
                for (axis, dim) in tensor.shape.iter().enumerate() {
                    w.field(&format!("{name}.dims[{axis}]"), |w| {
                        w.bytes.extend(dim.to_le_bytes())
                    });
                }
                w.field(&format!("{name}.type"), |w| {
                    w.bytes.extend(tensor.ggml_type.to_le_bytes())
                });
                w.field(&format!("{name}.offset"), |w| w.len(offset));
            });
            offset = (offset + tensor.bytes.len()).next_multiple_of(alignment);
        }
        for (index, tensor) in self.tensors.iter().enumerate() {
            let padded = writer.bytes.len().next_multiple_of(alignment);
            writer.bytes.resize(padded, 0);
            writer.field(&format!("tensor[{index}].data"), |w| {
                w.bytes.extend(&tensor.bytes)
            });
        }
        Forged {
            bytes: writer.bytes,
            fields: writer.fields,
        }
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    fields: BTreeMap<String, Range<usize>>,
}

impl Writer {
    fn field(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        write(self);
        self.fields.insert(name.to_owned(), start..self.bytes.len());
    }

    fn len(&mut self, len: usize) {
        self.bytes.extend((len as u64).to_le_bytes());
    }

    fn value_type(&mut self, value_type: ValueType) {
        self.bytes.extend(value_type.number().to_le_bytes());
    }

    fn value(&mut self, value: &ForgeValue) {
        match value {
            ForgeValue::U8(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::I8(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::U16(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::I16(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::U32(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::I32(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::U64(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::I64(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::F32(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::F64(value) => self.bytes.extend(value.to_le_bytes()),
            ForgeValue::Bool(value) => self.bytes.push(u8::from(*value)),
            ForgeValue::String(value) => {
                self.len(value.len());
                self.bytes.extend(value);
            }
            ForgeValue::Array(element, items) => {
                self.value_type(*element);
                self.len(items.len());
                items.iter().for_each(|item| self.value(item));
            }
        }
    }
}
