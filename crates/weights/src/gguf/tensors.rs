//! [`TensorInfo`], and the part of the header that lists tensors.

use foretoken_core::Format;

use super::header::HeaderReader;
use super::{StoredType, limits, readable_types};
use crate::error::{QUOTED_CHARS, quoted};
use crate::{ByteSource, WeightsError};

/// The fewest bytes a tensor takes in the header: a name of one byte, one dimension, type, offset.
const LEAST_INFO_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// Where a tensor lies in the file, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, not empty and unique in the file.
    pub name: Box<str>,
    /// Its 1 to 4 dimensions in the file's order, none 0: the first is a row's length.
    pub shape: Box<[u64]>,
    /// The type its weights are stored in, which this build may not read.
    pub stored: StoredType,
    /// Where its bytes begin, from the file's start.
    pub offset: u64,
    /// How many they are; all inside the file. 0 where ggml has no size for the type.
    pub bytes: u64,
}

impl TensorInfo {
    /// The format of its weights, or an error that names the type where this build does not read it.
    pub fn format(&self) -> Result<Format, WeightsError> {
        self.stored
            .format()
            .ok_or_else(|| WeightsError::UnsupportedFormat {
                tensor: quoted(&self.name, QUOTED_CHARS),
                stored: self.stored.name(),
                readable: readable_types(),
            })
    }

    /// Weights in a row: the first dimension.
    pub fn cols(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Rows: the product of the other dimensions, so 1 for a vector.
    pub fn rows(&self) -> u64 {
        // The product of all dimensions was checked when the header was read.
        self.shape.iter().skip(1).product()
    }

    /// The shape as text, columns first: `576 x 49152`.
    pub fn shape_text(&self) -> String {
        let dims: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        dims.join(" x ")
    }
}

/// Reads `count` tensors and checks them against the file: the tensors, their indexes sorted by name, and where
/// their data begins.
pub(super) async fn read<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
    count: u64,
    alignment: u32,
) -> Result<(Vec<TensorInfo>, Vec<u32>, u64), WeightsError> {
    reader.set_place(format_args!("the list of tensors"));
    reader.check_limit("the number of tensors", count, limits::TENSORS)?;
    reader.check_backed(count, LEAST_INFO_BYTES)?;
    let count = reader.index("the number of tensors", count)?;

    let mut tensors = Vec::new();
    reader.reserve(&mut tensors, usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut scratch = Vec::new();
    for index in 0..count {
        reader.set_place(format_args!("tensor number {index}"));
        tensors.push(read_one(reader, &mut scratch).await?);
    }

    let by_name = sorted_names(&reader.file(), &tensors, count)?;
    let data_offset = reader
        .position()
        .checked_next_multiple_of(u64::from(alignment))
        .ok_or_else(|| reader.malformed("ends beyond 2^64 bytes".to_owned()))?;
    for tensor in &mut tensors {
        reader.set_place(format_args!(
            "tensor `{}`",
            quoted(&tensor.name, QUOTED_CHARS)
        ));
        place_in_file(reader, tensor, data_offset, alignment)?;
    }
    check_overlaps(reader, &tensors, count)?;
    Ok((tensors, by_name, data_offset))
}

/// One entry of the list. Its `offset` is still the file's, relative to the data.
async fn read_one<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
    scratch: &mut Vec<u8>,
) -> Result<TensorInfo, WeightsError> {
    let length = reader.u64().await?;
    reader.check_limit("the length of its name", length, limits::NAME_BYTES)?;
    reader.check_backed(length, 1)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    scratch.clear();
    reader.grow(scratch, length, 1)?;
    reader.append(length, scratch).await?;
    let name: Box<str> = match std::str::from_utf8(scratch) {
        Ok("") => return Err(reader.malformed("has an empty name".to_owned())),
        Ok(name) => name.into(),
        Err(_) => return Err(reader.malformed("has a name that is not UTF-8".to_owned())),
    };
    reader.set_place(format_args!("tensor `{}`", quoted(&name, QUOTED_CHARS)));

    let dimensions = reader.u32().await?;
    if !limits::DIMENSIONS.contains(&dimensions) {
        return Err(reader.malformed(format!("has {dimensions} dimensions; 1 to 4 are read")));
    }
    let mut dims = [0; *limits::DIMENSIONS.end() as usize];
    let mut weights = 1_u64;
    let mut used = 0;
    for dim in dims
        .iter_mut()
        .take(usize::try_from(dimensions).unwrap_or(0))
    {
        *dim = reader.u64().await?;
        if *dim == 0 {
            return Err(reader.malformed(format!("has dimension {used} of size 0")));
        }
        weights = weights.checked_mul(*dim).ok_or_else(|| {
            reader.malformed(format!(
                "has 2^64 or more weights at dimension {used}: an overflow"
            ))
        })?;
        used += 1;
    }
    let shape: Box<[u64]> = dims.get(..used).unwrap_or_default().into();

    let stored = StoredType(reader.u32().await?);
    let bytes = match stored.block() {
        None => 0,
        Some((block_len, block_bytes)) => {
            let cols = shape.first().copied().unwrap_or(0);
            if !cols.is_multiple_of(block_len) {
                return Err(reader.malformed(format!(
                    "has rows of {cols} weights, no whole number of {} blocks of {block_len}",
                    stored.name()
                )));
            }
            (weights / block_len)
                .checked_mul(block_bytes)
                .ok_or_else(|| {
                    reader.malformed("takes 2^64 or more bytes: an overflow".to_owned())
                })?
        }
    };
    let offset = reader.u64().await?;
    Ok(TensorInfo {
        name,
        shape,
        stored,
        offset,
        bytes,
    })
}

