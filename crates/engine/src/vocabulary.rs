//! From a file's metadata to the description of its vocabulary.

use foretoken_text::VocabularySpec;
use foretoken_weights::{Gguf, WeightsError};

/// The tensor whose rows are the tokens' embeddings.
const EMBEDDING: &str = "token_embd.weight";

/// The vocabulary and chat template that a GGUF file states. Whether they make sense is the
/// tokenizer's to say.
pub(crate) fn vocabulary_spec(gguf: &Gguf) -> Result<VocabularySpec, WeightsError> {
    let metadata = &gguf.metadata;
    let strings = |key| -> Result<Vec<String>, WeightsError> {
        let array = metadata.string_array(key)?;
        Ok(array
            .map(|array| array.iter().map(str::to_owned).collect())
            .unwrap_or_default())
    };
    let tokens: Vec<String> = metadata
        .required_string_array("tokenizer.ggml.tokens")?
        .iter()
        .map(str::to_owned)
        .collect();
    // Files without types exist; all their tokens are normal ones.
    let token_types = metadata
        .i32_array("tokenizer.ggml.token_type")?
        .unwrap_or_else(|| vec![1; tokens.len()]);
    let model = metadata.required_str("tokenizer.ggml.model")?.to_owned();
    // Some byte-level files have scores as well, which mean nothing there.
    let scores = if model == "llama" {
        metadata
            .f32_array("tokenizer.ggml.scores")?
            .unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok(VocabularySpec {
        model,
        scores,
        pre: metadata.str("tokenizer.ggml.pre")?.map(str::to_owned),
        token_types,
        tokens,
        merges: strings("tokenizer.ggml.merges")?,
        bos: metadata.u32("tokenizer.ggml.bos_token_id")?,
        eos: metadata.u32("tokenizer.ggml.eos_token_id")?,
        eot: metadata.u32("tokenizer.ggml.eot_token_id")?,
        eom: metadata.u32("tokenizer.ggml.eom_token_id")?,
        unk: metadata.u32("tokenizer.ggml.unknown_token_id")?,
        pad: metadata.u32("tokenizer.ggml.padding_token_id")?,
        add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
        add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
        add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        embedding_rows: gguf
            .tensor(EMBEDDING)
            .and_then(|tensor| u32::try_from(tensor.rows()).ok()),
        chat_template: metadata.str("tokenizer.chat_template")?.map(str::to_owned),
        tool_use_template: metadata
            .str("tokenizer.chat_template.tool_use")?
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use foretoken_weights::BytesSource;
    use foretoken_weights::forge::Forge;

    use super::*;

    #[test]
    fn a_file_may_have_a_template_for_tools() {
        let forged = Forge::new()
            .metadata("general.architecture", "llama")
            .metadata("tokenizer.ggml.model", "gpt2")
            .metadata("tokenizer.ggml.tokens", &["a", "b"][..])
            .metadata("tokenizer.chat_template", "plain")
            .metadata("tokenizer.chat_template.tool_use", "with tools")
            .metadata("tokenizer.chat_template.rag", "with documents")
            .tensor("token_embd.weight", &[32, 2], 0, &[0; 4 * 32 * 2])
            .build();
        let source = BytesSource(forged.bytes);
        let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
        let spec = vocabulary_spec(&gguf).unwrap();
        assert_eq!(spec.chat_template.as_deref(), Some("plain"));
        assert_eq!(spec.tool_use_template.as_deref(), Some("with tools"));
    }
}
