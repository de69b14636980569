//! The tuned shape of the matmul kernels: measured when a model first meets a device, and kept, so that loading again
//! takes the same and an answer stays what it was.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use foretoken_core::Format;
use foretoken_engine::{Error, Quantization};
use foretoken_gpu::{AdapterReport, GpuOps, MatmulShape, Tier, TunedMatrix};
use foretoken_weights::Gguf;
use serde::{Deserialize, Serialize};

use crate::progress::Spinner;
use crate::{model_file, stderr};

/// The most bytes of a file of choices; ours stay far below.
const MOST_BYTES: u64 = 1 << 20;
/// The most choices that are kept; the oldest go first.
const MOST_CHOICES: usize = 256;
/// The most kinds of matrices that are measured.
const MOST_KINDS: usize = 2;

/// Where a device's shape comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Measured by this run.
    Measured,
    /// Measured by an earlier one.
    Kept,
    /// The device's class has it.
    ClassDefault,
}

impl Source {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Source::Measured => "measured now",
            Source::Kept => "measured before",
            Source::ClassDefault => "class default, not tuned",
        }
    }
}

/// What a choice was measured for. All of it must agree for the choice to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    adapter: String,
    driver: String,
    tier: String,
    build: String,
    /// The matrices, as `1536x576 q4_1, 576x1536 q4_1`.
    matrices: String,
}

impl Key {
    fn new(adapter: &AdapterReport, tier: Tier, matrices: &[TunedMatrix]) -> Self {
        let matrices: Vec<String> = matrices
            .iter()
            .map(|m| format!("{}x{} {}", m.rows, m.cols, m.format.name()))
            .collect();
        Self {
            adapter: adapter.name.clone(),
            driver: format!("{} {}", adapter.backend, adapter.driver),
            tier: tier.name().to_owned(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            matrices: matrices.join(", "),
        }
    }
}

/// One entry of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    #[serde(flatten)]
    key: Key,
    shape: String,
}

impl Choice {
    /// For people: what it was measured for, and what was chosen.
    pub fn describe(&self) -> String {
        format!(
            "tier {}, {}: {}",
            self.key.tier, self.key.matrices, self.shape
        )
    }
}

/// The file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Choices {
    choices: Vec<Choice>,
}

impl Choices {
    /// No file is no choices. `Err` says why a file cannot be used.
    fn read(file: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let opened = match fs::File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.to_string()),
        };
        opened
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        serde_json::from_slice(&bytes).map_err(|error| format!("not a list of choices: {error}"))
    }

    /// Replaces the file in one step, so that nobody reads half of one.
    fn write(&self, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = file.with_extension(format!("json.{}", std::process::id()));
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|bytes| fs::write(&unfinished, bytes))
            .and_then(|()| fs::rename(&unfinished, file));
        if written.is_err() {
            // What is not there need not be removed.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn find(&self, key: &Key) -> Option<&str> {
        let found = self.choices.iter().find(|choice| choice.key == *key)?;
        Some(&found.shape)
    }

    fn insert(&mut self, key: Key, shape: MatmulShape) {
        self.choices.retain(|choice| choice.key != key);
        self.choices.push(Choice {
            key,
            shape: shape.to_string(),
        });
        let surplus = self.choices.len().saturating_sub(MOST_CHOICES);
        self.choices.drain(..surplus);
    }
}

/// What is kept for an adapter by this build; nothing where the file cannot be read.
pub fn kept(adapter: &AdapterReport) -> Vec<Choice> {
    let choices = model_file::cache_folder().map(|folder| Choices::read(&file_in(&folder)));
    let Some(Ok(choices)) = choices else {
        return Vec::new();
    };
    let own = |choice: &Choice| {
        Tier::parse(&choice.key.tier).is_ok_and(|tier| {
            let matrices = choice.key.matrices.clone();
            let key = Key::new(adapter, tier, &[]);
            let shape = choice.shape.parse::<MatmulShape>();
            choice.key == Key { matrices, ..key }
                && shape.is_ok_and(|shape| shape.is_choice(adapter, tier))
        })
    };
    choices.choices.into_iter().filter(own).collect()
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("tuning.json")
}

