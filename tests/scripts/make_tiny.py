"""Writes the TINY models (tests/data/tiny*.gguf) and what transformers computes with them (tests/golden/tiny.json).

A seeded random llama of 2 layers, vocabulary 512 and context 64 with a real byte-level BPE tokenizer and a
ChatML template: one file a format, and files that vary one feature of the architecture.
The oracle is transformers' LlamaForCausalLM in float32 over the dequantized weights.

Run from the repository's root: python tests/scripts/make_tiny.py
Needs numpy, torch, transformers, tokenizers and gguf. The output is the same every time.
"""

import itertools
import json
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
from gguf import GGMLQuantizationType as Q
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, CONTEXT = 512, 64, 128, 2, 4, 2, 64
HEAD_DIM = HIDDEN // HEADS
THETA, EPS = 10000.0, 1e-5
NEW_TOKENS = 20
# Between the largest two logits of every step, so that no expected id hangs on rounding.
SMALLEST_GAP = 0.02
ROPE_FACTORS = np.array([1, 1, 1, 1.5, 2, 4, 8, 8], dtype=np.float32)

CORPUS = """
The lighthouse keeper counted the ships as they passed in the evening. There were seven of them, and each one
carried something different: wool, salt, glass, letters, oranges, timber and a piano. He wrote the numbers in a
book, because the company wanted numbers, but he remembered the piano. In the morning the wind had turned and the
water was the colour of slate. A small boat was coming towards the rocks, and the keeper ran down the stairs with
a rope and a lantern. "What is the name of your boat?" he called. "She has no name," the sailor answered, "we
have only just built her." They pulled the boat onto the sand together, and the sailor thanked him and sat down.
You are a helpful assistant. What is the capital of this country? Write a list of three things that you can see
from the window, and explain why each of them is there. The answer to the question is that the river was there
before the town, and the town was there before the bridge. When the bridge was built the people of the town sold
bread and fish to the people who were waiting to cross it, and after some years nobody could remember a time
without it. The user asks and the assistant answers; the system says how. for i in range(10): print(i) and return
the result of the function. If there is nothing to do, then do nothing, and do it well. Some words come back often:
the, and, that, with, have, this, from, they, would, there, their, what, about, which, when, make, like, time.
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

PROMPTS = {
    "plain": "The keeper wrote the numbers in a book",
    "chat": "<|im_start|>user\nWhat is 7?<|im_end|>\n<|im_start|>assistant\n",
    # Cut to 60 tokens below.
    "nearly_full": CORPUS.strip().replace("\n", " "),
}

LAYER_MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def every(format):
    return dict.fromkeys(LAYER_MATRICES, format)


# Per file: the formats of the embedding and of the layers' matrices, and what else is special.
FILES = {
    "tiny": dict(embed=Q.F32, layers=every(Q.F16)),
    "tiny_bf16": dict(embed=Q.BF16, layers=every(Q.BF16)),
    "tiny_q8_0": dict(embed=Q.Q8_0, layers=every(Q.Q8_0)),
    "tiny_q4_0": dict(embed=Q.Q4_0, layers=every(Q.Q4_0)),
    "tiny_q4_1": dict(embed=Q.Q8_0, layers=every(Q.Q4_1)),
    "tiny_mixed": dict(
        embed=Q.F16,
        layers=dict(
            attn_q=Q.Q4_1, attn_k=Q.Q8_0, attn_v=Q.F16, attn_output=Q.Q4_0,
            ffn_gate=Q.Q4_0, ffn_up=Q.Q8_0, ffn_down=Q.BF16,
        ),
    ),
    "tiny_untied": dict(embed=Q.Q8_0, layers=every(Q.Q4_1), untied=True),
    "tiny_bias": dict(embed=Q.Q8_0, layers=every(Q.Q4_1), bias=True),
    "tiny_rope_freqs": dict(embed=Q.Q8_0, layers=every(Q.Q4_1), rope_freqs=True),
    "tiny_rope_linear": dict(embed=Q.Q8_0, layers=every(Q.Q4_1), rope_linear=2.0),
}


def make_tokenizer():
    """The pre-tokenizer named `smollm` in GGUF: digits one by one, then GPT-2's byte level."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    return tokenizer


def make_weights(seed):
    """Weights as GGUF lays them out, in float32. The layers speak louder than the embedding: with a tied head
    the model would otherwise answer every token with itself."""
    random = np.random.default_rng(seed)

    def matrix(rows, cols, scale):
        return (random.standard_normal((rows, cols)) * scale / np.sqrt(cols)).astype(np.float32)

    def norm():
        return (1 + 0.2 * random.standard_normal(HIDDEN)).astype(np.float32)

    weights = {"token_embd.weight": matrix(VOCAB, HIDDEN, 4.0), "output.weight": matrix(VOCAB, HIDDEN, 4.0)}
    for layer in range(LAYERS):
        shapes = {
            "attn_q": (HIDDEN, HIDDEN, 1.5), "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN, 1.5),
            "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN, 1.5), "attn_output": (HIDDEN, HIDDEN, 2.0),
            "ffn_gate": (FFN, HIDDEN, 2.0), "ffn_up": (FFN, HIDDEN, 2.0), "ffn_down": (HIDDEN, FFN, 2.0),
        }
        for name, shape in shapes.items():
            weights[f"blk.{layer}.{name}.weight"] = matrix(*shape)
        for name in ["attn_norm", "ffn_norm"]:
            weights[f"blk.{layer}.{name}.weight"] = norm()
        for name, rows in [("attn_q", HIDDEN), ("attn_k", KV_HEADS * HEAD_DIM), ("attn_v", KV_HEADS * HEAD_DIM)]:
            weights[f"blk.{layer}.{name}.bias"] = (0.5 * random.standard_normal(rows)).astype(np.float32)
    weights["output_norm.weight"] = norm()
    return weights


