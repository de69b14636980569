//! The largest counts and lengths that are read. Real files stay far below them; what is above is damage or malice.

use std::ops::RangeInclusive;

/// Files of a split model or of a folder.
pub const PARTS: u64 = 1024;
/// Metadata entries of a file.
pub const METADATA_ENTRIES: u64 = 65_536;
/// Tensors of a file, and of all files of a split model.
pub const TENSORS: u64 = 65_536;
/// Bytes of a string value.
pub const STRING_BYTES: u64 = 16 << 20;
/// Bytes of a metadata key or a tensor's name, as the format itself says of keys.
pub const NAME_BYTES: u64 = 65_535;
/// Elements of an array.
pub const ARRAY_ELEMENTS: u64 = 16_000_000;
/// Arrays within one another: an array of arrays is the most.
pub const ARRAY_NESTING: u64 = 2;
/// Bytes of all text, and of all numbers in arrays, that a header's metadata holds.
pub const METADATA_BYTES: u64 = u32::MAX as u64;
/// Dimensions of a tensor.
pub const DIMENSIONS: RangeInclusive<u32> = 1..=4;
/// Bytes of a safetensors file's header, and of the index of a sharded model.
pub const SAFETENSORS_HEADER_BYTES: u64 = 100_000_000;
/// Alignment of tensors, a power of two.
pub const ALIGNMENT: RangeInclusive<u32> = 8..=65_536;