/// The kinds of matrices that most of a model's weights are in, the heaviest first. Kinds that occur once (embeddings, the
/// head) are not counted: layers are what a pass is made of.
fn heaviest(gguf: &Gguf, quantize: Option<Quantization>) -> Vec<TunedMatrix> {
    let mut kinds: BTreeMap<(&str, u32, u32), (Format, u64, u32)> = BTreeMap::new();
    for tensor in &gguf.tensors {
        let dimensions = (u32::try_from(tensor.rows()), u32::try_from(tensor.cols()));
        if let (Ok(stored), (Ok(rows), Ok(cols))) = (tensor.format(), dimensions)
            && tensor.shape.len() == 2
        {
            let format = quantize.map_or(stored, |quantize| quantize.format(tensor, stored));
            let kind = kinds.entry((format.name(), rows, cols));
            let (_, bytes, count) = kind.or_insert((format, 0, 0));
            *bytes = bytes.saturating_add(tensor.bytes);
            *count += 1;
        }
    }
    let mut kinds: Vec<_> = kinds
        .into_iter()
        .filter(|(_, (_, _, count))| *count > 1)
        .collect();
    kinds.sort_by_key(|(_, (_, bytes, _))| std::cmp::Reverse(*bytes));
    kinds
        .into_iter()
        .take(MOST_KINDS)
        .map(|((_, rows, cols), (format, ..))| TunedMatrix { format, rows, cols })
        .collect()
}

/// Gives the device the shape that was measured for it and for matrices like this model's; measures and keeps one where
/// there is none. Where none can be kept the class's stays, as a shape that is measured each time could change answers.
pub async fn tune(
    ops: &mut GpuOps,
    gguf: &Gguf,
    quantize: Option<Quantization>,
) -> Result<Source, Error> {
    let matrices = heaviest(gguf, quantize);
    if matrices.is_empty() {
        return Ok(Source::ClassDefault);
    }
    let Some(folder) = model_file::cache_folder() else {
        stderr::line("warning: kernels are not tuned: set HOME, so that the choice can be kept");
        return Ok(Source::ClassDefault);
    };
    tune_in(ops, &matrices, &file_in(&folder)).await
}

async fn tune_in(ops: &mut GpuOps, matrices: &[TunedMatrix], file: &Path) -> Result<Source, Error> {
    let key = Key::new(ops.adapter(), ops.tier(), matrices);
    match take_kept(ops, &key, file) {
        Ok(true) => return Ok(Source::Kept),
        Ok(false) => {}
        Err(reason) => stderr::line(format_args!(
            "warning: {}: {reason}; kernels are tuned again",
            file.display()
        )),
    }
    let tuning = {
        let _spinner = Spinner::new("tuning kernels");
        ops.tune(matrices).await?
    };
    // Another process may have kept a choice meanwhile, which others take by now.
    if take_kept(ops, &key, file) == Ok(true) {
        return Ok(Source::Kept);
    }
    let mut choices = Choices::read(file).unwrap_or_default();
    choices.insert(key, tuning.shape);
    if let Err(error) = choices.write(file) {
        stderr::line(format_args!(
            "warning: kernels are not tuned: {} cannot be written: {error}",
            file.display()
        ));
        return Ok(Source::ClassDefault);
    }
    ops.set_matmul_shape(tuning.shape)?;
    Ok(Source::Measured)
}

