#!/usr/bin/env python3
"""Writes crates/weights/tests/data/quantize/<format>.bin: values and the blocks that the `gguf` package encodes them to.

Run with a Python that has `gguf` and `numpy`:  python tests/scripts/gen_quantize_reference.py
A file is: u32 number of values, those values as f32, then the bytes of their blocks; little-endian.
"""
import pathlib
import struct

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "crates/weights/tests/data/quantize"
BLOCKS = 96


def values():
    rng = np.random.default_rng(7)
    # Sizes from those whose scale is a subnormal half, or none, to one beyond every half.
    sizes = np.logspace(-9, 5, BLOCKS).reshape(-1, 1)
    blocks = (rng.standard_normal((BLOCKS, 32)) * sizes).astype(np.float32)
    blocks[0] = 0.0
    blocks[1] = -0.0
    # Largest values of both signs: the first decides the sign of q4_0's scale.
    blocks[2, [3, 7]] = [-5.0, 5.0]
    blocks[3, [3, 7]] = [5.0, -5.0]
    # Scale 1: values half way between quants.
    blocks[4] = np.arange(32) - 15.5
    blocks[4, 0] = 127.0
    blocks[5] = (np.arange(32) - 16) / 2
    blocks[5, 0] = -8.0
    blocks[6] = 0.0
    blocks[6, 31] = 1e-3
    return blocks


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    blocks = values()
    for name in ["q4_0", "q8_0"]:
        kind = gguf.GGMLQuantizationType[name.upper()]
        with np.errstate(over="ignore"):
            encoded = gguf.quantize(blocks, kind)
        data = struct.pack("<I", blocks.size) + blocks.astype("<f4").tobytes() + encoded.tobytes()
        (DATA / f"{name}.bin").write_bytes(data)
        print(f"{name}: {blocks.size} weights, {encoded.size} bytes")


main()
