//! The header of one safetensors file: 8 bytes of length, that much JSON, then the tensors side by side.

use std::fmt;

use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::folder::Folder;
use crate::error::{QUOTED_CHARS, quoted};
use crate::{ByteSource, WeightsError, limits};

/// Bytes before the JSON.
const LENGTH_BYTES: u64 = 8;

/// A file's header.
#[derive(Debug)]
pub(super) struct Header {
    /// Where the tensors' data begins in the source.
    pub(super) data_offset: u64,
    /// In the order of their bytes, which are all of the file's.
    pub(super) tensors: Vec<HeaderTensor>,
}

/// A tensor as the header states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeaderTensor {
    pub(super) name: String,
    pub(super) dtype: String,
    /// Rows first.
    pub(super) shape: Vec<u64>,
    /// Its bytes, from the beginning of the data; `begin <= end`.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// Reads a file's header. Every byte after it belongs to exactly one tensor.
pub(super) async fn read<S: ByteSource + ?Sized>(
    folder: &Folder<'_, S>,
    file: &str,
) -> Result<Header, WeightsError> {
    let path = folder.path(file);
    let (start, len) = folder.extent(file).unwrap_or_default();
    let length = folder.read_range(file, 0, LENGTH_BYTES).await?;
    let length = u64::from_le_bytes(*length.first_chunk().unwrap_or(&[0; 8]));
    if length > limits::SAFETENSORS_HEADER_BYTES {
        return Err(WeightsError::Limit {
            file: path,
            place: "the header".to_owned(),
            what: "its length in bytes",
            value: length,
            limit: limits::SAFETENSORS_HEADER_BYTES,
        });
    }
    let json = folder.read_range(file, LENGTH_BYTES, length).await?;
    let data = LENGTH_BYTES.saturating_add(length);
    let tensors = parse(&path, &json, len.saturating_sub(data))?;
    Ok(Header {
        data_offset: start.saturating_add(data),
        tensors,
    })
}

/// The tensors of a header before `data` bytes, sorted by where they lie.
pub(super) fn parse(file: &str, json: &[u8], data: u64) -> Result<Vec<HeaderTensor>, WeightsError> {
    let malformed = |place: String, problem: String| WeightsError::Malformed {
        file: file.to_owned(),
        place,
        problem,
    };
    let List(mut tensors) = serde_json::from_slice(json)
        .map_err(|error| malformed("the header".to_owned(), json_problem(&error)))?;
    tensors.sort_unstable_by_key(|tensor| (tensor.begin, tensor.end));
    let mut at = 0;
    for tensor in &tensors {
        let place = || format!("tensor `{}`", quoted(&tensor.name, QUOTED_CHARS));
        let (begin, end) = (tensor.begin, tensor.end);
        if begin > end || end > data {
            let problem =
                format!("lies from byte {begin} to {end} of the data, which has {data} bytes");
            return Err(malformed(place(), problem));
        }
        if begin != at {
            let problem = format!(
                "begins at byte {begin} of the data, but what is before it ends at {at}: tensors lie side by side"
            );
            return Err(malformed(place(), problem));
        }
        at = end;
    }
    if at != data {
        let problem = format!("describes {at} bytes of data, but {data} follow");
        return Err(malformed("the header".to_owned(), problem));
    }
    Ok(tensors)
}

/// What is wrong with JSON, completing "<place> …".
pub(super) fn json_problem(error: &serde_json::Error) -> String {
    format!("cannot be read: {}", quoted(&error.to_string(), 200))
}

struct List(Vec<HeaderTensor>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List, A::Error> {
        let mut tensors: Vec<HeaderTensor> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if tensors.len() as u64 >= limits::TENSORS {
                let most = limits::TENSORS;
                return Err(A::Error::custom(format_args!("more than {most} tensors")));
            }
            let Stated {
                dtype,
                shape: Shape(shape),
                data_offsets: (begin, end),
            } = map.next_value()?;
            tensors.push(HeaderTensor {
                name,
                dtype,
                shape,
                begin,
                end,
            });
        }
        Ok(List(tensors))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

/// A shape of no more dimensions than are read, however many the file goes on to state.
struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a shape")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut shape = Vec::new();
        while let Some(dim) = items.next_element()? {
            let most = *limits::DIMENSIONS.end();
            if shape.len() as u64 >= u64::from(most) {
                return Err(A::Error::custom(format_args!(
                    "more than {most} dimensions"
                )));
            }
            shape.push(dim);
        }
        Ok(Shape(shape))
    }
}
