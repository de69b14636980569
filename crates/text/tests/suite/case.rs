//! One text of a reference file, checked.

use serde::Deserialize;

/// One text with the ids that Hugging Face's `tokenizers` gives it.
#[derive(Deserialize)]
pub struct Case {
    text: Option<String>,
    repeat: Option<(String, String, usize, String)>,
    ids: Option<Vec<u32>>,
    digest: Option<(usize, String)>,
    special_ids: Option<Vec<u32>>,
    decoded: Option<String>,
}

impl Case {
    /// The text, which a file may give as a repetition.
    pub fn text(&self) -> Option<String> {
        match (&self.text, &self.repeat) {
            (Some(text), _) => Some(text.clone()),
            (None, Some((prefix, unit, times, suffix))) => {
                Some(format!("{prefix}{}{suffix}", unit.repeat(*times)))
            }
            (None, None) => None,
        }
    }

    /// Encodes, decodes and streams the text; says what differs.
    pub fn check(&self, tokenizer: &foretoken_text::Tokenizer) -> Result<(), String> {
        let text = self.text().ok_or("the case has no text")?;
        let shown: String = text.chars().take(40).collect();
        let fail = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Err(format!(
                "{shown:?} {what}: {found:?}, expected {expected:?}"
            ))
        };
        let ids = tokenizer.encode(&text, false).unwrap();
        match (&self.ids, &self.digest) {
            (Some(expected), _) if ids != *expected => return fail("ids", &ids, expected),
            (_, Some(expected)) if digest(&ids) != *expected => {
                return fail("digest", &digest(&ids), expected);
            }
            (None, None) => return Err("the case has no ids".into()),
            _ => {}
        }
        let special = tokenizer.encode(&text, true).unwrap();
        let expected = self.special_ids.as_ref().unwrap_or(&ids);
        if special != *expected {
            return fail("ids with control tokens", &special, expected);
        }
        let decoded = tokenizer.decode(&ids);
        let expected = self.decoded.as_ref().unwrap_or(&text);
        if decoded != *expected {
            return fail("decoded", &decoded, expected);
        }
        let mut detokenizer = tokenizer.detokenizer();
        let mut streamed = String::new();
        for id in &ids {
            let piece = detokenizer.push(*id);
            if piece.contains('\u{FFFD}') && !expected.contains('\u{FFFD}') {
                return fail("streamed piece", &piece, &"no broken character");
            }
            streamed.push_str(&piece);
        }
        streamed.push_str(&detokenizer.finish());
        // What begins an answer may be a space that begins every text, which only decoding takes away.
        if streamed != decoded && streamed.strip_prefix(' ') != Some(&decoded) {
            return fail("streamed", &streamed, &decoded);
        }
        Ok(())
    }
}

/// How many ids, and FNV-1a over them.
fn digest(ids: &[u32]) -> (usize, String) {
    let hash = ids
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
    (ids.len(), format!("{hash:016x}"))
}