def format_of(name, spec):
    """How a file stores a tensor, or None if it has none of that name."""
    if name == "output.weight":
        return Q.F16 if spec.get("untied") else None
    if name.endswith(".bias"):
        return Q.F32 if spec.get("bias") else None
    if name == "token_embd.weight":
        return spec["embed"]
    return spec["layers"].get(name.split(".")[-2], Q.F32)


def write_file(path, weights, spec, tokenizer):
    """Writes one GGUF file and returns its weights as a reader gets them back."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(path.stem)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPS)
    if "rope_linear" in spec:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(spec["rope_linear"])

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
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)

    read_back = {}
    for name, values in weights.items():
        format = format_of(name, spec)
        if format is None:
            continue
        stored = gguf.quants.quantize(values, format)
        writer.add_tensor(name, stored, raw_dtype=format)
        read_back[name] = gguf.quants.dequantize(stored, format)
    if spec.get("rope_freqs"):
        writer.add_tensor("rope_freqs.weight", ROPE_FACTORS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_back


def halves(values, heads):
    """Reorders the outputs of q or k from interleaved pairs to Hugging Face's halves."""
    return values.reshape(heads, HEAD_DIM // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)


def make_oracle(weights, spec):
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT,
        rms_norm_eps=EPS, tie_word_embeddings=not spec.get("untied", False), attention_bias=spec.get("bias", False),
        rope_parameters={"rope_type": "default", "rope_theta": THETA}, attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval().to(torch.float32)
    names = {
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    }
    state = {
        "model.embed_tokens.weight": weights["token_embd.weight"],
        "model.norm.weight": weights["output_norm.weight"],
        "lm_head.weight": weights.get("output.weight", weights["token_embd.weight"]),
    }
    for layer in range(LAYERS):
        for ours, theirs in names.items():
            for kind in ["weight", "bias"]:
                values = weights.get(f"blk.{layer}.{ours}.{kind}")
                if values is None:
                    continue
                if ours in ("attn_q", "attn_k"):
                    values = halves(values, HEADS if ours == "attn_q" else KV_HEADS)
                state[f"model.layers.{layer}.{theirs}.{kind}"] = values
        if spec.get("bias"):
            state[f"model.layers.{layer}.self_attn.o_proj.bias"] = np.zeros(HIDDEN, dtype=np.float32)
    state = {name: torch.from_numpy(np.array(values, dtype=np.float32)) for name, values in state.items()}
    model.load_state_dict(state, strict=True)
    frequencies = model.model.rotary_emb.inv_freq
    if spec.get("rope_freqs"):
        frequencies /= torch.from_numpy(ROPE_FACTORS)
    if "rope_linear" in spec:
        frequencies /= spec["rope_linear"]
    return model


@torch.no_grad()
def run_case(model, prompt_ids):
    """Logits of the prompt's last position, then greedy ids without any stop token, as far as the context goes.
    Each step recomputes everything: no cache that could be wrong."""
    ids, gaps, first = list(prompt_ids), [], None
    for _ in range(min(NEW_TOKENS, CONTEXT - len(prompt_ids) + 1)):
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
    prompts = {}
    for name, text in PROMPTS.items():
        ids = tokenizer.encode(text).ids
        if name == "nearly_full":
            ids = ids[:60]
            assert len(ids) == 60
            text = tokenizer.decode(ids, skip_special_tokens=False)
            assert tokenizer.encode(text).ids == ids
        prompts[name] = dict(text=text, prompt_ids=ids)
    golden = dict(
        reference="transformers LlamaForCausalLM, CPU, float32, over the file's weights dequantized",
        settings="greedy, no stop token, up to the end of the context of 64",
        prompts=prompts,
        files={},
    )
    for name, spec in FILES.items():
        path = root / "data" / f"{name}.gguf"
        for seed in itertools.count():
            model = make_oracle(write_file(path, make_weights(seed), spec, tokenizer), spec)
            cases = {prompt: run_case(model, entry["prompt_ids"]) for prompt, entry in prompts.items()}
            if all(
                case["smallest_gap"] > SMALLEST_GAP and len(set(case["output_ids"])) >= 4 for case in cases.values()
            ):
                break
        golden["files"][path.name] = cases
        for prompt, case in cases.items():
            gap, distinct = case["smallest_gap"], len(set(case["output_ids"]))
            print(f"{path.name}: seed {seed}, {prompt}: smallest gap {gap}, {distinct} distinct ids")
    # One line a case: readable, and small differences show as small.
    text = json.dumps(golden, ensure_ascii=False)
    text = text.replace('"files": {', '"files": {\n').replace('"logits"', '\n"logits"').replace("}}, ", "}},\n")
    (root / "golden" / "tiny.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
