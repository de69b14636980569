//! Every limit: one below, at, and one above. And what is far below must not be slow.

use std::fmt::Write;
use std::time::{Duration, Instant};

use foretoken_weights::forge::{Forge, ForgeValue};
use foretoken_weights::limits;

use crate::read;

/// One below and at the limit are read; one above is refused with `word`, the value and the limit.
fn hold(limit: u64, word: &str, file: impl Fn(u64) -> Vec<u8>) {
    for value in [limit - 1, limit] {
        if let Err(error) = read(&file(value)) {
            panic!("{value}, at or below the limit, was refused: {error}");
        }
    }
    let message = read(&file(limit + 1)).unwrap_err().to_string();
    for word in [word, &(limit + 1).to_string(), &limit.to_string()] {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

/// A header of our own making, without the forge's map of fields: 24 bytes, then what follows.
fn header(tensors: u64, entries: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

#[test]
fn metadata_entries() {
    // The smallest entries there are: short keys, one byte of value.
    hold(limits::METADATA_ENTRIES, "metadata entries", |count| {
        let mut rest = Vec::new();
        let mut key = String::new();
        for index in 0..count {
            key.clear();
            write!(key, "{index:x}").unwrap();
            rest.extend(string(&key));
            rest.extend([0, 0, 0, 0, 1]);
        }
        header(0, count, &rest)
    });
}

#[test]
fn tensors() {
    hold(limits::TENSORS, "number of tensors", |count| {
        let alignment = [string("general.alignment"), vec![4, 0, 0, 0, 8, 0, 0, 0]].concat();
        let mut rest = alignment;
        let mut name = String::new();
        for index in 0..count {
            name.clear();
            write!(name, "{index:x}").unwrap();
            rest.extend(string(&name));
            rest.extend(1_u32.to_le_bytes());
            rest.extend(1_u64.to_le_bytes());
            rest.extend(24_u32.to_le_bytes()); // I8
            rest.extend((8 * index).to_le_bytes());
        }
        let mut bytes = header(count, 1, &rest);
        bytes.resize(bytes.len().next_multiple_of(8) + 8 * count as usize, 0);
        bytes
    });
}

#[test]
fn entries_and_tensors_at_once_stay_within_the_memory_bound() {
    let mut rest = Vec::new();
    for index in 0..limits::METADATA_ENTRIES {
        rest.extend(string(&format!("{index:x}")));
        rest.extend([0, 0, 0, 0, 1]);
    }
    for index in 0..limits::TENSORS {
        rest.extend(string(&format!("{index:x}")));
        rest.extend(1_u32.to_le_bytes());
        rest.extend(1_u64.to_le_bytes());
        rest.extend(99_u32.to_le_bytes()); // no known size: not backed by data either
        rest.extend(0_u64.to_le_bytes());
    }
    let mut bytes = header(limits::TENSORS, limits::METADATA_ENTRIES, &rest);
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    read(&bytes).unwrap();
}

#[test]
fn strings_keys_and_names() {
    let text = |len: u64| "x".repeat(len as usize);
    hold(limits::STRING_BYTES, "length of the string", |len| {
        header(
            0,
            1,
            &[string("k"), vec![8, 0, 0, 0], string(&text(len))].concat(),
        )
    });
    hold(limits::STRING_BYTES, "length of a string", |len| {
        let array = [vec![9, 0, 0, 0, 8, 0, 0, 0], 1_u64.to_le_bytes().to_vec()].concat();
        header(0, 1, &[string("k"), array, string(&text(len))].concat())
    });
    hold(limits::NAME_BYTES, "length of the key", |len| {
        Forge::new().metadata(&text(len), 1_u8).build().bytes
    });
    hold(limits::NAME_BYTES, "length of its name", |len| {
        Forge::new()
            .tensor(&text(len), &[1], 0, &[0; 4])
            .build()
            .bytes
    });
}

#[test]
fn array_elements() {
    hold(limits::ARRAY_ELEMENTS, "length of the array", |count| {
        let head = [vec![9, 0, 0, 0, 1, 0, 0, 0], count.to_le_bytes().to_vec()].concat();
        header(0, 1, &[string("k"), head, vec![5; count as usize]].concat())
    });
}

#[test]
fn nesting() {
    let nested = |depth: u64| {
        let inner = ForgeValue::from(&[1_u8][..]);
        let wrap = |inner, _| ForgeValue::Array(foretoken_weights::ValueType::Array, vec![inner]);
        Forge::new()
            .metadata("deep", (1..depth).fold(inner, wrap))
            .build()
            .bytes
    };
    hold(limits::ARRAY_NESTING, "nesting", nested);
}

#[test]
fn versions_dimensions_and_alignments() {
    let ok = |file: Forge| read(&file.build().bytes).is_ok();
    let versions: Vec<u32> = (0..6)
        .filter(|version| ok(Forge::new().version(*version)))
        .collect();
    assert_eq!(versions, [2, 3]);

    let dimensions: Vec<usize> = (0..7)
        .filter(|n| ok(Forge::new().tensor("t", &vec![1; *n], 0, &[0; 4])))
        .collect();
    assert_eq!(dimensions, [1, 2, 3, 4]);

    let aligned = |alignment: u32| {
        Forge::new()
            .metadata("general.alignment", alignment)
            .tensor("a", &[1], 0, &[0; 4])
            .tensor("b", &[1], 0, &[0; 4])
    };
    let powers: Vec<u32> = (0..32).filter(|power| ok(aligned(1 << power))).collect();
    assert_eq!(powers, (3..=16).collect::<Vec<_>>());
    for odd in [0, 7, 9, 12, 65_535, 65_537, u32::MAX] {
        assert!(!ok(aligned(odd)), "{odd}");
    }
}

#[test]
fn a_large_vocabulary_with_repeated_tokens_loads_fast() {
    let mut items = Vec::new();
    let count = 262_144_u64;
    for index in 0..count {
        // Official vocabularies repeat strings.
        items.extend(string(&format!("▁token{}", index % 200_000)));
    }
    let head = [vec![9, 0, 0, 0, 8, 0, 0, 0], count.to_le_bytes().to_vec()].concat();
    let bytes = header(0, 1, &[string("tokens"), head, items].concat());
    let started = Instant::now();
    let gguf = read(&bytes).unwrap();
    let took = started.elapsed();
    println!("{} bytes of {count} tokens in {took:?}", bytes.len());
    let tokens = gguf.metadata.required_string_array("tokens").unwrap();
    assert_eq!(
        (tokens.len(), tokens.get(262_143)),
        (262_144, Some("▁token62143"))
    );
    // 6 MB; generous, for a loaded machine. A map, or an allocation a token, would still pass: see the
    // memory bound for that.
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn many_small_string_arrays_after_a_large_one_stay_fast() {
    let mut rest = Vec::new();
    let array = |count: u64| [vec![9, 0, 0, 0, 8, 0, 0, 0], count.to_le_bytes().to_vec()].concat();
    let large = 2_000_000_u64;
    rest.extend(string("large"));
    rest.extend(array(large));
    rest.resize(rest.len() + 8 * large as usize, 0);
    for index in 1..limits::METADATA_ENTRIES {
        rest.extend(string(&format!("{index:x}")));
        rest.extend(array(1));
        rest.extend(string("x"));
    }
    let started = Instant::now();
    read(&header(0, limits::METADATA_ENTRIES, &rest)).unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}
