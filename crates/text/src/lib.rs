//! Text in, text out: tokenizer, chat template, streaming detokenizer, stop strings.
//!
//! The one hard idea: **bytes, characters and tokens are three different alphabets, and text that came
//! from a user must never become a control token.**
//!
//! A byte-level vocabulary cuts UTF-8 *bytes*, so one token can hold half a character, and a character
//! can need four tokens. Going in, text is cut into words by a regular expression, each word's
//! bytes are written in a printable 256-letter alphabet, and pairs are merged by rank ([`Tokenizer`]). Coming
//! out, bytes are collected until they make a character ([`Detokenizer`]), and characters are held back
//! only while they could still be the beginning of a stop string ([`StopStrings`]).
//!
//! There are three kinds of vocabulary, and each is held to an implementation that is not ours:
//!
//! | kind | comes from | pairs are joined by | what is in no token | held to |
//! | --- | --- | --- | --- | --- |
//! | byte-level BPE | GGUF `gpt2`, `tokenizer.json` | rank of the merge | cannot be, bytes are tokens | `tokenizers` |
//! | BPE over pieces | GGUF `llama` | score of the piece | bytes' own tokens, else one for the unknown | `sentencepiece` |
//! | the same, and Unigram | `tokenizer.json` | rank; the likeliest cut of the whole | the same | `tokenizers` |
//!
//! How the first kind cuts words is named in a GGUF file (`tokenizer.ggml.pre`, [`PRE_TOKENIZERS`]) and spelled out in a
//! `tokenizer.json`; what is not known is an error by its name, never a guess. Pieces write the space as `▁` (U+2581), and some vocabularies
//! begin every text with one: [`Tokenizer::decode`] takes it away again.
//!
//! Some ids stand for no text at all: `<|im_start|>` is how the vocabulary *spells* the mark that a
//! turn begins. If a user types those twelve characters, they are twelve characters. So
//! [`Tokenizer::encode`] with `allow_special: false` cannot produce a control token whatever it is given
//! (they are not in the vocabulary the merges see), and a chat goes through
//! [`ChatTemplate::render`], whose result keeps apart what the template wrote from what it
//! was given: the control tokens of a prompt come from the template alone.
//!
//! A draft model may have another vocabulary than its target: [`VocabularyMatch::between`] pairs their tokens by their bytes, and
//! [`FollowedTokens`] writes in the draft's tokens what the target committed.
//!
//! ```
//! use foretoken_text::{Tokenizer, VocabularySpec};
//! # let mut tokens: Vec<String> = foretoken_text::byte_alphabet().map(String::from).collect();
//! # tokens.push("<|im_end|>".into());
//! # let mut token_types = vec![1; 256];
//! # token_types.push(3);
//! let tokenizer = Tokenizer::new(VocabularySpec {
//!     model: "gpt2".into(),
//!     pre: Some("gpt-2".into()),
//!     tokens, // 256 bytes and <|im_end|>, id 256
//!     token_types,
//!     ..VocabularySpec::default()
//! })?;
//! assert_eq!(tokenizer.encode("<|im_end|>", true)?, [256]);
//! let typed = tokenizer.encode("<|im_end|>", false)?;
//! assert_eq!(typed.len(), 10);
//! assert_eq!(tokenizer.decode(&typed), "<|im_end|>");
//! # Ok::<(), foretoken_text::TextError>(())
//! ```

mod bytes;
mod chat_template;
mod control_tokens;
mod detokenizer;
mod edges;
mod error;
mod followed_tokens;
mod json;
mod mapped_share;
mod open_end;
mod pipeline;
mod pre_tokenizer;
mod protect;
mod python_methods;
mod sentence_piece;
mod spelled_tokens;
mod stop;
mod strftime;
mod template_scan;
mod tokenizer;
mod tokenizer_json;
mod vocabulary;
mod vocabulary_map;

pub use bytes::byte_alphabet;
pub use chat_template::{
    ChatMessage, ChatTemplate, MAX_TEMPLATE_BYTES, RenderOptions, Rendered, Segment, TEMPLATE_FUEL,
};
pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use followed_tokens::FollowedTokens;
pub use mapped_share::{MIN_MAPPED_SHARE, MappedShare};
pub use pre_tokenizer::PRE_TOKENIZERS;
pub use stop::{MAX_STOP_CHARS, MAX_STOP_STRINGS, StopEvent, StopStrings};
pub use tokenizer::Tokenizer;
pub use vocabulary::VocabularySpec;
pub use vocabulary_map::{VocabularyMap, VocabularyMatch};
