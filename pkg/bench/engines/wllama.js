// wllama, llama.cpp compiled to wasm: on the CPU with a number of threads, or on WebGPU, where without a word it takes the CPU instead if the
// adapter has no shader-f16. Only what it logs while loading tells.

import { Wllama } from "/peers/npm/node_modules/@wllama/wllama/esm/index.js";

const PACKAGE = "/peers/npm/node_modules/@wllama/wllama";

export async function load({ model, threads, gpu }) {
  const lines = [];
  const keep = (...words) => lines.push(words.join(" "));
  const wllama = new Wllama({ default: `${PACKAGE}/esm/wasm/wllama.wasm` }, { logger: { debug: keep, log: keep, warn: keep, error: keep } });
  // A build for other browsers, which it would fetch from elsewhere.
  wllama.setCompat(null);
  const file = await (await fetch(model)).blob();
  await wllama.loadModel([file], { n_ctx: 1024, n_parallel: 1, n_threads: threads, n_gpu_layers: gpu ? 99_999 : 0 });
  const { version } = await (await fetch(`${PACKAGE}/package.json`)).json();
  const complete = (request) =>
    wllama.createCompletion({ temperature: 0, top_k: 1, ignore_eos: true, cache_prompt: false, stream: true, ...request });
  return {
    about: { version: `wllama ${version} (llama.cpp ${Wllama.getLibllamaVersion()})`, ...backend(lines, wllama, gpu) },
    async generate({ ids, text }, tokens, onTokens) {
      let seen = 0;
      for await (const { choices, usage } of await complete({ prompt: text, max_tokens: tokens })) {
        // The last chunk counts, and has no token of its own.
        const more = (usage?.completion_tokens ?? seen + choices.length) - seen;
        seen += more;
        onTokens(more);
        if (usage !== undefined) check(usage, ids);
      }
      // Ids come with log-probabilities only, which take time of their own: from a second, untimed run.
      const found = [];
      for await (const { choices } of await complete({ prompt: text, max_tokens: tokens, logprobs: 1 })) {
        for (const choice of choices) found.push(...(choice.logprobs?.content ?? []).map(({ id }) => id));
      }
      return found;
    },
  };
}

/** What it runs on, and whether that is what was asked for. */
function backend(lines, wllama, gpu) {
  const threads = wllama.getNumThreads();
  const onGpu = lines.some((line) => /WebGPU.*buffer size/i.test(line));
  const found = onGpu ? "webgpu" : `cpu, ${threads} thread${threads === 1 ? "" : "s"}`;
  return { backend: found, ...(gpu && !onGpu ? { fell_back: "asked for WebGPU, it took the CPU (it needs shader-f16)" } : {}) };
}

/** It takes text: the tokens it makes of it have to be as many as the others get, and none of them from its cache. */
function check({ prompt_tokens, prompt_tokens_details }, ids) {
  const cached = prompt_tokens_details?.cached_tokens ?? 0;
  if (prompt_tokens !== ids.length || cached > 0) {
    throw new Error(`wllama made ${prompt_tokens} tokens of a prompt of ${ids.length}, ${cached} of them cached`);
  }
}
