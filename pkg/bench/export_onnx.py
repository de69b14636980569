"""Writes a llama of a GGUF file as ONNX for transformers.js, and holds it against golden tokens.

    export_onnx.py MODEL.gguf GOLDEN.json FOLDER

FOLDER gets `config.json`, `generation_config.json` and, in `onnx/`, the model twice, both with float32 activations:

- `model.onnx`: the file's weights, dequantized, in float32. It has to give the golden tokens, or this fails.
- `model_q4.onnx`: Q4_1 weights as int4 in blocks of 32, as ONNX Runtime's own quantizer would make them of the
  dequantized weights (its 4-bit zero points cannot express Q4_1's minima), the Q8_0 head as int8, exactly.

The graph is made of ONNX Runtime's fused operators (packed QKV, GroupQueryAttention with the rotary embedding in it,
SkipSimplifiedLayerNormalization, MatMulNBits), and computes the logits of the last position only. The last line
printed is a JSON object of what was checked; FOLDER/checked.json holds the same.
"""

import json
import os
import sys

import gguf
import numpy as np
import onnx_ir as ir
import onnxruntime

BLOCK = 32
# Positions the rotary tables have: more than any prompt of the benchmark with its answer.
POSITIONS = 2048
# Golden tokens that have to come out equal, a case.
TOKENS = 16
MICROSOFT = "com.microsoft"


