//! Models split into several files are read as one, and only if the files are its parts.

use foretoken_weights::forge::{Forge, ForgeValue};
use foretoken_weights::{ByteSource, BytesSource, Gguf, WeightsError, read_vector_f32};

/// Parts in memory, one after another.
struct Parts {
    bytes: BytesSource<Vec<u8>>,
    lengths: Vec<u64>,
}

impl Parts {
    fn new(parts: &[Vec<u8>]) -> Self {
        Self {
            bytes: BytesSource(parts.concat()),
            lengths: parts.iter().map(|part| part.len() as u64).collect(),
        }
    }
}

impl ByteSource for Parts {
    fn name(&self) -> &str {
        "model"
    }
    fn len(&self) -> u64 {
        self.bytes.len()
    }
    fn parts(&self) -> Vec<u64> {
        self.lengths.clone()
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        self.bytes.read(offset, into).await
    }
}

/// Seven vectors, `t0` to `t6`, of other values each.
fn model() -> Forge {
    (0..7).fold(
        Forge::new().metadata("general.architecture", "llama"),
        |forge, index| {
            let values: Vec<f32> = (0..index + 1).map(|i| (100 * index + i) as f32).collect();
            forge.tensor_f32(&format!("t{index}"), &[values.len() as u64], &values)
        },
    )
}

fn split(forge: &Forge, tensors: &[usize]) -> Vec<Vec<u8>> {
    let parts = forge.split(tensors).into_iter();
    parts.map(|part| part.bytes).collect()
}

fn read(parts: &[Vec<u8>]) -> Result<Gguf, WeightsError> {
    pollster::block_on(Gguf::read(&Parts::new(parts)))
}

#[test]
fn parts_read_as_the_whole_they_were() {
    let whole = model().build().bytes;
    let whole_source = BytesSource(whole);
    let expected = pollster::block_on(Gguf::read(&whole_source)).unwrap();
    for tensors in [&[7][..], &[3, 4], &[0, 5, 2], &[1, 1, 1, 1, 1, 1, 1]] {
        let parts = split(&model(), tensors);
        let source = Parts::new(&parts);
        let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
        assert_eq!(
            gguf.metadata.str("general.architecture").unwrap(),
            Some("llama")
        );
        assert_eq!(gguf.tensors.len(), 7);
        for tensor in &expected.tensors {
            let found = gguf.required_tensor(&tensor.name).unwrap();
            assert_eq!(
                pollster::block_on(read_vector_f32(&source, found)).unwrap(),
                pollster::block_on(read_vector_f32(&whole_source, tensor)).unwrap(),
                "{} of {tensors:?}",
                tensor.name
            );
        }
    }
}

#[test]
fn what_is_not_the_parts_of_one_model_is_refused_by_key_and_value() {
    let parts = split(&model(), &[3, 2, 2]);
    let pick = |order: &[usize]| order.iter().map(|i| parts[*i].clone()).collect::<Vec<_>>();
    // A part whose key is of another model.
    let with = |index: usize, key: &str, value: ForgeValue| {
        let mut forge = Forge::new();
        for (name, own) in [
            ("split.no", ForgeValue::U16(index as u16)),
            ("split.count", ForgeValue::U16(3)),
            ("split.tensors.count", ForgeValue::I32(7)),
        ] {
            forge = forge.metadata(name, if name == key { value.clone() } else { own });
        }
        let mut parts = parts.clone();
        forge = forge.tensor_f32("t5", &[1], &[0.0]);
        parts[index] = forge.tensor_f32("t6", &[1], &[0.0]).build().bytes;
        parts
    };
    let plain = Forge::new().tensor_f32("t", &[1], &[0.0]).build().bytes;
    type Case<'a> = (&'a str, Vec<Vec<u8>>, &'a [&'a str]);
    #[rustfmt::skip]
    let cases: Vec<Case> = vec![
        ("the first alone", pick(&[0]), &["`split.count` is 3", "one file was given"]),
        ("a later one alone", pick(&[2]), &["`split.count` is 3", "one file was given"]),
        ("one is missing", pick(&[0, 1]), &["`split.count` is 3", "2 files were given"]),
        ("another order", pick(&[0, 2, 1]), &["part 2 of 3", "`split.no` is 2"]),
        ("one twice", pick(&[0, 1, 1]), &["part 3 of 3", "`split.no` is 1"]),
        ("no parts", vec![plain.clone(), plain], &["`split.count` is missing"]),
        ("count 0", with(2, "split.count", ForgeValue::U16(0)), &["`split.count` is 0"]),
        ("count of 2^16 - 1", with(2, "split.count", ForgeValue::U16(u16::MAX)), &["`split.count` is 65535"]),
        ("count of 2^64 - 1", with(2, "split.count", ForgeValue::U64(u64::MAX)), &["`split.count`", "18446744073709551615"]),
        ("count -1", with(2, "split.count", ForgeValue::I32(-1)), &["`split.count`", "-1"]),
        ("count as text", with(2, "split.count", "3".into()), &["`split.count`", "string"]),
        ("no number", with(2, "split.no", ForgeValue::I64(i64::MIN)), &["`split.no`", "-9223372036854775808"]),
        ("number 3", with(2, "split.no", ForgeValue::U16(3)), &["`split.no` is 3"]),
        ("6 tensors", with(2, "split.tensors.count", ForgeValue::I32(6)), &["`split.tensors.count` is 6", "the parts have 7"]),
        ("-7 tensors", with(2, "split.tensors.count", ForgeValue::I32(-7)), &["`split.tensors.count`", "-7"]),
    ];
    for (name, parts, words) in cases {
        let message = match read(&parts) {
            Ok(_) => panic!("{name}: read"),
            Err(error) => error.to_string(),
        };
        for word in words {
            assert!(
                message.contains(word),
                "{name}: `{word}` is not in: {message}"
            );
        }
        assert!(!message.contains('\n'), "{name}: {message}");
    }
    assert!(matches!(read(&[]), Err(WeightsError::NotReadable { .. })));
}

#[test]
fn a_tensor_in_two_parts_is_a_duplicate() {
    let twice = model().tensor_f32("t0", &[1], &[0.0]);
    let message = read(&split(&twice, &[4, 4])).unwrap_err().to_string();
    assert!(message.contains("`t0` is there twice"), "{message}");
}

#[test]
fn a_tensor_must_lie_in_its_own_part() {
    let mut parts = split(&model(), &[3, 4]);
    // All bytes are there, but the last of the first part's are the second's.
    let kept = parts[0].len() - 8;
    let moved = parts[0].split_off(kept);
    parts[1].splice(0..0, moved);
    let message = read(&parts).unwrap_err().to_string();
    assert!(
        message.contains("part 1 of 2") && message.contains("past the end of the file"),
        "{message}"
    );
}

#[test]
fn more_parts_than_are_read_are_refused() {
    let parts = vec![Vec::new(); 1025];
    let message = read(&parts).unwrap_err().to_string();
    assert!(
        message.contains("1025") && message.contains("1024"),
        "{message}"
    );
}

#[test]
fn a_model_that_was_merged_again_says_0_parts() {
    let merged = model().metadata("split.count", 0_u16).build().bytes;
    assert_eq!(read(&[merged]).unwrap().tensors.len(), 7);
}
