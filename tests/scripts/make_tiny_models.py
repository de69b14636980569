"""Writes tests/data/tiny_<architecture>.gguf and what transformers computes with them (tests/golden/tiny_models.json): one seeded random
model an architecture, and a llama for each kind of RoPE scaling.

The oracle is transformers' own class in float64, whose weights are written out under GGUF's names and read back as they are stored.
Prompts go past the sliding windows, and past the ring in which they are kept.

Run from the repository's root: python tests/scripts/make_tiny_models.py [FILE ...], all of them without a name
Needs numpy, torch, transformers, tokenizers and gguf. The output is the same every time.
"""

import itertools
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Q

sys.path.insert(0, str(Path(__file__).parent))
from make_tiny import CHAT_TEMPLATE, CORPUS, VOCAB, make_tokenizer  # noqa: E402

HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 64, 128, 4, 2, 16, 768
EPS = 1e-6
NEW_TOKENS = 16
# Between the largest two logits of every step, so that no expected id hangs on rounding.
SMALLEST_GAP = 0.02

ROPE = dict(rope_type="default", rope_theta=10000.0)
COMMON = dict(
    vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
    head_dim=HEAD_DIM, max_position_embeddings=CONTEXT, rms_norm_eps=EPS, tie_word_embeddings=True, attn_implementation="eager",
)


def llama(layers=2, **changes):
    return transformers.LlamaConfig(**{**COMMON, "num_hidden_layers": layers, "rope_parameters": ROPE, **changes})


LONG = [1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 8.0]
SHORT = [1.0, 1.0, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0]

# Per file: GGUF's architecture, the configuration, and keys that only this file has.
FILES = {
    "tiny_qwen2": ("qwen2", lambda: transformers.Qwen2Config(
        **{**COMMON, "num_hidden_layers": 2, "rope_parameters": ROPE, "use_sliding_window": False}), {}),
    "tiny_qwen3": ("qwen3", lambda: transformers.Qwen3Config(
        **{**COMMON, "num_hidden_layers": 2, "head_dim": 32, "rope_parameters": ROPE, "use_sliding_window": False}), {}),
    "tiny_gemma3": ("gemma3", lambda: transformers.Gemma3TextConfig(
        **{**COMMON, "num_hidden_layers": 3, "head_dim": 32, "sliding_window": 24, "query_pre_attn_scalar": 32,
           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
           "rope_parameters": dict(
               full_attention=dict(rope_type="linear", rope_theta=1e6, factor=2.0),
               sliding_attention=dict(rope_type="default", rope_theta=1e4))}), {}),
    "tiny_smollm3": ("smollm3", lambda: transformers.SmolLM3Config(
        **{**COMMON, "num_hidden_layers": 4, "rope_parameters": ROPE, "no_rope_layer_interval": 4,
           "use_sliding_window": False, "pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}), {}),
    "tiny_mistral": ("llama", lambda: transformers.MistralConfig(
        **{**COMMON, "num_hidden_layers": 2, "rope_parameters": ROPE, "sliding_window": 40}), {}),
    "tiny_llama3": ("llama", lambda: llama(rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=128)), {}),
    "tiny_yarn": ("llama", lambda: llama(rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=192)), {}),
    "tiny_longrope": ("llama", lambda: llama(rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=192, long_factor=LONG,
        # transformers takes those of the sequence's length, we those of the context's, so that no key has to be turned again.
        short_factor=LONG)), {}),
}

