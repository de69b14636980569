//! Every format decodes blocks to the same bits as the `gguf` package of Python, which
//! `tests/scripts/gen_quant_reference.py` ran.

use std::path::Path;

use foretoken_weights::FORMATS;

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn every_format_decodes_as_the_reference_does() {
    for format in FORMATS {
        let name = format.name();
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/quant/{name}.bin"));
        let data = std::fs::read(&path).unwrap_or_else(|error| {
            panic!("{name} has no reference ({error}); run tests/scripts/gen_quant_reference.py")
        });
        let (length, rest) = data.split_first_chunk::<4>().unwrap();
        let (blocks, values) = rest.split_at(u32::from_le_bytes(*length) as usize);
        let expected = words(values);
        assert!(
            expected.len() >= 1_000,
            "{name}: only {} weights",
            expected.len()
        );

        let mut found = vec![0.0; expected.len()];
        format.dequantize(blocks, &mut found);
        let mut nans = 0;
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Processors differ in the bits of a NaN, so any NaN equals any.
            if f32::from_bits(*expected).is_nan() {
                assert!(found.is_nan(), "{name}, weight {at}: {found} for a NaN");
                nans += 1;
            } else {
                let expected_value = f32::from_bits(*expected);
                assert_eq!(
                    found.to_bits(),
                    *expected,
                    "{name}, weight {at}: {found} for {expected_value}"
                );
            }
        }
        assert!(
            nans > 0 && nans < expected.len() / 4,
            "{name}: {nans} NaNs show nothing"
        );
    }
}
