//! Valid files with one named damage each.

use foretoken_weights::forge::{Forge, ForgeValue, Forged};
use foretoken_weights::{BytesSource, Gguf, RowBlocks, ValueType};

use crate::read;

const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q4_K: u32 = 12;
const IQ4_XS: u32 = 23;

/// The file that is damaged: every kind of value, three tensors.
pub fn valid() -> Forge {
    Forge::new()
        .metadata("general.architecture", "llama")
        .metadata("general.alignment", 32_u32)
        .metadata("flag", true)
        .metadata("tokens", &["a", "bc", "", "déf"][..])
        .metadata("scores", &[1.0_f32, -2.0][..])
        .metadata("flags", &[true, false][..])
        .metadata(
            "nested",
            ForgeValue::Array(
                ValueType::Array,
                vec![(&["x"][..]).into(), (&[1_u16, 2][..]).into()],
            ),
        )
        .metadata("count", 7_u64)
        .tensor("embd", &[32, 4], Q4_0, &[1; 4 * 18])
        .tensor("norm", &[32], F32, &[2; 128])
        .tensor("other", &[256, 1], Q4_K, &[3; 144])
}

fn patched(field: &str, bytes: &[u8]) -> Vec<u8> {
    let mut file = valid().build();
    file.patch(field, bytes);
    file.bytes
}

