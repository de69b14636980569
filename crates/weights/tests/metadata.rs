//! The typed getters of metadata, and the lines that `inspect` prints.

use foretoken_weights::forge::{Forge, ForgeValue};
use foretoken_weights::{BytesSource, Gguf, Metadata, WeightsError};

fn metadata(forge: Forge) -> Metadata {
    pollster::block_on(Gguf::read(&BytesSource(forge.build().bytes)))
        .unwrap()
        .metadata
}

fn one(value: impl Into<ForgeValue>) -> Metadata {
    metadata(Forge::new().metadata("k", value))
}

#[test]
fn u32_takes_every_integer_type_that_fits() {
    for fitting in [
        one(7_u8),
        one(7_i8),
        one(7_u16),
        one(7_i16),
        one(7_u32),
        one(7_i32),
        one(7_u64),
        one(7_i64),
    ] {
        assert_eq!(fitting.u32("k").unwrap(), Some(7));
        assert_eq!(fitting.required_u32("k").unwrap(), 7);
    }
    assert_eq!(
        one(u64::from(u32::MAX)).required_u32("k").unwrap(),
        u32::MAX
    );
    for (unfit, value) in [
        (one(u64::from(u32::MAX) + 1), "4294967296"),
        (one(u64::MAX), "18446744073709551615"),
        (one(-1_i8), "-1"),
        (one(i64::MIN), "-9223372036854775808"),
    ] {
        let error = unfit.u32("k").unwrap_err();
        assert!(matches!(error, WeightsError::OutOfRange { .. }));
        assert!(
            error.to_string().contains(value) && error.to_string().contains("`k`"),
            "{error}"
        );
    }
    for (wrong, found) in [
        (one(true), "bool"),
        (one(1.0_f32), "f32"),
        (one("7"), "string"),
        (one(&[7_u32][..]), "array of 1 u32"),
    ] {
        let message = wrong.u32("k").unwrap_err().to_string();
        assert!(
            message.contains("`k` must be an integer") && message.contains(found),
            "{message}"
        );
    }
}

#[test]
fn an_absent_key_is_none_or_named() {
    let empty = metadata(Forge::new());
    assert_eq!(empty.u32("k").unwrap(), None);
    assert!(empty.string_array("k").unwrap().is_none());
    let messages = [
        empty.required_u32("llama.block_count").unwrap_err(),
        empty.required_f32("llama.block_count").unwrap_err(),
        empty.required_bool("llama.block_count").unwrap_err(),
        empty.required_str("llama.block_count").unwrap_err(),
        empty
            .required_string_array("llama.block_count")
            .map(|_| ())
            .unwrap_err(),
        empty.required_u32_array("llama.block_count").unwrap_err(),
        empty.required_i32_array("llama.block_count").unwrap_err(),
        empty.required_f32_array("llama.block_count").unwrap_err(),
    ]
    .map(|error| error.to_string());
    for message in messages {
        assert!(
            message.contains("`llama.block_count` is missing"),
            "{message}"
        );
    }
}

#[test]
fn floats_are_finite_and_no_integers() {
    assert_eq!(one(0.5_f32).required_f32("k").unwrap(), 0.5);
    assert_eq!(one(0.1_f64).required_f32("k").unwrap(), 0.1_f32);
    for unfit in [one(f32::NAN), one(f32::INFINITY), one(1e300_f64)] {
        assert!(matches!(
            unfit.f32("k"),
            Err(WeightsError::OutOfRange { .. })
        ));
    }
    assert!(matches!(
        one(1_u32).f32("k"),
        Err(WeightsError::WrongType { .. })
    ));
}

#[test]
fn bools_and_strings_are_themselves_only() {
    assert!(one(true).required_bool("k").unwrap());
    assert_eq!(one("ü").required_str("k").unwrap(), "ü");
    assert!(matches!(
        one(1_u8).bool("k"),
        Err(WeightsError::WrongType { .. })
    ));
    assert!(matches!(
        one(1_u8).str("k"),
        Err(WeightsError::WrongType { .. })
    ));
    assert!(matches!(
        one("x").string_array("k"),
        Err(WeightsError::WrongType { .. })
    ));
    assert!(matches!(
        one(&["x"][..]).str("k"),
        Err(WeightsError::WrongType { .. })
    ));
}

#[test]
fn arrays_convert_element_by_element() {
    assert_eq!(one(&[1_i8, 2][..]).required_u32_array("k").unwrap(), [1, 2]);
    assert_eq!(
        one(&[-1_i64, 2][..]).required_i32_array("k").unwrap(),
        [-1, 2]
    );
    assert_eq!(
        one(&[0.5_f32, f32::NEG_INFINITY][..])
            .required_f32_array("k")
            .unwrap(),
        [0.5, f32::NEG_INFINITY]
    );
    assert!(
        one(&[0_u32; 0][..])
            .required_u32_array("k")
            .unwrap()
            .is_empty()
    );
    let message = one(&[1_i32, 2, -3][..])
        .u32_array("k")
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`k[2]`") && message.contains("-3"),
        "{message}"
    );
    assert!(matches!(
        one(&[true][..]).u32_array("k"),
        Err(WeightsError::WrongType { .. })
    ));
    assert!(matches!(
        one(&[1_u32][..]).f32_array("k"),
        Err(WeightsError::WrongType { .. })
    ));
    let strings = one(&["a", "", "ß"][..]);
    let strings = strings.required_string_array("k").unwrap();
    assert_eq!(
        (strings.len(), strings.get(2), strings.get(3)),
        (3, Some("ß"), None)
    );
    assert_eq!(strings.iter().len(), 3);
}

#[test]
fn entries_are_listed_in_order_and_briefly() {
    let long = "y".repeat(1_000);
    let listed = metadata(
        Forge::new()
            .metadata("z", 1_u16)
            .metadata("a", "line\nbreak")
            .metadata("long", long.as_str())
            .metadata("n", &[1_u8, 2, 3, 4, 5][..])
            .metadata("s", &["x", "y"][..])
            .metadata("b", &[true, false][..])
            .metadata("f", &[0.5_f64][..]),
    );
    let lines: Vec<String> = listed
        .iter()
        .map(|entry| format!("{} ({}) = {}", entry.key, entry.type_name(), entry.value))
        .collect();
    assert_eq!(lines[0], "z (u16) = 1");
    assert_eq!(lines[1], "a (string) = \"line\\nbreak\"");
    assert_eq!(lines[2], format!("long (string) = \"{}…\"", "y".repeat(60)));
    assert_eq!(lines[3], "n (array of 5 u8) = [1, 2, 3, 4, …]");
    assert_eq!(lines[4], "s (array of 2 strings) = [\"x\", \"y\"]");
    assert_eq!(lines[5], "b (array of 2 bool) = [true, false]");
    assert_eq!(lines[6], "f (array of 1 f64) = [0.5]");
}
