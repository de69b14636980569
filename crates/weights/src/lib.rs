//! Model files: GGUF and safetensors folders over an asynchronous [`ByteSource`], and the quantisation formats, host side.
//!
//! The one hard idea: **a model file is hostile until every number in it was compared with the bytes that
//! back it**. A file says how long its strings, arrays and tensors are; nothing is allocated, multiplied or
//! sliced on its word alone. [`Gguf::read`] therefore walks the header through a window of at most half a
//! mebibyte, compares every length with what is left of the file *before* it reserves memory for it, keeps
//! text in one blob with offsets (a vocabulary of 262,144 strings is two allocations, not 262,144), and hands
//! out a description of tensors that all lie inside the file and do not overlap. Whatever a GGUF file holds, reading
//! its header never allocates more than twice the file and one mebibyte; a [`Folder`] costs the bytes of its headers, some hundred
//! bytes for each of at most 65,536 tensors, and a small multiple of a configuration of at most one mebibyte. Neither panics.
//!
//! Weights stay in the file: [`RowBlocks`] streams a tensor's rows through one small buffer. What the bytes of
//! a row mean is a quantisation format's business, one file each in `quant/`.

mod bits;
mod convention;
mod error;
#[cfg(not(target_arch = "wasm32"))]
mod file_source;
pub mod forge;
mod gguf;
pub mod quant;
mod rows;
mod safetensors;
mod source;
mod split;

pub use convention::TensorConvention;
pub use error::WeightsError;
#[cfg(not(target_arch = "wasm32"))]
pub use file_source::FileSource;
pub use gguf::{
    Entry, Gguf, Metadata, NumberArray, StoredType, StringArray, TensorInfo, Value, ValueType,
    limits,
};
pub use quant::{FORMATS, format_by_ggml_type, format_by_name};
pub use rows::{DEFAULT_BLOCK_BYTES, RowBlock, RowBlocks, read_vector_f32};
pub use safetensors::{CONFIG_BYTES, Folder, is_folder_file};
pub use source::{ByteSource, BytesSource};
pub use split::{PartName, part_name};
