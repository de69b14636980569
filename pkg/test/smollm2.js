// The tests of the package with SmolLM2, in the page: the same tokens as transformers, whatever drafts, and what a token costs. One engine
// serves all of them; whichever case comes first loads it. A case may return a note: what was measured.

import { createEngine } from "/pkg/dist/index.js";
import { all, equal, failure, ok } from "./check.js";

const MODEL = "/models/smollm2-135m.gguf";
const NGRAM = { method: "ngram", num_speculative_tokens: 4, prompt_lookup_min: 1, prompt_lookup_max: 3 };
/** One of a question, a list, code, an edit, a summary and an extraction: the drafter has much to copy in some, little in others. */
const GOLDEN = ["chat_qa_capital", "chat_list_fruits", "chat_code_python", "chat_rewrite_edit", "raw_summarise", "raw_json_extract"];
const TOKENS = 24;
/** A wait of 100 ms a token makes ten tokens a second. */
const RATE_OF_A_WAIT_A_TOKEN = 10;

let loaded;

/** The engine, and the seconds that loading took. */
function smolLm2() {
  loaded ??= (async () => {
    const start = performance.now();
    const engine = await createEngine({
      model: MODEL, speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "detailed", enablePerRequestMetrics: true,
    });
    return { engine, seconds: (performance.now() - start) / 1000 };
  })();
  return loaded;
}

const tokensOf = (answer) => answer.choices[0].token_ids;

async function pick(id) {
  const { cases } = await (await fetch("/golden/smollm2-135m.json")).json();
  return cases.find((found) => found.id === id);
}

const completion = (prompt, more) => ({ prompt, max_tokens: TOKENS, temperature: 0, return_token_ids: true, ...more });

/** Tokens a second after the first, and waits for the device a token. */
function rateOf({ usage, metrics }) {
  const rate = ((usage.completion_tokens - 1) * 1000) / metrics.generation_time_ms;
  return { rate, waits: metrics.foretoken.readbacks / usage.completion_tokens };
}

const shown = ({ rate, waits }) => `${rate.toFixed(1)} tokens/s, ${waits.toFixed(2)} waits a token`;

const goldens = Object.fromEntries(GOLDEN.map((id) => [`SmolLM2 says what transformers says, drafting or not: ${id}`, async () => {
  const { engine } = await smolLm2();
  const { prompt_ids, output_ids } = await pick(id);
  for (const more of [{}, { speculative_config: null }]) {
    const answer = await engine.completions.create(completion(prompt_ids, more));
    equal(tokensOf(answer), output_ids.slice(0, TOKENS), "speculative_config" in more ? "plain" : "drafting");
  }
}]));

export const cases = {
  "SmolLM2 loads": async () => {
    const { engine, seconds } = await smolLm2();
    const { adapter, rowInvariance, speculation } = await engine.info();
    ok(["holds", "holds_padded"].includes(rowInvariance), `row invariance ${rowInvariance}`);
    equal(speculation, { active: true, method: "ngram", reason: null }, "speculation");
    return `${seconds.toFixed(1)} s; ${adapter.name}, tier ${adapter.tier}, rows: ${rowInvariance}`;
  },

  ...goldens,

  "SmolLM2 samples the same tokens with a seed, drafting or not": async () => {
    const { engine } = await smolLm2();
    const { prompt_ids } = await pick("raw_json_extract");
    const request = completion(prompt_ids, { max_tokens: 48, temperature: 0.8, top_p: 0.95, seed: 11 });
    const on = await engine.completions.create(request);
    const off = await engine.completions.create({ ...request, speculative_config: null });
    equal(tokensOf(on), tokensOf(off), "tokens");
    ok(on.metrics.speculative_decoding.num_draft_tokens > 0, "nothing was drafted");
  },

  "SmolLM2's chunks are its whole answer": async () => {
    const { engine } = await smolLm2();
    const { user, output_ids } = await pick("chat_list_fruits");
    const request = { messages: [{ role: "user", content: user }], temperature: 0, max_tokens: TOKENS, return_token_ids: true };
    const whole = await engine.chat.completions.create(request);
    equal(tokensOf(whole), output_ids.slice(0, TOKENS), "tokens");
    const chunks = await all(await engine.chat.completions.create({ ...request, stream: true }));
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
    equal(text, whole.choices[0].message.content, "text");
  },

  "SmolLM2 answers afresh after an abort": async () => {
    const { engine } = await smolLm2();
    const { prompt_ids, output_ids } = await pick("chat_qa_capital");
    const controller = new AbortController();
    const stream = await engine.completions.create(
      completion(prompt_ids, { stream: true, max_tokens: 64, ignore_eos: true }), { signal: controller.signal },
    );
    let chunks = 0;
    const error = await failure((async () => {
      for await (const _ of stream) if (++chunks === 3) controller.abort();
    })(), "aborted in its midst");
    equal(error.name, "AbortError", "abort");
    const answer = await engine.completions.create(completion(prompt_ids));
    equal(tokensOf(answer), output_ids.slice(0, TOKENS), "tokens");
  },

  "SmolLM2 is faster than a wait of 100 ms a token": async () => {
    const { engine } = await smolLm2();
    const { prompt_ids } = await pick("raw_story");
    const rates = [];
    for (let run = 0; run < 3; run++) {
      const answer = await engine.completions.create(completion(prompt_ids, { max_tokens: 64, ignore_eos: true, speculative_config: null }));
      rates.push(rateOf(answer));
    }
    const best = rates.reduce((a, b) => (b.rate > a.rate ? b : a));
    ok(best.rate > RATE_OF_A_WAIT_A_TOKEN, `plain: ${shown(best)}, the best of ${rates.length}`);
    return `plain: ${rates.map(shown).join("; ")}`;
  },

  "SmolLM2 edits with drafts as without": async () => {
    const { engine } = await smolLm2();
    const prompts = await (await fetch("/bench/prompts.json")).json();
    const { messages } = prompts.find(({ id }) => id === "edit-3");
    const request = { messages, temperature: 0, max_tokens: 96, return_token_ids: true };
    const on = await engine.chat.completions.create(request);
    const off = await engine.chat.completions.create({ ...request, speculative_config: null });
    equal(tokensOf(on), tokensOf(off), "tokens");
    const { mean_acceptance_length } = on.metrics.speculative_decoding;
    const [drafting, plain] = [on, off].map((answer) => shown(rateOf(answer)));
    const first = Math.round(on.metrics.time_to_first_token_ms);
    return `drafting: ${drafting}, ${mean_acceptance_length.toFixed(2)} tokens a verify step; plain: ${plain}; first token after ${first} ms`;
  },
};