/// Takes the shape that is kept under `key`, if there is one. `Err` says why what is kept cannot be used.
fn take_kept(ops: &mut GpuOps, key: &Key, file: &Path) -> Result<bool, String> {
    let choices = Choices::read(file)?;
    let Some(shape) = choices.find(key) else {
        return Ok(false);
    };
    let taken = shape.parse().and_then(|shape| ops.set_matmul_shape(shape));
    taken.map(|()| true).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            adapter: "an adapter".to_owned(),
            driver: "Vulkan driver 1".to_owned(),
            tier: "base".to_owned(),
            build: "1".to_owned(),
            matrices: "8x32 f32".to_owned(),
        }
    }

    fn shape(workgroup: u32) -> MatmulShape {
        format!("split=1,wg={workgroup},R=4,C=4,direct,rows")
            .parse()
            .unwrap()
    }

    #[test]
    fn choices_come_back_from_their_file() {
        let folder = std::env::temp_dir().join(format!("foretoken-tuning-{}", std::process::id()));
        let file = file_in(&folder.join("made"));
        assert_eq!(Choices::read(&file), Ok(Choices::default()), "no file");
        let mut choices = Choices::default();
        choices.insert(key(), shape(8));
        choices.write(&file).unwrap();
        choices.insert(key(), shape(16));
        choices.write(&file).unwrap();
        assert_eq!(choices.choices.len(), 1, "the same key is the same entry");
        let read = Choices::read(&file).unwrap();
        assert_eq!(read, choices);
        assert_eq!(read.find(&key()), Some(&*shape(16).to_string()));
        let others = std::fs::read_dir(folder.join("made")).unwrap().count();
        assert_eq!(others, 1, "nothing is left beside it");
        for wrong in [
            &b""[..],
            b"{",
            b"[]",
            b"\xff",
            br#"{"choices": [{"shape": 1}]}"#,
        ] {
            std::fs::write(&file, wrong).unwrap();
            Choices::read(&file).expect_err("no choices");
        }
        std::fs::write(&file, vec![b' '; (MOST_BYTES + 1) as usize]).unwrap();
        assert!(Choices::read(&file).unwrap_err().contains("1048576"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_choice_is_for_one_device_tier_build_and_kind_of_matrices() {
        let mut choices = Choices::default();
        choices.insert(key(), shape(8));
        let other = || "another".to_owned();
        for changed in [
            Key {
                adapter: other(),
                ..key()
            },
            Key {
                driver: other(),
                ..key()
            },
            Key {
                tier: other(),
                ..key()
            },
            Key {
                build: other(),
                ..key()
            },
            Key {
                matrices: other(),
                ..key()
            },
        ] {
            assert_eq!(choices.find(&changed), None, "{changed:?}");
        }
        assert!(choices.find(&key()).is_some());
    }

    #[test]
    fn the_oldest_choices_go() {
        let mut choices = Choices::default();
        for i in 0..=MOST_CHOICES {
            let build = i.to_string();
            choices.insert(Key { build, ..key() }, shape(8));
        }
        assert_eq!(choices.choices.len(), MOST_CHOICES);
        assert_eq!(choices.choices[0].key.build, "1");
    }

    #[test]
    fn a_models_heaviest_layers_are_measured() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/data/tiny_mixed.gguf"
        );
        let source = foretoken_weights::FileSource::open(path).unwrap();
        let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
        let kinds = heaviest(&gguf, None);
        assert_eq!(kinds.len(), MOST_KINDS);
        let bytes = |kind: &TunedMatrix| -> u64 {
            let same = gguf.tensors.iter().filter(|tensor| {
                (tensor.rows(), tensor.cols()) == (u64::from(kind.rows), u64::from(kind.cols))
                    && tensor.format().unwrap() == kind.format
            });
            assert!(same.clone().count() > 1, "{kind:?}");
            same.map(|tensor| tensor.bytes).sum()
        };
        assert!(bytes(&kinds[0]) >= bytes(&kinds[1]), "{kinds:?}");
        // As they are loaded, not as they are stored.
        let kinds = heaviest(&gguf, Some(Quantization::Q8_0));
        let plain = ["f16", "bf16"];
        assert!(
            kinds
                .iter()
                .all(|kind| !plain.contains(&kind.format.name())),
            "{kinds:?}"
        );
    }
}
