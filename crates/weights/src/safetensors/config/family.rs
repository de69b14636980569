//! [`Family`]: what a model type means where `config.json` is silent.

/// How a family's layers come to see a window of the context only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::safetensors) enum Windows {
    /// They never do.
    None,
    /// Where `sliding_window` is a number.
    AllLayers,
    /// Where `use_sliding_window` says so.
    IfAsked,
    /// All but every n-th.
    EveryNth,
}

/// A model type that is known; 0 stands for what a configuration must state, or for what follows from the rest.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::safetensors) struct Family {
    model_type: &'static str,
    /// What GGUF calls it.
    pub(in crate::safetensors) architecture: &'static str,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    pub(super) head_dim: u32,
    pub(super) positions: u32,
    pub(super) theta: u32,
    pub(super) ties: bool,
    pub(super) activation: &'static str,
    /// Whether `attention_bias` and `mlp_bias` are keys of it.
    pub(super) has_bias_keys: bool,
    pub(super) windows: Windows,
    /// Whether some of its layers do without RoPE.
    pub(super) skips_rope: bool,
}

const LLAMA: Family = Family {
    model_type: "llama",
    architecture: "llama",
    heads: 0,
    kv_heads: 0,
    head_dim: 0,
    positions: 2048,
    theta: 10_000,
    ties: false,
    activation: "silu",
    has_bias_keys: true,
    windows: Windows::None,
    skips_rope: false,
};
const QWEN2: Family = Family {
    model_type: "qwen2",
    architecture: "qwen2",
    kv_heads: 32,
    positions: 32_768,
    has_bias_keys: false,
    windows: Windows::IfAsked,
    ..LLAMA
};
const GEMMA3: Family = Family {
    model_type: "gemma3",
    architecture: "gemma3",
    heads: 8,
    kv_heads: 4,
    head_dim: 256,
    positions: 131_072,
    theta: 1_000_000,
    ties: true,
    activation: "gelu_pytorch_tanh",
    windows: Windows::EveryNth,
    ..LLAMA
};

static FAMILIES: [Family; 7] = [
    LLAMA,
    Family {
        model_type: "mistral",
        kv_heads: 8,
        positions: 131_072,
        has_bias_keys: false,
        windows: Windows::AllLayers,
        ..LLAMA
    },
    QWEN2,
    Family {
        model_type: "qwen3",
        architecture: "qwen3",
        head_dim: 128,
        has_bias_keys: true,
        ..QWEN2
    },
    GEMMA3,
    Family {
        model_type: "gemma3_text",
        ..GEMMA3
    },
    Family {
        model_type: "smollm3",
        architecture: "smollm3",
        kv_heads: 4,
        positions: 32_768,
        theta: 2_000_000,
        ties: true,
        windows: Windows::IfAsked,
        skips_rope: true,
        ..LLAMA
    },
];

impl Family {
    /// The family of a model type.
    pub(super) fn named(model_type: &str) -> Option<&'static Self> {
        FAMILIES
            .iter()
            .find(|family| family.model_type == model_type)
    }

    /// Whether its layers have norms on both sides of attention and feed-forward.
    pub(in crate::safetensors) fn is_sandwich(&self) -> bool {
        self.windows == Windows::EveryNth
    }

    /// Whether layers with a window have a RoPE of their own.
    pub(super) fn has_local_rope(&self) -> bool {
        self.windows == Windows::EveryNth
    }
}