class Weights:
    """The tensors of a GGUF file of architecture llama."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        field = lambda name: reader.fields[f"llama.{name}"].contents()
        self.layers = field("block_count")
        self.hidden = field("embedding_length")
        self.ffn = field("feed_forward_length")
        self.heads = field("attention.head_count")
        self.kv_heads = field("attention.head_count_kv")
        self.theta = field("rope.freq_base")
        self.epsilon = field("attention.layer_norm_rms_epsilon")
        self.head_dim = self.hidden // self.heads
        self.vocab = int(self.tensors["token_embd.weight"].shape[1])

    def floats(self, name):
        """float32; a matrix as [outputs, inputs]."""
        tensor = self.tensors[name]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def qkv(self, layer):
        """Queries, keys and values as one matrix, the rotary pairs as halves of a head: GGUF has them side by side."""
        parts = []
        for name, heads in (("q", self.heads), ("k", self.kv_heads)):
            rows = self.floats(f"blk.{layer}.attn_{name}.weight")
            pairs = rows.reshape(heads, self.head_dim // 2, 2, self.hidden)
            parts.append(pairs.swapaxes(1, 2).reshape(rows.shape))
        return np.concatenate([*parts, self.floats(f"blk.{layer}.attn_v.weight")])

    def head_codes(self):
        """Codes [vocab, hidden] and scales [vocab, blocks] of the head, where it is Q8_0; None where it is not."""
        name = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        tensor = self.tensors[name]
        if tensor.tensor_type != gguf.GGMLQuantizationType.Q8_0:
            return None
        blocks = np.ascontiguousarray(tensor.data).reshape(-1, 2 + BLOCK)
        scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
        return blocks[:, 2:].view(np.int8).reshape(self.vocab, -1), scales.reshape(self.vocab, -1)

    def head(self):
        return self.floats("output.weight" if "output.weight" in self.tensors else "token_embd.weight")


class Graph:
    """Nodes and initializers, as they come."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, name, array):
        tensor = ir.tensor(np.ascontiguousarray(array), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        self.initializers.append(value)
        return value

    def node(self, operator, inputs, name, domain="", outputs=1, **attributes):
        """The output called `name`, or the list of outputs."""
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        values = [ir.Value(name=name) for name in names]
        node = ir.node(operator, inputs, attributes, domain=domain, outputs=values, name=f"{operator}:{name}")
        self.nodes.append(node)
        return values[0] if outputs == 1 else values


class Float32:
    """Products with float32 weights."""

    def linear(self, graph, name, x, rows):
        return graph.node("MatMul", [x, graph.constant(f"{name}.weight", rows.T)], name)

    def head(self, graph, weights, x):
        return self.linear(graph, "logits", x, weights.head())


class Int4:
    """Products with int4 weights, and an int8 head."""

    def linear(self, graph, name, x, rows):
        outputs, inputs = rows.shape
        blocks = rows.reshape(outputs, inputs // BLOCK, BLOCK)
        low = np.minimum(blocks.min(axis=2), 0)
        high = np.maximum(blocks.max(axis=2), 0)
        scales = (high - low) / 15
        scales[scales == 0] = 1
        zeros = np.clip(np.rint(-low / scales), 0, 15).astype(np.uint8)
        codes = np.clip(np.rint(blocks / scales[..., None]) + zeros[..., None], 0, 15).astype(np.uint8)
        if zeros.shape[1] % 2 == 1:
            zeros = np.pad(zeros, ((0, 0), (0, 1)))
        return self.product(graph, name, x, rows.shape, 4, nibbles(codes), scales, nibbles(zeros).reshape(-1))

    def head(self, graph, weights, x):
        found = weights.head_codes()
        if found is None:
            return self.linear(graph, "logits", x, weights.head())
        codes, scales = found
        # 128 is the zero point of int8 where none is given.
        biased = (codes.astype(np.int16) + 128).astype(np.uint8).reshape(weights.vocab, -1, BLOCK)
        return self.product(graph, "logits", x, codes.shape, 8, biased, scales, None)

    def product(self, graph, name, x, shape, bits, codes, scales, zeros):
        inputs = [x, graph.constant(f"{name}.codes", codes), graph.constant(f"{name}.scales", scales.reshape(-1))]
        if zeros is not None:
            inputs.append(graph.constant(f"{name}.zeros", zeros))
        sizes = {"K": shape[1], "N": shape[0], "bits": bits, "block_size": BLOCK}
        return graph.node("MatMulNBits", inputs, name, MICROSOFT, **sizes)


def nibbles(codes):
    """Pairs of 4-bit values in a byte, the first one low."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def build(weights, products):
    """The model, in the form that transformers.js expects: a past in, a present out, logits of the last position."""
    graph = Graph()
    ids = tensor("input_ids", ir.DataType.INT64, "batch_size", "length")
    mask = tensor("attention_mask", ir.DataType.INT64, "batch_size", "total")
    past, present = [], []
    one = graph.constant("one", np.array([1], np.int64))
    last = graph.node("Sub", [graph.node("ReduceSum", [mask, one], "mask_sum", keepdims=0), one], "last_position")
    lengths = graph.node("Cast", [last], "lengths", to=ir.DataType.INT32.value)
    index = graph.constant("index", np.array(1, np.int64))
    length = graph.node("Gather", [graph.node("Shape", [mask], "mask_shape"), index], "mask_length")
    total = graph.node("Cast", [length], "total", to=ir.DataType.INT32.value)
    frequencies = weights.theta ** -(np.arange(0, weights.head_dim, 2, dtype=np.float64) / weights.head_dim)
    angles = np.arange(POSITIONS)[:, None] * frequencies
    cos = graph.constant("cos", np.cos(angles).astype(np.float32))
    sin = graph.constant("sin", np.sin(angles).astype(np.float32))

    def add_and_norm(name, x, residual):
        """The norm of the sum, and the sum."""
        scale = graph.constant(f"{name}.weight", weights.floats(f"{name}.weight"))
        normed, _, _, total = graph.node(
            "SkipSimplifiedLayerNormalization", [x, residual, scale], name, MICROSOFT, 4, epsilon=weights.epsilon,
        )
        return normed, total

    embeddings = graph.constant("token_embd.weight", weights.floats("token_embd.weight"))
    residual = graph.node("Gather", [embeddings, ids], "embedded")
    scale = graph.constant("first_norm.weight", weights.floats("blk.0.attn_norm.weight"))
    normed = graph.node(
        "SimplifiedLayerNormalization", [residual, scale], "first_norm", axis=-1, epsilon=weights.epsilon, stash_type=1,
    )
    for layer in range(weights.layers):
        name = f"blk.{layer}"
        past += cache(weights, f"past_key_values.{layer}", "past")
        qkv = products.linear(graph, f"{name}.qkv", normed, weights.qkv(layer))
        attended, *now = graph.node(
            "GroupQueryAttention", [qkv, None, None, *past[-2:], lengths, total, cos, sin], f"{name}.attended", MICROSOFT, 3,
            num_heads=weights.heads, kv_num_heads=weights.kv_heads, do_rotary=1, rotary_interleaved=0,
            scale=weights.head_dim ** -0.5,
        )
        present += now
        rows = weights.floats(f"{name}.attn_output.weight")
        projected = products.linear(graph, f"{name}.projected", attended, rows)
        normed, residual = add_and_norm(f"{name}.ffn_norm", projected, residual)
        gate = products.linear(graph, f"{name}.gate", normed, weights.floats(f"{name}.ffn_gate.weight"))
        up = products.linear(graph, f"{name}.up", normed, weights.floats(f"{name}.ffn_up.weight"))
        silu = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu")
        product = graph.node("Mul", [silu, up], f"{name}.product")
        down = products.linear(graph, f"{name}.down", product, weights.floats(f"{name}.ffn_down.weight"))
        following = f"blk.{layer + 1}.attn_norm" if layer + 1 < weights.layers else "output_norm"
        normed, residual = add_and_norm(following, down, residual)
    ends = [graph.constant(name, np.array([value], np.int64)) for name, value in (("from", -1), ("to", 2**62))]
    logits = products.head(graph, weights, graph.node("Slice", [normed, *ends, one], "last_row"))
    declare(logits, "batch_size", 1, weights.vocab)
    for output, like in zip(present, cache(weights, "present", "total") * weights.layers):
        declare(output, *like.shape)
    for layer in range(weights.layers):
        for part, output in zip(("key", "value"), present[2 * layer:]):
            output.name = f"present.{layer}.{part}"
    inner = ir.Graph(
        [ids, mask, *past], [logits, *present], nodes=graph.nodes, initializers=graph.initializers,
        opset_imports={"": 21, MICROSOFT: 1}, name="llama",
    )
    return ir.Model(inner, ir_version=10)


def tensor(name, kind, *shape):
    return ir.Value(name=name, type=ir.TensorType(kind), shape=ir.Shape(shape))


def declare(value, *shape):
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)


def cache(weights, name, length):
    """Keys and values of a layer. transformers.js makes an empty past from this shape: the head's size has to be in it."""
    shape = ("batch_size", weights.kv_heads, length, weights.head_dim)
    return [tensor(f"{name}.{part}", ir.DataType.FLOAT, *shape) for part in ("key", "value")]


def greedy(session, weights, prompt, tokens):
    """As many tokens as asked for, by the largest logit."""
    empty = np.zeros((1, weights.kv_heads, 0, weights.head_dim), np.float32)
    past = {f"past_key_values.{layer}.{part}": empty for layer in range(weights.layers) for part in ("key", "value")}
    ids, length, out = prompt, len(prompt), []
    while len(out) < tokens:
        inputs = {"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, length), np.int64)}
        logits, *present = session.run(None, inputs | past)
        past = dict(zip(past, present))
        out.append(int(logits[0, -1].argmax()))
        ids, length = out[-1:], length + 1
    return out


def equal_from_the_start(found, golden):
    pairs = list(zip(found, golden))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


def main():
    model, golden, folder = sys.argv[1:]
    weights = Weights(model)
    with open(golden) as file:
        cases = json.load(file)["cases"]
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": weights.hidden,
        "intermediate_size": weights.ffn, "num_hidden_layers": weights.layers, "num_attention_heads": weights.heads,
        "num_key_value_heads": weights.kv_heads, "head_dim": weights.head_dim, "vocab_size": weights.vocab,
        "rms_norm_eps": weights.epsilon, "rope_theta": weights.theta, "max_position_embeddings": POSITIONS,
        "hidden_act": "silu", "tie_word_embeddings": False,
    }
    for name, content in (("config", config), ("generation_config", {"do_sample": False})):
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            json.dump(content, file, indent=1)

    checked = {"tokens_a_case": TOKENS, "onnxruntime": onnxruntime.__version__}
    for name, products in (("model", Float32()), ("model_q4", Int4())):
        path = os.path.join(folder, "onnx", f"{name}.onnx")
        ir.save(build(weights, products), path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        equal, differing = 0, []
        for case in cases:
            due = case["output_ids"][:TOKENS]
            same = equal_from_the_start(greedy(session, weights, case["prompt_ids"], len(due)), due)
            equal += same == len(due)
            if same < len(due):
                differing.append({"case": case["id"], "equal_tokens": same, "of": len(due)})
        checked[name] = {"equal_cases": equal, "cases": len(cases), "differing": differing}
        print(f"{name}.onnx: {equal} of {len(cases)} golden cases are equal", flush=True)
    if checked["model"]["differing"]:
        sys.exit(f"model.onnx differs from the golden tokens: {checked['model']['differing']}")
    with open(os.path.join(folder, "checked.json"), "w") as file:
        json.dump(checked, file)
    print(json.dumps(checked))


main()
