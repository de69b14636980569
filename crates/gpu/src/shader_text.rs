//! Shader files without their comments, a quarter of them: what a page downloads.

/// Whether a comment begins here, or the blanks before one.
const fn begins_comment(text: &[u8], at: usize) -> bool {
    let mut end = at;
    while end < text.len() && text[end] == b' ' {
        end += 1;
    }
    end + 1 < text.len() && text[end] == b'/' && text[end + 1] == b'/'
}

/// Copies a file without comments, and says how many bytes that takes. `N` may be 0, to count.
const fn copy<const N: usize>(text: &str) -> ([u8; N], usize) {
    let text = text.as_bytes();
    let mut out = [0; N];
    let (mut from, mut to) = (0, 0);
    while from < text.len() {
        if begins_comment(text, from) {
            while from < text.len() && text[from] != b'\n' {
                from += 1;
            }
        } else {
            if N > 0 {
                out[to] = text[from];
            }
            from += 1;
            to += 1;
        }
    }
    (out, to)
}

/// Bytes of a file without its comments.
pub(crate) const fn len(text: &str) -> usize {
    copy::<0>(text).1
}

/// A file without its comments and the blanks before them. Every line stays, so that an error names the author's.
pub(crate) const fn without_comments<const N: usize>(text: &str) -> [u8; N] {
    copy(text).0
}

/// Text that `without_comments` made.
pub(crate) const fn utf8(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a comment ends between characters"),
    }
}

/// A file of `shaders/`, by its path from here: as it is natively, without comments in a page.
macro_rules! shader_file {
    ($path:literal) => {{
        const TEXT: &str = include_str!($path);
        const LEN: usize = $crate::shader_text::len(TEXT);
        const BYTES: &[u8] = &$crate::shader_text::without_comments::<LEN>(TEXT);
        if cfg!(target_arch = "wasm32") {
            $crate::shader_text::utf8(BYTES)
        } else {
            TEXT
        }
    }};
}
pub(crate) use shader_file;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaders::FILES;

    #[test]
    fn comments_go_and_lines_stay() {
        const TEXT: &str = "// é\n  a = b / c; // and\n\n//";
        const LEN: usize = len(TEXT);
        let bytes: [u8; LEN] = without_comments(TEXT);
        assert_eq!(utf8(&bytes), "\n  a = b / c;\n\n");
    }

    #[test]
    fn every_file_keeps_what_is_no_comment() {
        for (path, text) in FILES {
            let mut expected = String::new();
            for line in text.split_inclusive('\n') {
                let code = line.split("//").next().unwrap_or_default();
                expected += if code.len() < line.len() {
                    code.trim_end_matches(' ')
                } else {
                    code
                };
                if line.contains("//") && line.ends_with('\n') {
                    expected.push('\n');
                }
            }
            let (bytes, len) = copy::<{ 64 << 10 }>(text);
            assert_eq!(utf8(&bytes[..len]), expected, "{path}");
        }
    }
}
