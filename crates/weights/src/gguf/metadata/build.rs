//! Making metadata of something other than a GGUF header.

use super::{Metadata, Slot, SlotValue, Span, ValueType};

/// A value to put in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NewValue {
    U32(u32),
    F32(f32),
    Text(String),
    U32s(Vec<u32>),
    F32s(Vec<f32>),
}

impl Metadata {
    /// Metadata of these entries, whose keys must differ and whose text and numbers are far below 4 GiB: whoever made them
    /// read them from a small file.
    pub(crate) fn from_entries(entries: &[(String, NewValue)]) -> Self {
        let mut metadata = Self::default();
        for (key, value) in entries {
            let key = metadata.add_text(key);
            let value = match value {
                NewValue::U32(value) => SlotValue::Unsigned(ValueType::U32, (*value).into()),
                NewValue::F32(value) => SlotValue::F32(*value),
                NewValue::Text(value) => SlotValue::Text(metadata.add_text(value)),
                NewValue::U32s(values) => {
                    let bytes = values.iter().map(|value| value.to_le_bytes());
                    metadata.add_numbers(ValueType::U32, bytes)
                }
                NewValue::F32s(values) => {
                    let bytes = values.iter().map(|value| value.to_le_bytes());
                    metadata.add_numbers(ValueType::F32, bytes)
                }
            };
            metadata.entries.push(Slot { key, value });
        }
        let mut by_key: Vec<u32> = (0..index(metadata.entries.len())).collect();
        by_key.sort_by_key(|&entry| metadata.key(&metadata.entries[entry as usize]));
        metadata.by_key = by_key;
        metadata
    }

    fn add_text(&mut self, text: &str) -> Span {
        let start = index(self.text.len());
        self.text.push_str(text);
        Span {
            start,
            len: index(text.len()),
        }
    }

    fn add_numbers(
        &mut self,
        element: ValueType,
        numbers: impl Iterator<Item = [u8; 4]>,
    ) -> SlotValue {
        let start = index(self.numbers.len());
        self.numbers.extend(numbers.flatten());
        let len = index(self.numbers.len()) - start;
        SlotValue::Numbers(element, Span { start, len })
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("metadata that is made here is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_found_again() {
        let entry = |key: &str, value| (key.to_owned(), value);
        let metadata = Metadata::from_entries(&[
            entry("z", NewValue::U32(7)),
            entry("text", NewValue::Text("äö".to_owned())),
            entry("a", NewValue::F32(0.5)),
            entry("ints", NewValue::U32s(vec![1, 0, u32::MAX])),
            entry("floats", NewValue::F32s(vec![1.5, -2.0])),
        ]);
        assert_eq!(metadata.len(), 5);
        assert_eq!(metadata.required_u32("z").unwrap(), 7);
        assert_eq!(metadata.required_str("text").unwrap(), "äö");
        assert_eq!(metadata.required_f32("a").unwrap(), 0.5);
        let ints = metadata.required_u32_array("ints").unwrap();
        assert_eq!(ints, [1, 0, u32::MAX]);
        let floats = metadata.required_f32_array("floats").unwrap();
        assert_eq!(floats, [1.5, -2.0]);
        assert!(metadata.get("b").is_none());
    }
}
