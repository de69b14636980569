//! Folders with safetensors files, as transformers writes them: read into the same [`Gguf`] that a GGUF file gives.
//!
//! The one hard idea: **a folder is a [`ByteSource`] whose parts have names** ([`ByteSource::file_names`]). So whoever holds one
//! (a disk, a browser) only lists files, and no name inside a file ever opens another: the index of a sharded model picks among
//! the files that are there. What comes out has GGUF's tensor names and metadata keys, and an architecture does not
//! know the difference, but for what [`TensorConvention`](crate::TensorConvention) says.
//!
//! The header is read here and not by the `safetensors` crate (which the tests compare with): its offsets are `usize`, 32 bits in
//! a browser, where a shard may have more bytes than that; and of a name that is there twice it keeps one.

mod config;
mod folder;
mod header;
mod index;
mod names;
mod rope;
#[cfg(test)]
mod tests;

pub use folder::{Folder, is_folder_file};

use crate::error::{QUOTED_CHARS, quoted};
use crate::gguf::{Gguf, StoredType, TensorInfo, limits, sorted_names};
use crate::{ByteSource, TensorConvention, WeightsError};
use config::Config;
use header::{Header, HeaderTensor};
use names::Name;

/// The most bytes of `config.json` and `generation_config.json`; they have a few thousand.
pub const CONFIG_BYTES: u64 = 1 << 20;
/// What the dtypes of safetensors that are read are in GGUF, and bytes of a weight.
const DTYPES: [(&str, StoredType, u64); 3] = [
    ("F32", StoredType(0), 4),
    ("F16", StoredType(1), 2),
    ("BF16", StoredType(30), 2),
];

/// Reads the header of a folder.
pub(crate) async fn read<S: ByteSource + ?Sized>(
    folder: &Folder<'_, S>,
) -> Result<Gguf, WeightsError> {
    if folder.has(folder::ADAPTER) {
        return Err(WeightsError::UnsupportedConfig {
            file: folder.path(folder::ADAPTER),
            key: "peft_type".to_owned(),
            value: "an adapter's".to_owned(),
            supported: "merge the adapter into its model and save that".to_owned(),
        });
    }
    let config_file = folder.path(folder::CONFIG);
    let bytes = folder.read(folder::CONFIG, CONFIG_BYTES).await?;
    let bytes = bytes.ok_or_else(|| WeightsError::NotFound {
        path: config_file.clone(),
    })?;
    let config = Config::parse(&config_file, &bytes)?;

    let mut tensors = Vec::new();
    let shards = index::shards(folder).await?;
    for (shard, listed) in &shards {
        let header = header::read(folder, shard).await?;
        index::check(folder, shard, &header, listed.as_deref())?;
        let Header {
            data_offset,
            tensors: found,
            ..
        } = header;
        let all = tensors.len().saturating_add(found.len()) as u64;
        if all > limits::TENSORS {
            return Err(WeightsError::Limit {
                file: folder.path(shard),
                place: "the list of tensors".to_owned(),
                what: "the number of tensors of all shards so far",
                value: all,
                limit: limits::TENSORS,
            });
        }
        let file = folder.path(shard);
        for tensor in found {
            let name = match names::gguf_name(&tensor.name, &config) {
                Name::Left => continue,
                Name::Gguf(name) => name,
                // The loader refuses what no architecture asks for.
                Name::Other => tensor.name.clone(),
            };
            tensors.push(place(&file, tensor, name, data_offset)?);
        }
    }
    let count = u32::try_from(tensors.len()).unwrap_or(u32::MAX);
    let by_name = sorted_names(folder.name(), &tensors, count)?;
    let gguf = Gguf {
        version: 0,
        metadata: config.metadata(),
        tensors,
        data_offset: 0,
        alignment: 1,
        convention: TensorConvention::HuggingFace,
        by_name,
    };
    config.check(&gguf)?;
    Ok(gguf)
}

/// The tensor as GGUF describes one: columns first, at its place in the whole source.
fn place(
    file: &str,
    tensor: HeaderTensor,
    name: String,
    data_offset: u64,
) -> Result<TensorInfo, WeightsError> {
    let found = DTYPES.iter().find(|(dtype, ..)| *dtype == tensor.dtype);
    let Some(&(_, stored, size)) = found else {
        return Err(WeightsError::UnsupportedFormat {
            tensor: quoted(&tensor.name, QUOTED_CHARS),
            stored: quoted(&tensor.dtype, QUOTED_CHARS),
            readable: DTYPES.map(|(dtype, ..)| dtype).join(", "),
        });
    };
    let malformed = |problem: String| WeightsError::Malformed {
        file: file.to_owned(),
        place: format!("tensor `{}`", quoted(&tensor.name, QUOTED_CHARS)),
        problem,
    };
    let shape: Box<[u64]> = tensor.shape.iter().rev().copied().collect();
    if shape.is_empty() {
        return Err(malformed("has no dimension; 1 to 4 are read".to_owned()));
    }
    if shape.contains(&0) {
        return Err(malformed("has a dimension of size 0".to_owned()));
    }
    let weights = shape
        .iter()
        .try_fold(1_u64, |product, dim| product.checked_mul(*dim));
    let bytes = weights.and_then(|weights| weights.checked_mul(size));
    let stated = tensor.end - tensor.begin;
    if bytes != Some(stated) {
        return Err(malformed(format!(
            "has {stated} bytes, which are not its shape's {} weights of {}",
            shape
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(" x "),
            tensor.dtype
        )));
    }
    Ok(TensorInfo {
        name: name.into(),
        shape,
        stored,
        offset: data_offset.saturating_add(tensor.begin),
        bytes: stated,
    })
}
