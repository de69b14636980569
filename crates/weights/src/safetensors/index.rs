//! Which files hold the weights: one file, or the shards that an index names.

use std::fmt;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

use super::folder::{ENDING, Folder, INDEX, WHOLE};
use super::header::{Header, json_problem};
use crate::error::{QUOTED_CHARS, quoted};
use crate::{ByteSource, WeightsError, limits};

/// A file of weights, and the tensors that an index says it holds (sorted).
pub(super) type Shard = (String, Option<Vec<String>>);

/// The weight files. As transformers does: `model.safetensors` where it is there, else what the
/// index names; and else the only weight file.
pub(super) async fn shards<S: ByteSource + ?Sized>(
    folder: &Folder<'_, S>,
) -> Result<Vec<Shard>, WeightsError> {
    if folder.has(WHOLE) {
        return Ok(vec![(WHOLE.to_owned(), None)]);
    }
    if let Some(bytes) = folder.read(INDEX, limits::SAFETENSORS_HEADER_BYTES).await? {
        return parse(&folder.path(INDEX), &bytes, |name| folder.has(name));
    }
    let files: Vec<&str> = folder.weight_files().collect();
    match &files[..] {
        [only] => Ok(vec![((*only).to_owned(), None)]),
        [] => Err(WeightsError::NotFound {
            path: folder.path(WHOLE),
        }),
        _ => Err(WeightsError::NotReadable {
            path: folder.name().to_owned(),
            problem: format!(
                "has {} {ENDING} files and no {INDEX} that says which are the model's; add the index",
                files.len()
            ),
        }),
    }
}

/// Reads an index; `has` says which files are there.
fn parse(file: &str, json: &[u8], has: impl Fn(&str) -> bool) -> Result<Vec<Shard>, WeightsError> {
    let malformed = |problem: String| WeightsError::Malformed {
        file: file.to_owned(),
        place: "`weight_map`".to_owned(),
        problem,
    };
    let Index {
        weight_map: WeightMap {
            mut shards,
            by_tensor,
        },
    } = serde_json::from_slice(json).map_err(|error| malformed(json_problem(&error)))?;
    if by_tensor.is_empty() {
        return Err(malformed("names no tensor".to_owned()));
    }
    let mut tensors = vec![Vec::new(); shards.len()];
    for (tensor, shard) in by_tensor {
        tensors[shard].push(tensor);
    }
    let mut listed: Vec<Shard> = Vec::new();
    for (shard, mut tensors) in shards.drain(..).zip(tensors) {
        let shown = quoted(&shard, QUOTED_CHARS);
        // What is there has a plain name, so that a path would not be found either; the message is better.
        if shard.contains(['/', '\\', '\0']) || shard == ".." || !shard.ends_with(ENDING) {
            let problem =
                format!("names `{shown}`, which is no {ENDING} file of the folder itself");
            return Err(malformed(problem));
        }
        if !has(&shard) {
            let problem = format!("names `{shown}`, which is not in the folder");
            return Err(malformed(problem));
        }
        tensors.sort_unstable();
        listed.push((shard, Some(tensors)));
    }
    Ok(listed)
}

/// Holds a shard's tensors against what the index says of it: the same, each once.
pub(super) fn check<S: ByteSource + ?Sized>(
    folder: &Folder<'_, S>,
    shard: &str,
    header: &Header,
    listed: Option<&[String]>,
) -> Result<(), WeightsError> {
    let Some(listed) = listed else {
        return Ok(());
    };
    let malformed = |place: String, problem: String| {
        Err(WeightsError::Malformed {
            file: folder.path(shard),
            place,
            problem,
        })
    };
    for tensor in &header.tensors {
        if listed.binary_search(&tensor.name).is_err() {
            let place = format!("tensor `{}`", quoted(&tensor.name, QUOTED_CHARS));
            return malformed(
                place,
                "is in this file, but the index says otherwise".to_owned(),
            );
        }
    }
    // All of them are listed; a name that is there twice is refused later.
    let (found, listed) = (header.tensors.len(), listed.len());
    if found != listed {
        let problem = format!("has {found} tensors, where the index lists {listed}");
        return malformed("the header".to_owned(), problem);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Tensors, and which of the shards has each.
struct WeightMap {
    shards: Vec<String>,
    by_tensor: Vec<(String, usize)>,
}

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors and their files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut shards: Vec<String> = Vec::new();
        let mut by_tensor = Vec::new();
        while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
            if by_tensor.len() as u64 >= limits::TENSORS {
                let most = limits::TENSORS;
                return Err(A::Error::custom(format_args!("more than {most} tensors")));
            }
            let known = shards.iter().rposition(|known| *known == shard);
            let index = known.unwrap_or(shards.len());
            if known.is_none() {
                if shards.len() as u64 >= limits::PARTS {
                    let most = limits::PARTS;
                    return Err(A::Error::custom(format_args!("more than {most} files")));
                }
                shards.push(shard);
            }
            by_tensor.push((tensor, index));
        }
        Ok(WeightMap { shards, by_tensor })
    }
}
