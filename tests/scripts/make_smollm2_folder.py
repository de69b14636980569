"""Writes SmolLM2 as a safetensors folder: the weights of the GGUF file that the golden answers are of, dequantized to float32, and its
tokenizer, in several shards, as transformers saves them. tests/tests/folder.rs loads the folder where it is there.

python tests/scripts/make_smollm2_folder.py ~/.cache/foretoken/models/smollm2-135m.gguf
makes the folder smollm2-135m-safetensors beside that file. Needs numpy, torch, transformers and gguf.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from make_tiny_folders import NAMES

file = Path(sys.argv[1]).expanduser()
folder = file.with_name(f"{file.stem}-safetensors")
reader = gguf.GGUFReader(file)


def stated(key):
    return reader.fields[f"llama.{key}"].contents()


heads, kv_heads = stated("attention.head_count"), stated("attention.head_count_kv")
weights = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
config = LlamaConfig(
    vocab_size=weights["token_embd.weight"].shape[0], hidden_size=stated("embedding_length"),
    intermediate_size=stated("feed_forward_length"), num_hidden_layers=stated("block_count"), num_attention_heads=heads,
    num_key_value_heads=kv_heads, max_position_embeddings=stated("context_length"),
    rms_norm_eps=stated("attention.layer_norm_rms_epsilon"), tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
    rope_parameters={"rope_type": "default", "rope_theta": stated("rope.freq_base")},
)
state = {"model.embed_tokens.weight": weights["token_embd.weight"], "model.norm.weight": weights["output_norm.weight"]}
state["lm_head.weight"] = state["model.embed_tokens.weight"]
for layer in range(config.num_hidden_layers):
    for theirs, ours in NAMES.items():
        values = weights[f"blk.{layer}.{ours}.weight"]
        if ours in ("attn_q", "attn_k"):
            # GGUF interleaves the halves of a head.
            count = heads if ours == "attn_q" else kv_heads
            values = values.reshape(count, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        state[f"model.layers.{layer}.{theirs}.weight"] = values
model = LlamaForCausalLM(config).to(torch.float32)
model.load_state_dict({name: torch.from_numpy(np.array(values, dtype=np.float32)) for name, values in state.items()})
model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2)
model.save_pretrained(folder, max_shard_size="200MB")
AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
print(sorted(path.name for path in folder.iterdir()))
