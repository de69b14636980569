//! What this crate promises, against references it did not make.

mod case;
mod chat_templates;
mod hostile_tokenizer_json;
mod hostile_vocabularies;
mod published_templates;
mod reference;
mod references;
mod tokenizer_json;
mod vocabulary_map;
