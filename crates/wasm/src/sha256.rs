//! Hashing what streams in: a browser's own digests take a whole file at once.

use sha2::Digest;
use wasm_bindgen::prelude::*;

/// SHA-256 of bytes that come in pieces.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Sha256(sha2::Sha256);

#[wasm_bindgen]
impl Sha256 {
    /// Of nothing yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far, in lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        let digest = self.0.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Sha256;

    #[test]
    fn pieces_hash_as_the_whole() {
        let mut hash = Sha256::new();
        assert_eq!(
            hash.hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        hash.update(b"a");
        hash.update(b"bc");
        // FIPS 180-2, example B.1.
        assert_eq!(
            hash.hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
