#!/usr/bin/env python3
"""Writes crates/decode/tests/golden/suffix.json: what Arctic Inference, which vLLM uses for its `suffix` method, drafts.

Run from the repository's root with a Python that has `arctic-inference` 0.3.0, built with its suffix decoding:
    python tests/scripts/gen_suffix_reference.py
Its trees are used as its cache uses them (one of prompt and answer, one of earlier answers, of equal scores the former),
but an answer is entered when it has ended, and the oldest is removed where there are too many. Left out are places where
a candidate has two equally frequent continuations: which one is taken depends on the trees' history there.
"""
import json
import pathlib
import random

from arctic_inference.suffix_decoding._C import SuffixTree

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/decode/tests/golden/suffix.json"


def text(rng, length, phrases):
    """Phrases, some of them far more often than others, with a stray token here and there."""
    out = []
    while len(out) < length:
        out += phrases[min(int(rng.expovariate(0.7)), len(phrases) - 1)]
        if rng.random() < 0.2:
            out.append(rng.randrange(40))
    return out[:length]


def followers(texts, run):
    counts = {}
    for t in texts:
        for i in range(len(t) - len(run)):
            if t[i:i + len(run)] == run:
                counts[t[i + len(run)]] = counts.get(t[i + len(run)], 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])


def ambiguous(texts, context, depth):
    """Whether any candidate, as long as its depth allows, has to choose between equals."""
    context = context[-depth:]
    for matched in range(1, len(context)):
        run = context[-matched:]
        while len(run) < depth:
            found = followers(texts, run)
            if not found:
                break
            if len(found) > 1 and found[0][1] == found[1][1]:
                return True
            run = run + [found[0][0]]
    return False


def main():
    rng = random.Random(7)
    scenarios, drafted, from_earlier = [], 0, 0
    for i in range(40):
        depth = rng.choice([6, 12, 24])
        factor = rng.choice([0.5, 1.0, 1.0, 1.5, 4.0])
        least = rng.choice([0.0, 0.1, 0.1, 0.3])
        kept = rng.choice([0, 2, 5])
        phrases = [[rng.randrange(40) for _ in range(rng.randint(2, 12))] for _ in range(6)]
        answers = [text(rng, rng.randint(10, 60), phrases) for _ in range(rng.randint(1, 7))]
        earlier, live = SuffixTree(depth), []
        for number, answer in enumerate(answers if kept else []):
            while len(live) >= kept:
                earlier.remove(live.pop(0))
            earlier.extend(number, answer)
            live.append(number)
        tokens = text(rng, 80, phrases)
        own, drafts = SuffixTree(depth), []
        for length in range(1, len(tokens) + 1):
            own.extend(0, tokens[length - 1:length])
            known = tokens[:length]
            if ambiguous([known], known, depth) or ambiguous([answers[n] for n in live], known, depth):
                continue
            k = rng.choice([1, 4, 15])
            context = known[-depth:]
            settings = (context, k, factor, 0.0, least, False)
            mine, theirs = own.speculate(*settings), earlier.speculate(*settings)
            draft = mine if mine.score >= theirs.score else theirs
            drafts.append([length, k, draft.token_ids])
            drafted += bool(draft.token_ids)
            from_earlier += draft is theirs
        scenarios.append({
            "max_tree_depth": depth, "max_cached_requests": kept, "max_spec_factor": factor, "min_token_prob": least,
            "answers": answers, "tokens": tokens, "drafts": drafts,
        })
    print(f"{sum(len(s['drafts']) for s in scenarios)} places, {drafted} with drafts, {from_earlier} from earlier answers")
    OUT.write_text("[\n" + ",\n".join(json.dumps(s, separators=(",", ":")) for s in scenarios) + "\n]\n")


main()
