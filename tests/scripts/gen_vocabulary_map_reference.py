"""Reference for maps between the vocabularies of model files: which tokens of text have the same bytes.

    python tests/scripts/gen_vocabulary_map_reference.py FOLDER > tests/golden/vocabulary_maps.json

FOLDER has the model files of `cargo xtask model`; `tiny` is of tests/data. Files are read by the package `gguf`; the letters of byte-level vocabularies are
those of transformers' `bytes_to_unicode`.
"""

import json
import sys
from pathlib import Path

from gguf import GGUFReader
from transformers.convert_slow_tokenizer import bytes_to_unicode

DATA = Path(__file__).resolve().parents[1] / "data"
MODELS = ["tiny", "smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b"]
NORMAL, USER_DEFINED, BYTE = 1, 4, 6
# Control tokens whatever type the file gives them.
CONTROL = {"<start_of_image>", "<end_of_image>"}
BYTE_OF = {letter: byte for byte, letter in bytes_to_unicode().items()}


def spelling(token, kind, pieces):
    if pieces:
        return bytes([int(token[3:5], 16)]) if kind == BYTE else token.replace("\u2581", " ").encode()
    return token.encode() if kind == USER_DEFINED else bytes(BYTE_OF[letter] for letter in token)


def tokens_of(path):
    """Bytes to id; of several ids the one that an encoder makes."""
    fields = GGUFReader(path).fields
    pieces = fields["tokenizer.ggml.model"].contents() == "llama"
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    ids = {}
    for wanted in (USER_DEFINED, NORMAL, BYTE):
        for id, (token, kind) in enumerate(zip(tokens, kinds)):
            if kind == wanted and token not in CONTROL:
                ids.setdefault(spelling(token, kind, pieces), id)
    return ids


def digest(pairs):
    """FNV-1a over the ids, four bytes each, the lowest first."""
    value = 0xCBF29CE484222325
    for pair in pairs:
        for id in pair:
            for byte in id.to_bytes(4, "little"):
                value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main():
    folders = {name: DATA if name == "tiny" else Path(sys.argv[1]) for name in MODELS}
    vocabularies = {name: tokens_of(folder / f"{name}.gguf") for name, folder in folders.items()}
    cases = []
    for draft, draft_ids in vocabularies.items():
        for target, target_ids in vocabularies.items():
            if draft == target:
                continue
            pairs = sorted((id, target_ids[token]) for token, id in draft_ids.items() if token in target_ids)
            cases.append(
                {
                    "draft": draft,
                    "target": target,
                    "pairs": len(pairs),
                    "draft_tokens": len(draft_ids),
                    "target_tokens": len(target_ids),
                    "digest": digest(pairs),
                }
            )
    print('{"cases": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]}")


main()
