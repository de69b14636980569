"""Writes crates/models/src/rope/reference.rs: RoPE frequencies as transformers scales them.

Run from the repository's root: python tests/scripts/gen_rope_reference.py
Needs torch and transformers.
"""

from pathlib import Path

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = {
    "LLAMA3": (64, dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )),
    "YARN": (128, dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768)),
}


def main():
    lines = ["//! Frequencies and attention factors as transformers computes them, in f32: `tests/scripts/gen_rope_reference.py`.", ""]
    for name, (head_dim, parameters) in CASES.items():
        config = LlamaConfig(
            hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim, max_position_embeddings=131072,
            rope_parameters=parameters,
        )
        frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=131072)
        settings = ", ".join(f"{key} {value}" for key, value in parameters.items())
        lines.append(f"/// {settings}.")
        lines.append(f"pub(super) const {name}: ([f64; {len(frequencies)}], f64) = (")
        lines.append("    [")
        lines += [f"        {value!r}," for value in frequencies.tolist()]
        lines += ["    ],", f"    {float(factor)!r},", ");", ""]
    path = Path("crates/models/src/rope/reference.rs")
    path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