# Hugging Face's names of a layer's tensors, per family.
LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA = {
    **LAYER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def names(architecture):
    return GEMMA if architecture == "gemma3" else LAYER


def gguf_name(architecture, name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *stem, kind = name.split(".")
    return f"blk.{layer}.{names(architecture)['.'.join(stem)]}.{kind}"


def randomize(model, seed):
    """Layers speak louder than the embedding: with a tied head the model would otherwise answer every token with itself."""
    random = np.random.default_rng(seed)
    gemma = "gemma" in model.config.model_type
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        if "norm" in name:
            values = 0.2 * random.standard_normal(shape) + (0 if gemma else 1)
            if gemma and name.endswith(("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")):
                values += 1.5
            if gemma and name == "model.norm.weight":
                values += 5
        elif name.endswith(".bias"):
            values = 0.5 * random.standard_normal(shape)
        else:
            # Gemma scales its embeddings by the root of the width; its tied head is not.
            scale = (1.0 if gemma else 4.0) if "embed" in name or "lm_head" in name else 2.0
            values = random.standard_normal(shape) * scale / np.sqrt(shape[-1])
        tensor.copy_(torch.from_numpy(values.astype(np.float32)))


def interleaved(values, heads):
    """Reorders the outputs of q or k from Hugging Face's halves to the pairs in which GGUF keeps llama's."""
    head_dim = values.shape[0] // heads
    return values.reshape(heads, 2, head_dim // 2, -1).swapaxes(1, 2).reshape(values.shape)


def store(architecture, name, values):
    """How a file stores a tensor."""
    return Q.F32 if values.ndim == 1 else Q.Q8_0 if "embed" in name else Q.F16


def write_file(path, architecture, model, tokenizer):
    """Writes one GGUF file and puts the weights as a reader gets them back into the model."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(path.stem)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(EPS)
    rope = config.rope_parameters
    if architecture == "gemma3":
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        writer.add_sliding_window(config.sliding_window)
        writer.add_array("gemma3.attention.sliding_window_pattern", [kind == "sliding_attention" for kind in config.layer_types])
        rope = rope["full_attention"]
    else:
        writer.add_rope_freq_base(rope["rope_theta"])
        if getattr(config, "sliding_window", None):
            writer.add_sliding_window(config.sliding_window)
    factors = {}
    match rope["rope_type"]:
        case "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        case "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        case "llama3":
            # As converters write it: a divisor a pair.
            plain = rope["rope_theta"] ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
            scaled = model.model.rotary_emb.inv_freq.double().numpy()
            factors["rope_freqs.weight"] = (plain / scaled).astype(np.float32)
        case "longrope":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            writer.add_rope_scaling_attn_factors(model.model.rotary_emb.attention_scaling)
            factors["rope_factors_long.weight"] = np.array(LONG, dtype=np.float32)
            factors["rope_factors_short.weight"] = np.array(SHORT, dtype=np.float32)

    state = json.loads(tokenizer.to_str())
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    control = {token["content"] for token in state["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in control else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges([" ".join(merge) for merge in state["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)

    pairs = architecture in ("llama", "smollm3")
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        values = tensor.numpy()
        format = store(architecture, name, values)
        stored = gguf.quants.quantize(values, format)
        tensor.copy_(torch.from_numpy(gguf.quants.dequantize(stored, format).reshape(values.shape)))
        values = tensor.numpy()
        if pairs and ("q_proj" in name or "k_proj" in name):
            values = interleaved(values, HEADS if "q_proj" in name else KV_HEADS)
        if architecture == "gemma3" and "norm" in name:
            values = values + 1
        writer.add_tensor(gguf_name(architecture, name), gguf.quants.quantize(values, format), raw_dtype=format)
    for name, values in factors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.no_grad()
def run_case(model, prompt_ids):
    """Logits of the prompt's last position, then greedy ids without any stop token. Each step recomputes everything: no cache that
    could be wrong."""
    ids, gaps, first = list(prompt_ids), [], None
    for _ in range(NEW_TOKENS):
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        if first is None:
            first = [round(value, 6) for value in logits.tolist()]
        top = torch.topk(logits, 2).values
        gaps.append((top[0] - top[1]).item())
        ids.append(int(torch.argmax(logits)))
    return dict(logits=first, output_ids=ids[len(prompt_ids):], smallest_gap=round(min(gaps), 5))


def main():
    root = Path(__file__).parent.parent
    tokenizer = make_tokenizer()
    text = CORPUS.strip().replace("\n", " ")
    whole = tokenizer.encode(text + " " + text).ids
    prompts = {}
    for name, length in {"short": 9, "past_the_window": 100, "past_the_ring": 400}.items():
        # Cut between words, so that the text has these ids again.
        while True:
            part = tokenizer.decode(whole[:length], skip_special_tokens=False)
            if tokenizer.encode(part).ids == whole[:length]:
                break
            length += 1
        prompts[name] = dict(text=part, prompt_ids=whole[:length])
    known = {}
    if len(sys.argv) > 1:
        known = json.loads((root / "golden" / "tiny_models.json").read_text(encoding="utf-8"))["files"]
    golden = dict(
        reference="transformers, CPU, float64, over the file's weights dequantized",
        settings=f"greedy, no stop token, {NEW_TOKENS} tokens", prompts=prompts, files={},
    )
    for name, (architecture, config, _) in FILES.items():
        path = root / "data" / f"{name}.gguf"
        if sys.argv[1:] and name not in sys.argv[1:]:
            golden["files"][path.name] = known[path.name]
            continue
        for seed in itertools.count():
            model = transformers.AutoModelForCausalLM.from_config(config(), dtype=torch.float32).eval()
            with torch.no_grad():
                randomize(model, seed)
                write_file(path, architecture, model, tokenizer)
            # The sums in double precision: the reference's own rounding over hundreds of positions is as large as ours.
            model = model.double()
            # Without a window there is no ring; what grows with the prompt is how far the reference's angles, in single precision, are off.
            slides = getattr(model.config, "sliding_window", None) is not None
            taken = [prompt for prompt in prompts if slides or prompt != "past_the_ring"]
            cases = {prompt: run_case(model, prompts[prompt]["prompt_ids"]) for prompt in taken}
            gaps = [case["smallest_gap"] for case in cases.values()]
            distinct = [len(set(case["output_ids"])) for case in cases.values()]
            print(f"{path.name}: seed {seed}: smallest gaps {gaps}, distinct ids {distinct}", flush=True)
            if min(gaps) > SMALLEST_GAP and min(distinct) >= 3:
                break
        golden["files"][path.name] = cases
    text = json.dumps(golden, ensure_ascii=False)
    text = text.replace('"files": {', '"files": {\n').replace('"logits"', '\n"logits"').replace("}}, ", "}},\n")
    (root / "golden" / "tiny_models.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
