//! From transformers' tensor names to GGUF's.

use super::config::Config;

/// What a tensor is in GGUF.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The same under this name.
    Gguf(String),
    /// Nothing: a table that is computed anyway, or a part of the model that is not for text.
    Left,
    /// Nothing that is known.
    Other,
}

/// Modules of a layer and what GGUF calls them. The norms before and after the feed-forward part are below: they go by the family.
const MODULES: [(&str, &str); 10] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];
/// Of a family with norms on both sides of each part of a layer, as Gemma 3.
const SANDWICH: [(&str, &str); 3] = [
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];
const PLAIN: [(&str, &str); 1] = [("post_attention_layernorm", "ffn_norm")];

/// Where the language model is, in a model that also sees and in one that does not.
const PREFIXES: [&str; 3] = ["model.language_model.", "language_model.model.", "model."];
/// What a model that also sees has beside it.
const SEEING: [&str; 2] = ["vision_tower.", "multi_modal_projector."];

/// What the tensor `name` is.
pub(super) fn gguf_name(name: &str, config: &Config) -> Name {
    let Some(family) = config.family() else {
        return Name::Other;
    };
    if matches!(name, "lm_head.weight" | "language_model.lm_head.weight") {
        return Name::Gguf("output.weight".to_owned());
    }
    let in_model = name.strip_prefix("model.").unwrap_or(name);
    if config.sees() && SEEING.iter().any(|module| in_model.starts_with(module)) {
        return Name::Left;
    }
    let prefix = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let Some(rest) = prefix else {
        return Name::Other;
    };
    match rest {
        "embed_tokens.weight" => return Name::Gguf("token_embd.weight".to_owned()),
        "norm.weight" => return Name::Gguf("output_norm.weight".to_owned()),
        "rotary_emb.inv_freq" => return Name::Left,
        _ => {}
    }
    let Some((layer, rest)) = rest
        .strip_prefix("layers.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return Name::Other;
    };
    let is_number = layer.bytes().all(|byte| byte.is_ascii_digit()) && layer.len() <= 5;
    if layer.is_empty() || !is_number || (layer.len() > 1 && layer.starts_with('0')) {
        return Name::Other;
    }
    if rest == "self_attn.rotary_emb.inv_freq" {
        return Name::Left;
    }
    let Some((module, kind @ ("weight" | "bias"))) = rest.rsplit_once('.') else {
        return Name::Other;
    };
    let norms: &[(&str, &str)] = match family.is_sandwich() {
        true => &SANDWICH,
        false => &PLAIN,
    };
    let found = MODULES
        .iter()
        .chain(norms)
        .find(|(from, _)| *from == module);
    match found {
        Some((_, to)) => Name::Gguf(format!("blk.{layer}.{to}.{kind}")),
        None => Name::Other,
    }
}
