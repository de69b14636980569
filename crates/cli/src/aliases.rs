//! Names of models that are fetched from their publishers where the models folder has none of that name.
//!
//! What a name stands for is the publisher's newest; its bytes are held against the hash that the hub lists for them at that time. A
//! model whose licence has to be accepted first (Gemma's) has no such name: whoever accepted it gives the repository.

/// A model by its publisher.
pub struct Alias {
    /// What `--model` takes.
    pub name: &'static str,
    /// Where it is on the hub.
    pub reference: &'static str,
}

/// All under Apache-2.0.
pub const ALIASES: [Alias; 3] = [
    Alias {
        name: "smollm2-135m",
        reference: "hf:HuggingFaceTB/SmolLM2-135M-Instruct",
    },
    Alias {
        name: "qwen2.5-coder-0.5b",
        reference: "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:Q4_K_M",
    },
    Alias {
        name: "qwen2.5-coder-1.5b",
        reference: "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M",
    },
];

#[cfg(test)]
mod tests {
    use super::ALIASES;
    use crate::hub::Reference;

    #[test]
    fn every_alias_is_a_reference() {
        for alias in ALIASES {
            Reference::parse(alias.reference).unwrap();
        }
    }
}
