//! Formats that are written encode values to the same bytes as the `gguf` package of Python, which
//! `tests/scripts/gen_quantize_reference.py` ran.

use std::path::Path;

use foretoken_weights::{FORMATS, format_by_name};

#[test]
fn values_are_encoded_as_by_the_reference() {
    let mut written = Vec::new();
    for format in FORMATS {
        let Some(quantize) = format.quantize() else {
            continue;
        };
        let name = format.name();
        let path = format!("tests/data/quantize/{name}.bin");
        let data = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let (count, rest) = data.split_first_chunk::<4>().unwrap();
        let (values, expected) = rest.split_at(4 * u32::from_le_bytes(*count) as usize);
        let values: Vec<f32> = values
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        assert!(values.len() >= 1_000);

        let mut found = vec![1, 2, 3];
        quantize(&values, &mut found);
        assert_eq!(found[..3], [1, 2, 3], "{name}: appended");
        let found = found[3..].chunks(format.block_bytes());
        let blocks = values.chunks(format.block_len());
        for ((found, expected), values) in
            found.zip(expected.chunks(format.block_bytes())).zip(blocks)
        {
            assert_eq!(found, expected, "{name}: {values:?}");
        }
        written.push(name);
    }
    assert_eq!(written, ["q4_0", "q8_0"]);
}

#[test]
fn a_value_that_is_not_finite_shows() {
    for name in ["q4_0", "q8_0"] {
        let format = format_by_name(name).unwrap();
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [1.0; 64];
            values[35] = value;
            let mut bytes = Vec::new();
            format.quantize().unwrap()(&values, &mut bytes);
            let mut decoded = [0.0f32; 64];
            format.dequantize(&bytes, &mut decoded);
            let near = |v: &f32| (v - 1.0).abs() < 0.01;
            assert!(decoded[..32].iter().all(near), "{name}: {decoded:?}");
            assert!(decoded[32..].iter().all(|v| v.is_nan()), "{name}");
        }
    }
}
