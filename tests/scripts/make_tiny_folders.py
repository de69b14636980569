"""Writes the TINY folders (tests/data/folder*) and what transformers computes with them (tests/golden/folder.json).

Seeded random llamas of 2 layers, vocabulary 320 and context 64, saved with save_pretrained: in float32 as one file
with tied embeddings, in bfloat16 as several shards with a head of its own. Beside them GGUF files of
the first one's weights, quantized by the gguf package: q and k stay in Hugging Face's order, so that nothing but the
formats of the matrices may differ.

Run from the repository's root: python tests/scripts/make_tiny_folders.py
Needs numpy, torch, transformers, tokenizers and gguf. The output is the same every time.
"""

import itertools
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
from gguf import GGMLQuantizationType as Q
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from make_tiny import CHAT_TEMPLATE, CORPUS

VOCAB, HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 320, 32, 64, 2, 2, 1, 16, 64
NEW_TOKENS = 16
# Between the largest two logits of every step, so that no expected id hangs on rounding.
SMALLEST_GAP = 0.02
PROMPT = "The keeper wrote the numbers in a book"
CONVERSATION = [{"role": "user", "content": "What is 7?"}]
FOLDERS = {
    "folder": dict(dtype=torch.float32, tied=True, shard="1GB"),
    "folder_shards": dict(dtype=torch.bfloat16, tied=False, shard="30KB"),
}


def make_tokenizer():
    """Digits one by one, then GPT-2's byte level."""
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
    assert tokenizer.get_vocab_size() == VOCAB
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>", unk_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    )


def make_model(seed, spec):
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5, tie_word_embeddings=spec["tied"], bos_token_id=1, eos_token_id=2, pad_token_id=None,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"}, attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if values.dim() == 1:
                new = 1 + 0.2 * random.standard_normal(values.shape)
            else:
                scale = 4.0 if "embed" in name or "lm_head" in name else 2.0
                new = random.standard_normal(values.shape) * scale / np.sqrt(values.shape[1])
            values.copy_(torch.from_numpy(new.astype(np.float32)))
    # The end of a turn is not the tokenizer's alone.
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=[2, 5])
    return model.to(spec["dtype"])


@torch.no_grad()
def run_case(model, prompt_ids):
    """Logits of the prompt's last position, then greedy ids without any stop token. No cache that could be wrong."""
    ids, gaps, first = list(prompt_ids), [], None
    for _ in range(NEW_TOKENS):
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        if first is None:
            first = [round(value, 6) for value in logits.tolist()]
        top = torch.topk(logits, 2).values
        gaps.append((top[0] - top[1]).item())
        ids.append(int(torch.argmax(logits)))
    return dict(logits=first, output_ids=ids[len(prompt_ids):], smallest_gap=round(min(gaps), 5))


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *module, kind = name.split(".")
    return f"blk.{layer}.{NAMES['.'.join(module)]}.{kind}"


def write_quantized(path, model, format):
    """A GGUF file of the model's weights. Embedding and head have 8 bits whatever the rest has."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, values in model.named_parameters():
        stored = Q.F32 if values.dim() == 1 else Q.Q8_0 if "embed" in name else format
        data = gguf.quants.quantize(values.detach().numpy(), stored)
        writer.add_tensor(gguf_name(name), data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    root = Path(__file__).parent.parent
    tokenizer = make_tokenizer()
    prompt_ids = tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    chat_ids = tokenizer.apply_chat_template(CONVERSATION, add_generation_prompt=True, return_dict=False)
    golden = dict(
        reference="transformers LlamaForCausalLM, CPU, float32, over the folder's weights",
        prompt=dict(text=PROMPT, prompt_ids=prompt_ids),
        chat=dict(messages=CONVERSATION, prompt_ids=chat_ids),
        end_ids=[2, 5, 0],
        folders={},
    )
    for name, spec in FOLDERS.items():
        folder = root / "data" / name
        for seed in itertools.count():
            shutil.rmtree(folder, ignore_errors=True)
            make_model(seed, spec).save_pretrained(folder, max_shard_size=spec["shard"])
            model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
            case = run_case(model, prompt_ids)
            if case["smallest_gap"] > SMALLEST_GAP and len(set(case["output_ids"])) >= 4:
                break
        tokenizer.save_pretrained(folder)
        golden["folders"][name] = case
        print(f"{name}: seed {seed}, smallest gap {case['smallest_gap']}, {sorted(p.name for p in folder.iterdir())}")
        if name == "folder":
            for format in [Q.Q8_0, Q.Q4_0]:
                write_quantized(root / "data" / f"folder_{format.name.lower()}.gguf", model, format)
    text = json.dumps(golden, ensure_ascii=False)
    text = text.replace('"folders": {', '"folders": {\n').replace("}, ", "},\n")
    (root / "golden" / "folder.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