/// Makes a tensor's offset absolute, once it is known to be aligned and to keep the tensor inside the file.
fn place_in_file<S: ByteSource + ?Sized>(
    reader: &HeaderReader<'_, S>,
    tensor: &mut TensorInfo,
    data_offset: u64,
    alignment: u32,
) -> Result<(), WeightsError> {
    let relative = tensor.offset;
    if !relative.is_multiple_of(u64::from(alignment)) {
        return Err(reader.malformed(format!(
            "has the misaligned offset {relative}, no multiple of {alignment}"
        )));
    }
    let start = data_offset.checked_add(relative);
    let end = start.and_then(|start| start.checked_add(tensor.bytes));
    let (Some(start), Some(end)) = (start, end) else {
        return Err(reader.malformed(format!(
            "has the offset {relative} and {} bytes, which add up to an overflow",
            tensor.bytes
        )));
    };
    if end > reader.len() {
        return Err(reader.malformed(format!(
            "ends at byte {end}, past the end of the file at {}; the file may be truncated",
            reader.len()
        )));
    }
    tensor.offset = start;
    Ok(())
}

/// The tensors' indexes, sorted by name. Fails where two tensors of `file` have the same.
pub(crate) fn sorted_names(
    file: &str,
    tensors: &[TensorInfo],
    count: u32,
) -> Result<Vec<u32>, WeightsError> {
    let name = |index: u32| &*tensors[index as usize].name;
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| name(a).cmp(name(b)));
    for pair in order.windows(2) {
        if let &[a, b] = pair
            && name(a) == name(b)
        {
            return Err(WeightsError::Malformed {
                file: file.to_owned(),
                place: format!("tensor `{}`", quoted(name(a), QUOTED_CHARS)),
                problem: "is there twice: a duplicate name".to_owned(),
            });
        }
    }
    Ok(order)
}

/// Fails where two tensors share bytes.
fn check_overlaps<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
    tensors: &[TensorInfo],
    count: u32,
) -> Result<(), WeightsError> {
    let tensor = |index: u32| &tensors[index as usize];
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_unstable_by_key(|&index| (tensor(index).offset, tensor(index).bytes));
    for pair in order.windows(2) {
        if let &[a, b] = pair {
            let (a, b) = (tensor(a), tensor(b));
            // Neither sum can overflow: both tensors lie inside the file.
            if a.offset + a.bytes > b.offset {
                reader.set_place(format_args!("tensor `{}`", quoted(&a.name, QUOTED_CHARS)));
                let other = quoted(&b.name, QUOTED_CHARS);
                return Err(
                    reader.malformed(format!("overlaps tensor `{other}` at byte {}", b.offset))
                );
            }
        }
    }
    Ok(())
}
