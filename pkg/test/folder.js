// Safetensors folders in the page: from addresses and from Files, what they answer against transformers, and quantised while loading.

import { clearCache, createEngine, listCached } from "/pkg/dist/index.js";
import { equal, failure, ok } from "./check.js";

const FOLDER = "/data/folder_shards/";
const SHARDS = [1, 2, 3].map((shard) => `model-0000${shard}-of-00003.safetensors`);
const NAMES = [
  "model.safetensors.index.json", "tokenizer.json", ...SHARDS, "config.json", "generation_config.json", "chat_template.jinja", "tokenizer_config.json",
];
const urls = NAMES.map((name) => FOLDER + name);

async function filesOf(names) {
  return Promise.all(names.map(async (name) => new File([await (await fetch(FOLDER + name)).blob()], name)));
}

/** Loads, tells what the engine answers and says of itself, and unloads. */
async function answers(options) {
  const golden = await (await fetch("/golden/folder.json")).json();
  const engine = await createEngine({ tier: "base", ...options });
  try {
    const request = { prompt: golden.prompt.text, max_tokens: 16, temperature: 0, return_token_ids: true };
    const answer = await engine.completions.create(request);
    equal(answer.prompt_token_ids, golden.prompt.prompt_ids, "the prompt's tokens");
    const chat = await engine.chat.completions.create({ messages: golden.chat.messages, max_tokens: 1, return_token_ids: true });
    equal(chat.prompt_token_ids, golden.chat.prompt_ids, "the conversation's tokens");
    const tokens = answer.choices[0].token_ids;
    return { tokens, due: golden.folders.folder_shards.output_ids.slice(0, tokens.length), answer, info: await engine.info() };
  } finally {
    await engine.unload();
  }
}

export const cases = {
  "a folder says what transformers says, from the addresses of its files, stored and not": async () => {
    await clearCache();
    for (const options of [{}, {}, { cache: "none", worker: false }]) {
      const { tokens, due, info } = await answers({ model: urls, ...options });
      ok(tokens.length > 3, `${tokens.length} tokens`);
      equal(tokens, due, "tokens");
      equal([info.model, info.integrity], ["model", "unverified"], "name and integrity");
      const stored = await listCached();
      equal(stored.map(({ name, complete }) => [name, complete]).sort(), NAMES.map((name) => [name, true]).sort(), "stored");
    }
    await clearCache();
  },

  "a folder's Files load, under a name, quantised where that is asked for": async () => {
    const files = await filesOf(NAMES);
    const plain = await answers({ model: files });
    equal(plain.tokens, plain.due, "tokens");
    const config = { url: `${FOLDER}config.json`, name: "shards" };
    const some = [...files.filter(({ name }) => name !== "config.json"), config];
    const quantized = await answers({ model: some, quantize: "q4_0", cache: "none" });
    equal(quantized.info.model, "shards", "name");
    equal(quantized.answer.system_fingerprint.endsWith("quantize=q4_0"), true, quantized.answer.system_fingerprint);
    ok(quantized.info.deviceBytes < plain.info.deviceBytes, `${quantized.info.deviceBytes} bytes, plain ${plain.info.deviceBytes}`);
  },

  "what is no folder, or cannot be quantised, is refused before its weights": async () => {
    const load = (options) => failure(createEngine({ worker: false, cache: "none", ...options }), "loading");
    const without = (name) => urls.filter((url) => !url.endsWith(name));
    for (const [options, code, words] of [
      [{ model: without("/tokenizer.json") }, "model_not_found", ["tokenizer.json"]],
      [{ model: without(SHARDS[1]) }, "corrupt_weights", [SHARDS[1], "not in the folder"]],
      [{ model: without("index.json") }, "model_not_found", ["3 .safetensors files"]],
      [{ model: [`${FOLDER}config.json`] }, "model_not_found", ["model.safetensors"]],
      [{ model: urls, quantize: "q2_k" }, "invalid_request", ["quantize", "q4_0"]],
      [{ model: "/data/tiny_q4_0.gguf", quantize: "q8_0" }, "invalid_request", ["quantize", "Q4_0"]],
    ]) {
      const error = await load(options);
      equal(error.code, code, error.message);
      for (const word of words) ok(error.message.includes(word), `"${word}" is not in: ${error.message}`);
    }
  },
};
