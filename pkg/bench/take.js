// In the page: loads one engine and times it. An engine is a module of engines/ with `load(options)`, which gives { about, generate }: `about`
// says what runs; `generate(prompt, tokens, onTokens)` chooses greedily, does not stop at an end of text, calls `onTokens` with how many tokens
// came, when they come, and gives the ids of all. A prompt is { ids, text }: the same, for those who take only one of them.

/** What the page has, in words and flags. */
export async function environment() {
  const adapter = await navigator.gpu?.requestAdapter();
  const { vendor, architecture, device, description } = adapter?.info ?? {};
  return {
    adapter: adapter == null ? "none" : [vendor, architecture, device, description].filter((part) => part).join(" "),
    shader_f16: adapter?.features.has("shader-f16") ?? false,
    subgroups: adapter?.features.has("subgroups") ?? false,
    cores: navigator.hardwareConcurrency,
    isolated: crossOriginIsolated,
  };
}

/** Loads, warms up, and runs every prompt once; reports as it goes. */
export async function take({ module, options, warmUp, prompts, tokens }) {
  const report = (event) => window.report(event);
  await report({ doing: "loading" });
  const { load } = await import(`./engines/${module}`);
  const start = performance.now();
  const engine = await load(options);
  await report({ loaded: { load_ms: performance.now() - start, ...engine.about } });
  await report({ doing: "warming up" });
  await timed(engine, warmUp, 2);
  for (const prompt of prompts) {
    await report({ doing: `answering ${prompt.id}` });
    const { id, ids } = prompt;
    await report({ run: { id, prompt_tokens: ids.length, ...(await timed(engine, prompt, tokens)) } });
  }
}

/** The time to the first tokens, and from them to the last. */
async function timed(engine, prompt, tokens) {
  const start = performance.now();
  let [first, firstTokens, last, count] = [start, 0, start, 0];
  const found = await engine.generate(prompt, tokens, (more) => {
    if (more === 0) return;
    last = performance.now();
    if (count === 0) [first, firstTokens] = [last, more];
    count += more;
  });
  if (count !== tokens || found.length !== tokens) {
    throw new Error(`${count} tokens came, with ${found.length} ids, where ${tokens} were asked for`);
  }
  return { first_ms: first - start, first_tokens: firstTokens, decode_ms: last - first, tokens: found };
}
