//! Model files are hostile input: every damage gives a named error, never a panic, and never takes more memory
//! than twice the file and one mebibyte.

mod allocation;
mod cases;
mod damage;
mod limits;

use foretoken_weights::{BytesSource, Gguf, WeightsError};

/// Reads a header and holds the memory bound over it.
fn read(bytes: &[u8]) -> Result<Gguf, WeightsError> {
    let source = BytesSource(bytes);
    let (result, peak) = allocation::peak_during(|| pollster::block_on(Gguf::read(&source)));
    let bound = 2 * bytes.len() as u64 + (1 << 20);
    assert!(
        peak <= bound,
        "{peak} bytes allocated for a file of {}, {bound} allowed",
        bytes.len()
    );
    if let Ok(gguf) = &result {
        assert_sound(gguf, bytes.len() as u64);
    }
    result
}

/// What holds of every header that was read, whatever was in the file.
fn assert_sound(gguf: &Gguf, len: u64) {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for tensor in &gguf.tensors {
        assert!(!tensor.name.is_empty() && !tensor.shape.contains(&0));
        assert!((1..=4).contains(&tensor.shape.len()));
        assert_eq!(Some(tensor), gguf.tensor(&tensor.name));
        assert!(tensor.rows().checked_mul(tensor.cols()).is_some());
        assert!(tensor.offset >= gguf.data_offset && tensor.offset + tensor.bytes <= len);
        parts.push((tensor.offset, tensor.bytes));
    }
    parts.sort_unstable();
    assert!(
        parts
            .windows(2)
            .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
    );
    for entry in gguf.metadata.iter() {
        assert!(!entry.key.is_empty());
        assert!(!entry.type_name().is_empty());
        assert!(entry.value.to_string().chars().all(|c| !c.is_control()));
        assert!(gguf.metadata.get(entry.key).is_some());
    }
}
