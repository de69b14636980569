//! A file that JavaScript reads.

use foretoken_weights::{ByteSource, WeightsError};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// The most bytes asked for in one call: what JavaScript holds of a file at a time.
const LONGEST_READ: usize = 16 << 20;

#[wasm_bindgen(typescript_custom_section)]
const TYPESCRIPT: &str = "
/** A file that can be read at any offset, or the parts of a split one, or a folder's files, as if they were one. A read gives exactly the bytes asked for, or throws. */
export interface ByteRanges {
  readonly name: string;
  /** Bytes of each part, in order; of the whole, where it is not split. */
  readonly sizes: number[];
  /** The name of each part, where they are a folder's files. */
  readonly names: string[];
  read(offset: number, length: number): Uint8Array | Promise<Uint8Array>;
}
";

#[wasm_bindgen]
extern "C" {
    /// `{ name: string, sizes: number[], names: string[], read(offset, length): Uint8Array | Promise<Uint8Array> }`.
    #[wasm_bindgen(typescript_type = "ByteRanges")]
    #[derive(Debug)]
    pub type ByteRanges;

    #[wasm_bindgen(method, getter)]
    fn name(this: &ByteRanges) -> String;

    #[wasm_bindgen(method, getter)]
    fn sizes(this: &ByteRanges) -> Vec<f64>;

    #[wasm_bindgen(method, getter)]
    fn names(this: &ByteRanges) -> Vec<String>;

    #[wasm_bindgen(method, catch)]
    fn read(this: &ByteRanges, offset: f64, length: u32) -> Result<JsValue, JsValue>;
}

/// [`ByteRanges`] as the loaders take them.
#[derive(Debug)]
pub(crate) struct JsSource {
    ranges: ByteRanges,
    name: String,
    parts: Vec<u64>,
    len: u64,
}

impl JsSource {
    pub(crate) fn new(ranges: ByteRanges) -> Self {
        // Sizes are whole numbers below 2^53; anything else becomes one that no read fits.
        let parts: Vec<u64> = ranges.sizes().iter().map(|size| *size as u64).collect();
        Self {
            name: ranges.name(),
            len: parts
                .iter()
                .fold(0, |sum, part| u64::saturating_add(sum, *part)),
            parts,
            ranges,
        }
    }

    async fn read_piece(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        let length = u32::try_from(into.len()).map_err(|_| "too long a read".to_owned())?;
        let pending = self.ranges.read(offset as f64, length).map_err(said)?;
        let bytes = JsFuture::from(Promise::resolve(&pending))
            .await
            .map_err(said)?;
        let bytes: Uint8Array = bytes
            .dyn_into()
            .map_err(|_| "the source gave no Uint8Array".to_owned())?;
        if bytes.length() != length {
            return Err(format!("the source gave {} bytes", bytes.length()));
        }
        bytes.copy_to(into);
        Ok(())
    }
}

impl ByteSource for JsSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn parts(&self) -> Vec<u64> {
        self.parts.clone()
    }

    fn file_names(&self) -> Vec<String> {
        self.ranges.names()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), WeightsError> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(WeightsError::Truncated {
                file: self.name.clone(),
                place: "the read".to_owned(),
                offset,
                needed: into.len() as u64,
                available: self.len.saturating_sub(offset),
            });
        }
        let mut at = offset;
        for piece in into.chunks_mut(LONGEST_READ) {
            let length = piece.len() as u64;
            let read = self.read_piece(at, piece).await;
            read.map_err(|reason| WeightsError::Read {
                file: self.name.clone(),
                offset: at,
                length,
                reason,
            })?;
            at += length;
        }
        Ok(())
    }
}

/// What a thrown value says of itself, in one line.
fn said(thrown: JsValue) -> String {
    let text = match thrown.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => thrown.as_string().unwrap_or_default(),
    };
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        "the source did not say why".to_owned()
    } else {
        line.chars().take(512).collect()
    }
}
