#!/usr/bin/env python3
"""Writes crates/decode/tests/golden/sampling.json: processed next-token distributions.

Run from the repository's root with a Python that has `transformers` and `torch`:
    python tests/scripts/gen_sampling_reference.py
Repetition penalty, temperature, min-p, top-k and top-p are Hugging Face's logits processors; min_tokens, logit bias and
the penalties of counts, which it has not or has otherwise, are their formulas. They run in Foretoken's order.
"""
import json
import pathlib
import random

import torch
import transformers
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/decode/tests/golden/sampling.json"
OFF = {
    "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0, "min_tokens": 0, "stop_ids": [], "logit_bias": [],
}
# Each alone, pairs that meet, and everything.
SETTINGS = [
    {},
    {"temperature": 0.5}, {"temperature": 0.1}, {"temperature": 2.0},
    {"top_k": 1}, {"top_k": 4}, {"top_k": 100},
    {"top_p": 0.3}, {"top_p": 0.9}, {"top_p": 0.99}, {"top_p": 0.01},
    {"min_p": 0.02}, {"min_p": 0.3}, {"min_p": 1.0},
    {"repetition_penalty": 1.3}, {"repetition_penalty": 0.7},
    {"frequency_penalty": 0.6}, {"frequency_penalty": -0.6},
    {"presence_penalty": 0.9}, {"presence_penalty": -0.9},
    {"logit_bias": [[2, 3.0], [5, -100.0]]},
    {"min_tokens": 9, "stop_ids": [1, 4]},
    {"min_tokens": 2, "stop_ids": [1, 4]},
    {"temperature": 0.7, "top_k": 4}, {"temperature": 0.7, "top_p": 0.8}, {"temperature": 0.7, "min_p": 0.1},
    {"top_k": 6, "top_p": 0.7}, {"top_k": 6, "min_p": 0.2}, {"top_p": 0.7, "min_p": 0.05},
    {"temperature": 1.5, "top_k": 8, "top_p": 0.9, "min_p": 0.05},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.4, "presence_penalty": 0.3},
    {"repetition_penalty": 1.2, "logit_bias": [[0, 2.0], [7, -2.0]]},
    {
        "temperature": 0.8, "top_k": 10, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.1,
        "frequency_penalty": 0.2, "presence_penalty": 0.1, "min_tokens": 9, "stop_ids": [0],
        "logit_bias": [[1, 1.5], [3, -1.5]],
    },
]


def distribution(case):
    s = {**OFF, **case["sampling"]}
    output = case["output"] + case["drafts"]
    scores = torch.tensor([case["logits"]], dtype=torch.float32)
    for token, bias in s["logit_bias"]:
        scores[0, token] += bias
    ids = torch.tensor([case["prompt"] + output])
    if s["repetition_penalty"] != 1.0:
        scores = RepetitionPenaltyLogitsProcessor(s["repetition_penalty"])(ids, scores)
    for token in set(output):
        scores[0, token] -= s["frequency_penalty"] * output.count(token) + s["presence_penalty"]
    if len(output) < s["min_tokens"]:
        scores[0, s["stop_ids"]] = -float("inf")
    warpers = LogitsProcessorList([TemperatureLogitsWarper(s["temperature"])])
    if s["min_p"] > 0:
        warpers.append(MinPLogitsWarper(s["min_p"]))
    if s["top_k"] > 0:
        warpers.append(TopKLogitsWarper(s["top_k"]))
    if s["top_p"] < 1:
        warpers.append(TopPLogitsWarper(s["top_p"]))
    return torch.softmax(warpers(ids, scores).double(), dim=-1)[0].tolist()


def main():
    rng = random.Random(20)
    cases = []
    for setting in SETTINGS:
        for vocab in (8, 40):
            case = {
                "sampling": setting,
                # Multiples of 2^-10, so that every reader parses the same f32.
                "logits": [round(rng.gauss(0, 2.5) * 1024) / 1024 for _ in range(vocab)],
                "prompt": [rng.randrange(vocab) for _ in range(5)],
                "output": [rng.randrange(vocab) for _ in range(3)],
                "drafts": [rng.randrange(vocab) for _ in range(rng.choice([0, 2, 4]))],
            }
            cases.append({**case, "probabilities": distribution(case)})
    head = f'{{"transformers": "{transformers.__version__}", "cases": [\n'
    OUT.write_text(head + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n")
    print(f"{len(cases)} cases in {OUT.name}")


main()
