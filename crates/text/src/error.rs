//! What can be wrong with a vocabulary, a template, a message or a stop string.

/// Everything this crate refuses, with the field and the value that are at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The vocabulary is of a kind that is not read.
    #[error(
        "tokenizer model \"{model}\" is not supported; use a file whose tokenizer.ggml.model is \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece)"
    )]
    UnsupportedModel {
        /// The name in the file.
        model: String,
    },
    /// The pre-tokenizer is not named. Guessing one would give other ids than the model was trained on.
    #[error("the file names no pre-tokenizer (tokenizer.ggml.pre); known are {known}")]
    MissingPreTokenizer {
        /// The names that are known.
        known: String,
    },
    /// The pre-tokenizer has an unknown name.
    #[error("pre-tokenizer \"{pre}\" (tokenizer.ggml.pre) is not known; known are {known}")]
    UnknownPreTokenizer {
        /// The name in the file.
        pre: String,
        /// The names that are known.
        known: String,
    },
    /// An option of the vocabulary that is not implemented.
    #[error(
        "{field} = {value} is not supported for a byte-level vocabulary; convert the model again without it"
    )]
    UnsupportedOption {
        /// The metadata field.
        field: &'static str,
        /// Its value.
        value: bool,
    },
    /// There are no tokens.
    #[error("tokenizer.ggml.tokens is empty; the file holds no vocabulary")]
    EmptyVocabulary,
    /// Two arrays that describe the same tokens differ in length.
    #[error(
        "{field} has {found} entries where tokenizer.ggml.tokens has {expected}; the file is damaged"
    )]
    ArrayLength {
        /// The field whose length is wrong.
        field: &'static str,
        /// Its length.
        found: u64,
        /// The number of tokens.
        expected: u64,
    },
    /// A token type outside 1..=6.
    #[error("tokenizer.ggml.token_type[{id}] is {value}; known are 1 to 6")]
    TokenType {
        /// The token.
        id: u64,
        /// Its type in the file.
        value: i32,
    },
    /// More tokens than an id can number.
    #[error(
        "tokenizer.ggml.tokens has {tokens} entries, the embedding has {rows} rows; every token needs a row"
    )]
    MoreTokensThanRows {
        /// The number of tokens.
        tokens: u64,
        /// The number of embedding rows.
        rows: u64,
    },
    /// A special id that is not in the vocabulary.
    #[error("{field} is {id}, but the vocabulary has {tokens} tokens")]
    IdOutOfRange {
        /// The metadata field.
        field: &'static str,
        /// The id.
        id: u32,
        /// The number of tokens.
        tokens: u64,
    },
    /// A beginning-of-sequence token is asked for and none is named.
    #[error(
        "tokenizer.ggml.add_bos_token is true, but the file names no tokenizer.ggml.bos_token_id"
    )]
    MissingBos,
    /// A control token too long to look for.
    #[error("control token {id} has {bytes} bytes; at most {limit} are supported")]
    ControlTokenTooLong {
        /// The token.
        id: u32,
        /// Its length in bytes.
        bytes: u64,
        /// The most that is supported.
        limit: u64,
    },
    /// A user-defined token too long to look for.
    #[error("user-defined token {id} has {bytes} bytes; at most {limit} are supported")]
    UserDefinedTokenTooLong {
        /// The token.
        id: u32,
        /// Its length in bytes.
        bytes: u64,
        /// The most that is supported.
        limit: u64,
    },
    /// A token of type 6 that does not spell a byte.
    #[error("token {id} stands for a byte (type 6) but is {token:?}; expected <0x00> to <0xFF>")]
    ByteToken {
        /// The token.
        id: u32,
        /// Its spelling, shortened.
        token: String,
    },
    /// `tokenizer.json` or `tokenizer_config.json` cannot be read.
    #[error("{file} cannot be read: {message}")]
    TokenizerFile {
        /// The file's name.
        file: &'static str,
        /// What is wrong, and where.
        message: String,
    },
    /// A step of `tokenizer.json` that is not implemented. Leaving it out would give other ids than the model was trained on.
    #[error("tokenizer.json: {field} {value:?} is not supported; use the model as a GGUF file")]
    UnsupportedStep {
        /// Which part of the file.
        field: &'static str,
        /// Its type or value, shortened.
        value: String,
    },
    /// `tokenizer_config.json` names a token that the vocabulary does not have.
    #[error("tokenizer_config.json: {field} is {token:?}, which is not in the vocabulary")]
    UnknownToken {
        /// Which token.
        field: &'static str,
        /// Its spelling, shortened.
        token: String,
    },
    /// A merge that is not two tokens with one space between.
    #[error("merges[{index}] is {merge:?}; a merge is two tokens with one space between them")]
    MalformedMerge {
        /// Which merge.
        index: u64,
        /// Its text, shortened.
        merge: String,
    },
    /// A merge of, or into, a token that the vocabulary does not have.
    #[error("merges[{index}] names {token:?}, which is not in the vocabulary")]
    MergeOutOfVocabulary {
        /// Which merge.
        index: u64,
        /// The token that is missing, shortened.
        token: String,
    },
    /// The tokenizer library refused something. Not expected after validation.
    #[error("the tokenizer failed: {message}")]
    Tokenizer {
        /// What it said.
        message: String,
    },
    /// The model has no chat template.
    #[error(
        "the model has no chat template (tokenizer.chat_template); use `complete` with a prompt of your own"
    )]
    NoChatTemplate,
    /// The chat template is too long.
    #[error("the chat template has {bytes} bytes; at most {limit} are supported")]
    TemplateTooLong {
        /// Its length in bytes.
        bytes: u64,
        /// The most that is supported.
        limit: u64,
    },
    /// The chat template cannot be parsed. Raw completion still works.
    #[error("the chat template cannot be parsed: {message}; `complete` still works")]
    TemplateSyntax {
        /// What the parser said, with the line.
        message: String,
    },
    /// The template refused these messages, in its own words (`raise_exception`).
    #[error("the chat template refused the messages: {message}")]
    TemplateRaised {
        /// The template's message.
        message: String,
    },
    /// The template failed while rendering.
    #[error("the chat template failed: {message}")]
    TemplateFailed {
        /// What the engine said.
        message: String,
    },
    /// The template needed more work than it may use.
    #[error("the chat template used up its fuel ({fuel}); it loops too long for these messages")]
    TemplateFuel {
        /// The fuel it was given.
        fuel: u64,
    },
    /// The template did not end in time.
    #[error(
        "the chat template did not finish within {seconds} s; use `complete` without it, or another file"
    )]
    TemplateTime {
        /// The time it was given.
        seconds: u64,
    },
    /// The rendered prompt is larger than the context could hold.
    #[error(
        "the rendered chat is longer than {limit} bytes, more than the context holds; send shorter messages"
    )]
    RenderedTooLong {
        /// The most bytes that may be rendered.
        limit: u64,
    },
    /// A role that could write control tokens.
    #[error(
        "messages[{index}].role is {role:?}; a role has 1 to 64 letters, digits, '-', '_' or '.'"
    )]
    InvalidRole {
        /// Which message.
        index: u64,
        /// The role, shortened.
        role: String,
    },
    /// A value nested too deeply.
    #[error("{field} is nested deeper than {limit} levels")]
    TooDeep {
        /// The field.
        field: &'static str,
        /// The deepest nesting taken.
        limit: u64,
    },
    /// There is no open end of the final message to go on from.
    #[error(
        "continue_final_message is true, but {reason}; leave it out, or end with a message of plain text"
    )]
    NothingToContinue {
        /// Why not.
        reason: &'static str,
    },
    /// The messages use every character that could mark the user's text.
    #[error(
        "the messages use all private-use characters; leave at least one of U+E000 to U+F8FF out"
    )]
    NoFreeMark,
    /// More stop strings than are taken.
    #[error("stop has {found} strings; at most {limit} are taken")]
    TooManyStopStrings {
        /// How many were given.
        found: u64,
        /// The most that are taken.
        limit: u64,
    },
    /// A stop string that is empty or too long.
    #[error("stop[{index}] has {chars} characters; 1 to {limit} are taken")]
    StopStringLength {
        /// Which string.
        index: u64,
        /// Its length in characters.
        chars: u64,
        /// The most characters taken.
        limit: u64,
    },
}

/// The first characters of a string from outside, so that a message stays short.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 64;
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(SHOWN).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}