fn le32(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn le64(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

/// One tensor of these dimensions, with as many bytes behind it.
fn tensor_of(shape: &[u64], ggml_type: u32) -> Vec<u8> {
    Forge::new()
        .tensor("t", shape, ggml_type, &[0; 256])
        .build()
        .bytes
}

fn aligned(alignment: u32) -> Vec<u8> {
    Forge::new()
        .metadata("general.alignment", alignment)
        .build()
        .bytes
}

/// Every damage: its name, the file, and words its message must hold.
pub fn cases() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let mut cases: Vec<(&'static str, Vec<u8>, &'static [&'static str])> = Vec::new();
    let mut case = |name, bytes, words| cases.push((name, bytes, words));

    case("an empty file", vec![], &["truncated", "the header"]);
    case("three bytes", b"GGU".to_vec(), &["truncated"]);
    case(
        "a web page",
        b"<!DOCTYPE html>".to_vec(),
        &["not a GGUF file", "<!DO"],
    );
    case(
        "another magic",
        patched("magic", b"GGML"),
        &["not a GGUF file", "GGML"],
    );
    case(
        "a magic of control characters",
        patched("magic", b"\n\x1b[2"),
        &["\\n\\x1b[2"],
    );
    case("version 0", patched("version", &le32(0)), &["version 0"]);
    case(
        "version 1",
        patched("version", &le32(1)),
        &["version 1", "2 and 3"],
    );
    case("version 4", patched("version", &le32(4)), &["version 4"]);
    case(
        "version 2^32-1",
        patched("version", &le32(u32::MAX)),
        &["version 4294967295"],
    );
    case(
        "big-endian",
        patched("version", &3_u32.to_be_bytes()),
        &["big-endian"],
    );

    case(
        "entry count 2^64-1",
        patched("entry_count", &le64(u64::MAX)),
        &["metadata entries", "65536"],
    );
    case(
        "entry count beyond the file",
        patched("entry_count", &le64(60_000)),
        &["truncated", "metadata"],
    );
    case(
        "one entry too many",
        patched("entry_count", &le64(9)),
        &["tensor number 0"],
    );
    case(
        "tensor count 2^64-1",
        patched("tensor_count", &le64(u64::MAX)),
        &["number of tensors", "65536"],
    );
    case(
        "tensor count beyond the file",
        patched("tensor_count", &le64(60_000)),
        &["truncated", "tensors"],
    );
    case(
        "one tensor too many",
        patched("tensor_count", &le64(4)),
        &["tensor"],
    );

    case(
        "key length 2^64-1",
        patched("entry[0].key_len", &le64(u64::MAX)),
        &["length of the key"],
    );
    case(
        "key length beyond the file",
        patched("entry[0].key_len", &le64(60_000)),
        &["truncated", "number 0"],
    );
    case(
        "an empty key",
        Forge::new().metadata("", 1_u32).build().bytes,
        &["empty key"],
    );
    case(
        "a key that is not UTF-8",
        patched("entry[0].key", &[0xff]),
        &["UTF-8", "number 0"],
    );
    case(
        "the same key twice",
        Forge::new()
            .metadata("twin", 1_u32)
            .metadata("x", 0_u8)
            .metadata("twin", 2_u32)
            .build()
            .bytes,
        &["`twin`", "duplicate key"],
    );
    case(
        "a key of control characters",
        Forge::new()
            .metadata("\u{1b}[2J\n", 1_u32)
            .metadata("\u{1b}[2J\n", 1_u32)
            .build()
            .bytes,
        &["\\u{1b}[2J\\n", "duplicate key"],
    );
    case(
        "value type 13",
        patched("entry[1].type", &le32(13)),
        &["`general.alignment`", "value type 13"],
    );
    case(
        "value type 2^32-1",
        patched("entry[1].type", &le32(u32::MAX)),
        &["value type 4294967295"],
    );
    case(
        "bool 2",
        patched("entry[2].value", &[2]),
        &["`flag`", "bool 2"],
    );
    case(
        "a bool in an array of 255",
        patched("entry[5].items", &[1, 255]),
        &["`flags`", "bool 255"],
    );
    case(
        "string length 2^64-1",
        patched("entry[0].value", &le64(u64::MAX)),
        &["length of the string"],
    );
    case(
        "string length beyond the file",
        patched("entry[0].value", &le64(9_999)),
        &["truncated"],
    );
    case(
        "a string that is not UTF-8",
        patched("entry[0].value", &[5, 0, 0, 0, 0, 0, 0, 0, b'l', 0xc0]),
        &["`general.architecture`", "UTF-8", "byte 1"],
    );
    case(
        "a token that is not UTF-8",
        patched("entry[3].items", &[1, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        &["`tokens`", "UTF-8"],
    );
    case(
        "a character cut by the strings' border",
        cut_character(),
        &["`tokens`", "UTF-8", "index 1"],
    );
    case(
        "array length 2^64-1",
        patched("entry[4].len", &le64(u64::MAX)),
        &["`scores`", "length of the array"],
    );
    case(
        "array length 2^62",
        patched("entry[4].len", &le64(1 << 62)),
        &["length of the array"],
    );
    case(
        "array length beyond the file",
        patched("entry[4].len", &le64(1_000_000)),
        &["truncated", "`scores`"],
    );
    case(
        "string array beyond the file",
        patched("entry[3].len", &le64(15_000_000)),
        &["truncated", "`tokens`"],
    );
    case(
        "nested array beyond the file",
        patched("entry[6].len", &le64(15_000_000)),
        &["truncated", "`nested`"],
    );
    case(
        "a length in a nested array",
        patched("entry[6].items", &[8, 0, 0, 0, 255, 255, 255, 255, 255]),
        &["`nested`", "length of the array"],
    );
    case(
        "element type 13",
        patched("entry[4].element_type", &le32(13)),
        &["`scores`", "value type 13"],
    );
    case(
        "three nested arrays",
        nested(3),
        &["nesting", "3", "the limit is 2"],
    );
    case("a thousand nested arrays", nested(1_000), &["nesting"]);

    case("alignment 0", aligned(0), &["alignment", "is 0"]);
    case("alignment 3", aligned(3), &["alignment", "is 3"]);
    case("alignment 4", aligned(4), &["is 4", "power of two"]);
    case("alignment 2^31", aligned(1 << 31), &["is 2147483648"]);
    case(
        "an alignment of text",
        Forge::new()
            .metadata("general.alignment", "32")
            .build()
            .bytes,
        &["general.alignment", "string"],
    );
    case(
        "a negative alignment",
        Forge::new()
            .metadata("general.alignment", -32_i32)
            .build()
            .bytes,
        &["-32"],
    );

    case(
        "name length 2^64-1",
        patched("tensor[0].name_len", &le64(u64::MAX)),
        &["length of its name"],
    );
    case(
        "name length beyond the file",
        patched("tensor[0].name_len", &le64(9_999)),
        &["truncated", "number 0"],
    );
    case(
        "an empty tensor name",
        Forge::new().tensor("", &[1], F32, &[0; 4]).build().bytes,
        &["empty name"],
    );
    case(
        "a tensor name that is not UTF-8",
        patched("tensor[0].name", &[0xff]),
        &["UTF-8"],
    );
    case(
        "the same tensor twice",
        Forge::new()
            .tensor("t", &[1], F32, &[0; 4])
            .tensor("t", &[2], F32, &[0; 8])
            .build()
            .bytes,
        &["`t`", "duplicate name"],
    );
    case(
        "0 dimensions",
        patched("tensor[0].n_dims", &le32(0)),
        &["`embd`", "0 dimensions"],
    );
    case(
        "5 dimensions",
        tensor_of(&[1, 1, 1, 1, 1], F32),
        &["5 dimensions"],
    );
    case(
        "2^32-1 dimensions",
        patched("tensor[0].n_dims", &le32(u32::MAX)),
        &["4294967295 dimensions"],
    );
    case(
        "dimension 0 of 0",
        tensor_of(&[0, 2, 2, 2], F32),
        &["dimension 0 of size 0"],
    );
    case(
        "dimension 1 of 0",
        tensor_of(&[2, 0, 2, 2], F32),
        &["dimension 1 of size 0"],
    );
    case(
        "dimension 2 of 0",
        tensor_of(&[2, 2, 0, 2], F32),
        &["dimension 2 of size 0"],
    );
    case(
        "dimension 3 of 0",
        tensor_of(&[2, 2, 2, 0], F32),
        &["dimension 3 of size 0"],
    );
    case(
        "2^63 weights",
        tensor_of(&[1 << 63], F32),
        &["2^64", "overflow"],
    );
    case(
        "2^64-1 weights",
        tensor_of(&[u64::MAX], F32),
        &["2^64", "overflow"],
    );
    case("2^64-1 bytes", tensor_of(&[u64::MAX], 24), &["overflow"]);
    case(
        "2^64 weights",
        tensor_of(&[1 << 32, 1 << 32], F32),
        &["2^64", "overflow"],
    );
    case(
        "weights that wrap to 4",
        tensor_of(&[(1 << 62) + 1, 4], F32),
        &["overflow"],
    );
    case(
        "bytes that wrap to 4",
        tensor_of(&[(1 << 62) + 1], F32),
        &["overflow"],
    );
    case(
        "bytes that wrap to 144",
        tensor_of(&[(1 << 61) + 18], 28),
        &["`t`", "overflow"],
    );
    case(
        "2^42+1 rows of 2^22",
        tensor_of(&[1 << 22, (1 << 42) + 1], F32),
        &["overflow"],
    );
    case(
        "just over 2^32 weights",
        tensor_of(&[65_537, 65_536], F32),
        &["past the end"],
    );
    case(
        "just over 2^32 bytes",
        tensor_of(&[(1 << 30) + 1], F32),
        &["past the end"],
    );
    case(
        "4 dimensions of 2^16",
        tensor_of(&[1 << 16; 4], 24),
        &["overflow"],
    );
    case(
        "rows of half a block",
        tensor_of(&[16, 8], Q4_0),
        &["16 weights", "Q4_0"],
    );
    case(
        "rows of half a block of an unread type",
        tensor_of(&[128, 2], Q4_K),
        &["128 weights", "Q4_K"],
    );

    case(
        "a misaligned offset",
        patched("tensor[1].offset", &le64(97)),
        &["`norm`", "misaligned", "97"],
    );
    case(
        "an offset past the end",
        patched("tensor[2].offset", &le64(1 << 20)),
        &["`other`", "past the end"],
    );
    case(
        "an offset of 2^64-32",
        patched("tensor[1].offset", &le64(u64::MAX - 31)),
        &["`norm`", "overflow"],
    );
    case(
        "an end that wraps",
        patched("tensor[1].offset", &le64(u64::MAX - 1023)),
        &["`norm`"],
    );
    case(
        "the same offset twice",
        patched("tensor[1].offset", &le64(0)),
        &["overlaps", "`norm`", "`embd`"],
    );
    case(
        "an offset inside a tensor",
        patched("tensor[1].offset", &le64(64)),
        &["`embd`", "overlaps", "`norm`"],
    );
    case("two tensors whose sum wraps", wrapping_sum(), &["`a`"]);
    case(
        "data cut by one byte",
        {
            let mut b = valid().build().bytes;
            b.pop();
            b
        },
        &["`other`", "past the end"],
    );
    case(
        "no data",
        {
            let f = valid().build();
            f.bytes[..f.field("tensor[0].data").start].to_vec()
        },
        &["past the end"],
    );
    cases
}

/// "é" with its first byte in one token and its second in the next: together valid, apart not.
fn cut_character() -> Vec<u8> {
    let half = |byte| ForgeValue::String(vec![byte]);
    let whole = ForgeValue::from("ok");
    let tokens = ForgeValue::Array(ValueType::String, vec![whole, half(0xc3), half(0xa9)]);
    Forge::new().metadata("tokens", tokens).build().bytes
}

/// Arrays within one another.
fn nested(depth: u32) -> Vec<u8> {
    let innermost = ForgeValue::from(&[1_u8][..]);
    let value = (1..depth).fold(innermost, |inner, _| {
        ForgeValue::Array(ValueType::Array, vec![inner])
    });
    Forge::new().metadata("deep", value).build().bytes
}

/// Two tensors of 2^63 bytes each: their padded sum is 0.
fn wrapping_sum() -> Vec<u8> {
    let mut file: Forged = Forge::new()
        .tensor("a", &[1], 24, &[0; 32])
        .tensor("b", &[1], 24, &[0; 32])
        .build();
    file.patch("tensor[0].dims[0]", &le64(1 << 63));
    file.patch("tensor[1].dims[0]", &le64(1 << 63));
    file.patch("tensor[1].offset", &le64(1 << 63));
    file.bytes
}

#[test]
fn every_damage_is_refused_by_name() {
    let cases = cases();
    assert!(cases.len() >= 60);
    for (name, bytes, words) in cases {
        let message = match read(&bytes) {
            Ok(_) => panic!("{name}: was read"),
            Err(error) => error.to_string(),
        };
        for word in words {
            assert!(message.contains(word), "{name}: no {word:?} in: {message}");
        }
        assert!(
            !message.chars().any(char::is_control),
            "{name}: {message:?}"
        );
        assert!(message.len() < 500, "{name}: {message}");
    }
}

#[test]
fn the_undamaged_file_is_read() {
    for version in [2, 3] {
        let file = valid().version(version).build();
        let gguf = read(&file.bytes).unwrap();
        assert_eq!((gguf.version, gguf.alignment), (version, 32));
        assert_eq!(
            gguf.tensors[0].offset,
            file.field("tensor[0].data").start as u64
        );
        assert_eq!(
            gguf.tensors[2].offset,
            file.field("tensor[2].data").start as u64
        );
        let tokens = gguf.metadata.required_string_array("tokens").unwrap();
        assert_eq!(tokens.iter().collect::<Vec<_>>(), ["a", "bc", "", "déf"]);
        assert_eq!(
            (tokens.get(3), tokens.get(4), tokens.get(usize::MAX)),
            (Some("déf"), None, None)
        );
        let names: Vec<String> = gguf
            .metadata
            .iter()
            .map(|entry| entry.type_name())
            .collect();
        assert_eq!(
            names,
            [
                "string",
                "u32",
                "bool",
                "array of 4 strings",
                "array of 2 f32",
                "array of 2 bool",
                "array of 2 arrays",
                "u64"
            ]
        );
    }
}

#[test]
fn empty_files_are_valid_models() {
    let nothing = read(&Forge::new().build().bytes).unwrap();
    assert!(nothing.metadata.is_empty() && nothing.tensors.is_empty());
    let no_tensors = read(&Forge::new().metadata("a", 1_u8).build().bytes).unwrap();
    assert_eq!(
        (no_tensors.metadata.len(), no_tensors.tensors.len()),
        (1, 0)
    );
    let no_entries = read(&Forge::new().tensor("t", &[1], F32, &[0; 4]).build().bytes).unwrap();
    assert_eq!(
        (no_entries.metadata.len(), no_entries.tensors.len()),
        (0, 1)
    );
}

#[test]
fn a_type_that_is_not_read_can_be_listed_but_not_loaded() {
    let unknown = Forge::new()
        .tensor("k", &[256, 2], IQ4_XS, &[0; 272])
        .tensor("z", &[7], 99, &[0; 32])
        .tensor("old", &[32], 4, &[0; 32])
        .build();
    let gguf = read(&unknown.bytes).unwrap();
    let names: Vec<String> = gguf
        .tensors
        .iter()
        .map(|tensor| tensor.stored.name())
        .collect();
    assert_eq!(names, ["IQ4_XS", "type 99 (unknown)", "Q4_2"]);
    assert_eq!(gguf.tensors[0].bytes, 272);

    let message = gguf.required_tensor("k").unwrap_err().to_string();
    assert!(
        message.contains("tensor `k` is stored as IQ4_XS, which this build does not read"),
        "{message}"
    );
    assert!(
        message.contains(
            "BF16, F16, F32, IQ4_NL, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0"
        ),
        "{message}"
    );
    assert!(
        gguf.required_tensor("z")
            .unwrap_err()
            .to_string()
            .contains("type 99")
    );
    let message = gguf.required_tensor("absent").unwrap_err().to_string();
    assert!(message.contains("`absent` is missing"), "{message}");

    let source = BytesSource(&unknown.bytes);
    assert!(RowBlocks::new(&source, gguf.tensor("k").unwrap(), 1, 8).is_err());
    assert!(
        pollster::block_on(foretoken_weights::read_vector_f32(
            &source,
            gguf.tensor("z").unwrap()
        ))
        .is_err()
    );
}

/// The same file from a source whose bytes end before its length says: an error, not a panic.
#[test]
fn a_source_that_fails_is_an_error() {
    struct Short(Vec<u8>);
    impl foretoken_weights::ByteSource for Short {
        fn name(&self) -> &str {
            "short"
        }
        fn len(&self) -> u64 {
            u64::MAX
        }
        async fn read(
            &self,
            offset: u64,
            into: &mut [u8],
        ) -> Result<(), foretoken_weights::WeightsError> {
            BytesSource(&self.0).read(offset, into).await
        }
    }
    let message = pollster::block_on(Gguf::read(&Short(valid().build().bytes)))
        .unwrap_err()
        .to_string();
    assert!(message.contains("truncated"), "{message}");
    // Lengths that a file of 2^64 - 1 bytes would back.
    let mut bytes = valid().build().bytes;
    bytes.resize(1 << 20, 0);
    assert!(pollster::block_on(Gguf::read(&Short(bytes))).is_ok());
}
