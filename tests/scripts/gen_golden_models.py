"""Writes tests/golden/<model>.json for models of several architectures: what transformers makes of a prompt, greedily, in float32
over the file's own weights (dequantized by the gguf package).

Run from the repository's root: python tests/scripts/gen_golden_models.py MODEL [FOLDER]
MODEL is gemma3-270m, qwen2.5-coder-0.5b or qwen2.5-coder-1.5b; FOLDER holds the files (default ~/.cache/foretoken/models).
Needs torch, transformers, accelerate and gguf, and memory for the model in float32.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW_TOKENS = 48
SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


def chat(text):
    return (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    )


TEXT = {
    "capital": "The capital of France is",
    "list": "Ten fruits:\n1. Apple\n2. Banana\n3.",
    "emoji": "Hello 🙂 in Japanese is こんにちは. Hello in Russian is",
    "story": "Once upon a time, in a small village by the sea, there lived",
    "german": "Die Hauptstadt von Deutschland ist",
    "numbers": "1, 2, 3, 5, 8, 13,",
    "code": "def fibonacci(n):\n    ",
    "dialogue": "\"Where are you going?\" she asked.\n\"To the",
}
CODE = {
    "merge": chat("Write a Python function that merges two sorted lists."),
    "fixjs": chat("Fix the bug and print the whole code:\nfunction last(xs) {\n  return xs[xs.length];\n}"),
    "fim": 'def is_prime(n):\n    """Return True if n is prime."""\n',
    "rename": chat(
        "Rename the variable tmp to total in this code and print it:\n"
        "let tmp = 0;\nfor (const x of xs) { tmp += x; }\nconsole.log(tmp);"
    ),
    "sql": chat(
        "Write an SQL query that returns the three customers with the highest total order value. "
        "Tables: customers(id, name), orders(id, customer_id, total)."
    ),
    "rust": chat("Write a Rust function that reverses the words of a string."),
    "explain": chat("Explain in two sentences what a hash map is."),
    "raw": "import numpy as np\n\n\ndef softmax(x):\n    ",
}
MODELS = {"gemma3-270m": TEXT, "qwen2.5-coder-0.5b": CODE, "qwen2.5-coder-1.5b": CODE}


@torch.no_grad()
def main():
    name = sys.argv[1]
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "~/.cache/foretoken/models").expanduser()
    file = f"{name}.gguf"
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    cases = []
    for case, text in MODELS[name].items():
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=name.startswith("gemma")).input_ids
        first = model(ids).logits[0, -1]
        top = torch.topk(first, 20)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False, output_logits=True,
            return_dict_in_generate=True,
        )
        gaps = [torch.topk(step[0], 2).values for step in out.logits]
        output = out.sequences[0, ids.shape[1]:].tolist()
        cases.append(dict(
            id=case, text=text, prompt_ids=ids[0].tolist(), output_ids=output,
            gaps=[round((two[0] - two[1]).item(), 4) for two in gaps],
            top20=[[i, round(v, 4)] for i, v in zip(top.indices.tolist(), top.values.tolist())],
        ))
        print(case, len(ids[0]), len(output), tokenizer.decode(output)[:80].replace("\n", "\\n"), flush=True)
    golden = dict(
        model=name, reference="transformers, torch CPU float32, the file's weights dequantized",
        settings=f"greedy, at most {NEW_TOKENS} new tokens; gaps: top-1 minus top-2 logit at each step",
        note="ids are compared up to the first step whose gap is under 0.02", cases=cases,
    )
    text = json.dumps(golden, ensure_ascii=False).replace('{"id"', '\n{"id"').replace("]]}]}", "]]}\n]}")
    (Path(__file__).parent.parent / "golden" / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
