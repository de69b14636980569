// Larger models that people publish, in the page: loaded within the memory that wasm has, and the same first tokens as transformers. Chromium's
// software driver computes about a token a second of them, so these run with --all only, which downloads the models.

import { createEngine } from "/pkg/dist/index.js";
import { equal, ok } from "./check.js";

const TOKENS = 8;
/** Where the reference's best two logits are this close, another order of sums may choose the other. */
const CLOSE = 0.02;
const MEMORY = 96 * 2 ** 20;
const MIB = 2 ** 20;
const CONTEXT = 256;

async function answersAsTransformers(name) {
  const { cases } = await (await fetch(`/golden/${name}.json`)).json();
  const { prompt_ids, output_ids, gaps } = cases[0];
  const close = gaps.findIndex((gap) => gap < CLOSE);
  const wanted = output_ids.slice(0, close < 0 ? TOKENS : Math.min(close, TOKENS));
  const phases = new Map();
  const start = performance.now();
  const engine = await createEngine({
    // Bytes stream to the device: as from a store, without half a gigabyte in one.
    model: `/models/${name}.gguf`, cache: "none", contextLength: CONTEXT, enablePerRequestMetrics: true,
    onProgress({ phase, loaded, total }) {
      ok(loaded >= (phases.get(phase)?.[0] ?? 0) && loaded <= total, `${phase} at ${loaded} of ${total}`);
      phases.set(phase, [loaded, total]);
    },
  });
  try {
    const seconds = (performance.now() - start) / 1000;
    for (const [phase, [loaded, total]] of phases) equal(loaded, total, `the end of ${phase}`);
    const { contextLength, deviceBytes, wasmBytes } = await engine.info();
    equal(contextLength, CONTEXT, "context");
    ok(wasmBytes <= MEMORY, `${wasmBytes} bytes of wasm memory`);
    const { choices, metrics } = await engine.completions.create({
      prompt: prompt_ids, max_tokens: wanted.length, temperature: 0, return_token_ids: true,
    });
    equal(choices[0].token_ids, wanted, "tokens");
    const mib = (bytes) => `${(bytes / MIB).toFixed(1)} MiB`;
    const rate = ((wanted.length - 1) * 1000) / metrics.generation_time_ms;
    return `loaded in ${seconds.toFixed(1)} s (${[...phases.keys()].join(", ")}); wasm ${mib(wasmBytes)}, device ${mib(deviceBytes)}; `
      + `first token after ${(metrics.time_to_first_token_ms / 1000).toFixed(1)} s, then ${rate.toFixed(2)} tokens/s`;
  } finally {
    await engine.unload();
  }
}

export const cases = Object.fromEntries(["qwen2.5-coder-0.5b", "gemma3-270m"].map((name) => [
  `${name} loads in 96 MiB of wasm memory and says what transformers says`, () => answersAsTransformers(name),
]));
