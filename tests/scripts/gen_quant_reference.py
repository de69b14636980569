#!/usr/bin/env python3
"""Writes crates/weights/tests/data/quant/<format>.bin: blocks and what the `gguf` package decodes them to.

Run with a Python that has `gguf` and `numpy`:  python tests/scripts/gen_quant_reference.py
A file is: u32 number of bytes, those bytes (blocks as in a model file), then one f32 per weight; little-endian.
Formats are read from the names of the files in crates/weights/src/quant, so a new one needs only a new run.
"""
import pathlib
import struct
import zlib

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUANT = ROOT / "crates/weights/src/quant"
DATA = ROOT / "crates/weights/tests/data/quant"
# Halves that are easily decoded wrongly: zeros, the subnormal and normal extremes, one, infinities, a NaN.
EDGE_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00]
# Of a format by its block: a whole number of them, and more than there are edges.
WEIGHTS = {1: 1280, 32: 1280, 256: 8192}
# Where the halves of a block stand, if not one at its beginning.
HALVES = {
    "q4_1": [0, 2], "q5_1": [0, 2], "q4_k": [0, 2], "q5_k": [0, 2],
    "q2_k": [80, 82], "q3_k": [108], "q6_k": [208],
}


def blocks(name, rng):
    kind = gguf.GGMLQuantizationType[name.upper()]
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    count = WEIGHTS[block_len] // block_len
    raw = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    if block_len == 1:
        edges = {2: EDGE_HALVES, 4: [half << 16 for half in EDGE_HALVES] + [1, 0x007FFFFF, 0x7F7FFFFF, 0x80000001]}
        for row, bits in enumerate(edges[block_bytes]):
            raw[row] = np.frombuffer(bits.to_bytes(block_bytes, "little"), dtype=np.uint8)
    else:
        # Bytes at the ends of their ranges, scales of usual size, and the edge halves in every place of a scale.
        halves = HALVES.get(name, [0])
        for row in range(len(EDGE_HALVES)):
            raw[row, 4:12] = rng.permutation([0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F, 0x08, 0x88]).astype(np.uint8)
        for at in halves:
            usual = rng.normal(0, 0.1, (count, 1)).astype(np.float16)
            raw[:, at:at + 2] = usual.view(np.uint8)
        for row, bits in enumerate(EDGE_HALVES):
            at = halves[row % len(halves)]
            raw[row, at:at + 2] = np.frombuffer(struct.pack("<H", bits), dtype=np.uint8)
        # Random bytes everywhere else, so that no layout is favoured.
        raw[count - 4:] = rng.integers(0, 256, (4, block_bytes), dtype=np.uint8)
        if block_bytes == 34:
            raw[count - 1, 2:8] = [0x80, 0x7F, 0xFF, 0x00, 0x01, 0x81]
    return kind, raw


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    names = sorted(path.stem for path in QUANT.glob("*.rs") if path.stem not in ("mod", "registry"))
    for name in names:
        kind, raw = blocks(name, np.random.default_rng(zlib.crc32(name.encode())))
        with np.errstate(all="ignore"):
            values = np.concatenate([gguf.dequantize(row, kind).reshape(-1) for row in raw]).astype("<f4")
        data = raw.tobytes()
        (DATA / f"{name}.bin").write_bytes(struct.pack("<I", len(data)) + data + values.tobytes())
        print(f"{name}: {len(data)} bytes, {values.size} weights")


main()
