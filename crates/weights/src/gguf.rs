//! GGUF versions 2 and 3: one parser, which reads a header and believes nothing in it unchecked.

mod ggml_type;
mod header;
pub mod limits;
mod metadata;
mod tensors;

pub use ggml_type::StoredType;
pub(crate) use metadata::NewValue;
pub use metadata::{Entry, Metadata, NumberArray, StringArray, Value, ValueType};
pub use tensors::TensorInfo;
pub(crate) use tensors::sorted_names;

use crate::error::{QUOTED_CHARS, quoted};
use crate::quant::{FORMATS, format_by_ggml_type};
use crate::split::{self, Part};
use crate::{ByteSource, Folder, TensorConvention, WeightsError, safetensors};
use header::HeaderReader;

/// The key that says how tensors are aligned.
const ALIGNMENT_KEY: &str = "general.alignment";
/// What it is where the key is absent.
const DEFAULT_ALIGNMENT: u32 = 32;

/// What a GGUF file holds: its metadata, and where its tensors lie. The weights stay in the file. The parts of a split
/// model are one file here: the metadata is the first part's, and offsets are those of the source that has the parts
/// one after another. A safetensors folder is one too: its `config.json` becomes metadata, and its tensors have GGUF's names.
#[derive(Debug, Clone)]
pub struct Gguf {
    /// The format's version, 2 or 3; 0 of a safetensors folder.
    pub version: u32,
    /// Keys and values.
    pub metadata: Metadata,
    /// The tensors, in the file's order. All lie inside the file and none overlap.
    pub tensors: Vec<TensorInfo>,
    /// Where the tensors' data begins (in the first part), in bytes from the file's start.
    pub data_offset: u64,
    /// Every tensor begins at a multiple of this from `data_offset`.
    pub alignment: u32,
    /// Who laid the tensors out.
    pub convention: TensorConvention,
    /// Indexes into `tensors`, sorted by name.
    pub(crate) by_name: Vec<u32>,
}

impl Gguf {
    /// Reads the header of `source`; of each of its [`ByteSource::parts`], where it is a split model; the configuration and the
    /// headers of a [`Folder`], where it is one.
    ///
    /// Fails on anything that is no valid GGUF file within [`limits`] (of a folder also on whatever of its configuration this build
    /// does not know to do), and on parts that do not say that they are
    /// these parts of this model (`split.count`, `split.no`, `split.tensors.count`). A tensor of a type this build does not
    /// read is no failure yet, so that such a file can be inspected: see [`Gguf::required_tensor`].
    pub async fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, WeightsError> {
        if let Some(folder) = Folder::of(source)? {
            return safetensors::read(&folder).await;
        }
        let parts = split::parts(source)?;
        let Some((first, others)) = parts.split_first() else {
            return Err(WeightsError::NotReadable {
                path: source.name().to_owned(),
                problem: "has no parts".to_owned(),
            });
        };
        let mut gguf = Self::read_part(first).await?;
        first.check(&gguf.metadata)?;
        let mut stated = Vec::new();
        for part in others {
            let Self {
                metadata, tensors, ..
            } = Self::read_part(part).await?;
            part.check(&metadata)?;
            let all = gguf.tensors.len().saturating_add(tensors.len()) as u64;
            if all > limits::TENSORS {
                return Err(WeightsError::Limit {
                    file: part.name().to_owned(),
                    place: "the list of tensors".to_owned(),
                    what: "the number of tensors of all parts so far",
                    value: all,
                    limit: limits::TENSORS,
                });
            }
            gguf.tensors.extend(tensors);
            stated.push((part, part.stated_tensors(&metadata)?));
        }
        let all = u32::try_from(gguf.tensors.len()).unwrap_or(u32::MAX);
        if !others.is_empty() {
            stated.push((first, first.stated_tensors(&gguf.metadata)?));
        }
        for (part, stated) in stated {
            part.check_tensors(stated, all)?;
        }
        if !others.is_empty() {
            gguf.by_name = tensors::sorted_names(source.name(), &gguf.tensors, all)?;
        }
        Ok(gguf)
    }

    /// Reads one part, whose offsets become those of the whole.
    async fn read_part<S: ByteSource + ?Sized>(part: &Part<'_, S>) -> Result<Self, WeightsError> {
        let mut reader = HeaderReader::new(part);
        let version = read_version(&mut reader).await?;
        let tensor_count = reader.u64().await?;
        let entry_count = reader.u64().await?;
        let metadata = Metadata::read(&mut reader, entry_count).await?;

        reader.set_place(format_args!("metadata key `{ALIGNMENT_KEY}`"));
        let alignment = metadata.u32(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() || !limits::ALIGNMENT.contains(&alignment) {
            return Err(reader.malformed(format!(
                "is {alignment}; an alignment is a power of two from {} to {}",
                limits::ALIGNMENT.start(),
                limits::ALIGNMENT.end()
            )));
        }
        let (mut tensors, by_name, data_offset) =
            tensors::read(&mut reader, tensor_count, alignment).await?;
        for tensor in &mut tensors {
            tensor.offset = tensor.offset.saturating_add(part.start());
        }
        Ok(Self {
            version,
            metadata,
            tensors,
            data_offset,
            alignment,
            convention: TensorConvention::Gguf,
            by_name,
        })
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let at = self
            .by_name
            .binary_search_by(|&index| (*self.tensors[index as usize].name).cmp(name))
            .ok()?;
        Some(&self.tensors[self.by_name[at] as usize])
    }

    /// The tensor of this name, in a format this build reads ([`TensorInfo::format`] is then never an error).
    pub fn required_tensor(&self, name: &str) -> Result<&TensorInfo, WeightsError> {
        let tensor = self
            .tensor(name)
            .ok_or_else(|| WeightsError::MissingTensor {
                tensor: quoted(name, QUOTED_CHARS),
            })?;
        tensor.format()?;
        Ok(tensor)
    }
}

/// The magic and the version.
async fn read_version<S: ByteSource + ?Sized>(
    reader: &mut HeaderReader<'_, S>,
) -> Result<u32, WeightsError> {
    let magic: [u8; 4] = reader.take().await?;
    if &magic != b"GGUF" {
        return Err(WeightsError::NotGguf {
            file: reader.file(),
            begins: format!("\"{}\"", magic.escape_ascii()),
        });
    }
    let version = reader.u32().await?;
    match version {
        2 | 3 => Ok(version),
        // 1, 2 or 3 with its bytes the other way round.
        _ if (1..=3).contains(&version.swap_bytes()) => Err(WeightsError::BigEndian {
            file: reader.file(),
        }),
        _ => Err(WeightsError::UnsupportedVersion {
            file: reader.file(),
            version,
        }),
    }
}

/// The ggml names of the types this build reads.
fn readable_types() -> String {
    let names: Vec<String> = FORMATS
        .iter()
        .map(|format| StoredType(format.ggml_type()).name())
        .collect();
    names.join(", ")
}

impl StoredType {
    /// The format that decodes it, if this build has one.
    pub fn format(self) -> Option<foretoken_core::Format> {
        format_by_ggml_type(self.0)
    }
}
