//! What this crate promises, against references it did not make.

mod case;
mod chat_templates;
mod hostile_vocabularies;
mod reference;
mod references;
