// This package, as a page uses it: in its worker. Nothing is kept from one page to the next.

import { createEngine } from "/pkg/dist/index.js";

export async function load({ model }) {
  const engine = await createEngine({ model, cache: "none", contextLength: 1024 });
  const { version } = await (await fetch("/pkg/package.json")).json();
  return {
    about: { version: `foretoken ${version}`, backend: "webgpu" },
    async generate({ ids }, tokens, onTokens) {
      const request = { prompt: ids, max_tokens: tokens, temperature: 0, ignore_eos: true, return_token_ids: true, stream: true };
      const found = [];
      for await (const { choices } of await engine.completions.create(request)) {
        const more = choices[0]?.token_ids ?? [];
        found.push(...more);
        onTokens(more.length);
      }
      return found;
    },
  };
}
