// The tests of the package, in the page. Each is a function that throws; run.mjs calls them one by one.

import { clearCache, createEngine, EngineError, listCached } from "/pkg/dist/index.js";
import { OpenAI, openAiClient, withAiSdk } from "/clients.js";
import { all, equal, failure, NGRAM, ok, TINY } from "./check.js";

const QUESTION = [{ role: "user", content: "What is 7?" }];

/** Runs with an engine on TINY, and unloads it. On the plain tier, whose kernels compile fastest on Chromium's software driver. */
async function withTiny(options, test) {
  const engine = await createEngine({ model: TINY, tier: "base", ...options });
  try {
    await test(engine);
  } finally {
    await engine.unload();
  }
}

const chat = (more) => ({ messages: QUESTION, max_tokens: 12, temperature: 0, ...more });

async function streamingEqualsWhole(engine) {
  const whole = await engine.chat.completions.create(chat());
  const chunks = await all(await engine.chat.completions.create(chat({ stream: true, stream_options: { include_usage: true } })));
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  equal(text, whole.choices[0].message.content, "text");
  const last = chunks.at(-1);
  equal(last.choices, [], "the last chunk's choices");
  equal(last.usage.completion_tokens, whole.usage.completion_tokens, "usage");
  const { finish_reason } = chunks.at(-2).choices[0];
  equal(finish_reason, whole.choices[0].finish_reason, "finish reason");
}

async function golden(engine, { id, prompt_ids, output_ids }) {
  const wanted = output_ids.slice(0, 24);
  const answer = await engine.completions.create({
    prompt: prompt_ids, max_tokens: wanted.length, temperature: 0, return_token_ids: true,
  });
  equal(answer.choices[0].token_ids, wanted, id);
}

export const cases = {
  "in a worker, streaming says what the whole says": () => withTiny({}, streamingEqualsWhole),

  "in this thread, streaming says what the whole says": () => withTiny({ worker: false }, streamingEqualsWhole),

  "speculation changes no token, greedy or sampled, and reports itself": async () => {
    await withTiny({ speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "summary" }, async (engine) => {
      equal((await engine.info()).speculation, { active: true, method: "ngram", reason: null }, "speculation");
      for (const temperature of [0, 0.9]) {
        const request = { prompt: "the cat the cat the", max_tokens: 30, temperature, seed: 7, return_token_ids: true };
        const on = await engine.completions.create(request);
        const off = await engine.completions.create({ ...request, speculative_config: null });
        equal(on.choices[0].token_ids, off.choices[0].token_ids, `tokens at ${temperature}`);
        const metrics = on.metrics.speculative_decoding;
        const steps = metrics.acceptance_histogram.reduce((sum, count) => sum + count, 0);
        equal(steps, metrics.num_spec_steps, "the histogram's sum");
        equal(off.metrics.speculative_decoding, null, "metrics without speculation");
      }
    });
  },

  "suffix decoding drafts an answer that was given before, and changes no token": () => {
    const speculativeConfig = { method: "suffix", num_speculative_tokens: 7, adaptive: false };
    return withTiny({ speculativeConfig, perRequestSpecDecodeMetrics: "summary" }, async (engine) => {
      const request = { prompt: "the cat", max_tokens: 24, temperature: 0, ignore_eos: true, return_token_ids: true };
      const off = await engine.completions.create({ ...request, speculative_config: null });
      const first = await engine.completions.create(request);
      const second = await engine.completions.create(request);
      for (const answer of [first, second]) equal(answer.choices[0].token_ids, off.choices[0].token_ids, "tokens");
      const accepted = ({ metrics }) => metrics.speculative_decoding.num_accepted_draft_tokens;
      ok(accepted(second) > accepted(first) && accepted(second) > 12, `${accepted(second)} accepted, ${accepted(first)} before`);
    });
  },

  "an abort rejects with its reason, and the next answer is a fresh engine's": () => withTiny({}, async (engine) => {
    const before = await engine.chat.completions.create(chat());
    const aborted = AbortSignal.abort(new Error("mine"));
    const early = await failure(engine.chat.completions.create(chat(), { signal: aborted }), "aborted before");
    equal(early.message, "mine", "reason");

    const controller = new AbortController();
    const stream = await engine.chat.completions.create(chat({ stream: true, max_tokens: 40, ignore_eos: true }), { signal: controller.signal });
    let chunks = 0;
    const late = await failure((async () => {
      for await (const _ of stream) if (++chunks === 3) controller.abort();
    })(), "aborted in its midst");
    equal([late.name, chunks], ["AbortError", 3], "abort");

    const waiting = new AbortController();
    const first = engine.chat.completions.create(chat());
    const second = engine.chat.completions.create(chat(), { signal: waiting.signal });
    waiting.abort();
    equal((await failure(second, "aborted while waiting")).name, "AbortError", "waiting");
    equal((await first).choices[0].message, before.choices[0].message, "the answer beside it");
    equal((await engine.chat.completions.create(chat())).choices[0].message, before.choices[0].message, "the answer after");
    equal((await engine.metrics()).num_requests_running, 0, "nothing runs");
  }),

  "breaking out of a stream cancels it": () => withTiny({}, async (engine) => {
    for await (const _ of await engine.chat.completions.create(chat({ stream: true, max_tokens: 40 }))) break;
    await engine.chat.completions.create(chat());
    const { requests } = await engine.metrics();
    equal([requests.abort, requests.error], [1, 0], "requests");
  }),

  "calls queue in order": () => withTiny({}, async (engine) => {
    const done = [];
    const calls = [5, 1, 3].map((tokens, i) =>
      engine.completions.create({ prompt: "the", max_tokens: tokens }).then(() => done.push(i)));
    await Promise.all(calls);
    equal(done, [0, 1, 2], "order");
    // The body of a fetch takes a while to be read, and keeps its place.
    const body = JSON.stringify({ prompt: "the", max_tokens: 9 });
    const fetched = engine.fetch("http://foretoken.local/v1/completions", { method: "POST", body }).then(() => done.push(3));
    await Promise.all([fetched, engine.completions.create({ prompt: "the", max_tokens: 1 }).then(() => done.push(4))]);
    equal(done, [0, 1, 2, 3, 4], "order with fetch");
  }),

  "errors have codes and name the field": () => withTiny({}, async (engine) => {
    const refused = await failure(engine.chat.completions.create(chat({ temperature: 9 })), "temperature 9");
    ok(refused instanceof EngineError, "an EngineError");
    equal([refused.code, refused.param], ["invalid_request", "temperature"], "code and param");
    const other = await failure(engine.chat.completions.create(chat({ model: "gpt" })), "another model");
    equal([other.code, other.param], ["model_not_found", "model"], "code and param");
    const option = await failure(createEngine({ model: TINY, contextLenght: 5 }), "a misspelt option");
    equal([option.code, option.param], ["invalid_request", "contextLenght"], "code and param");
    const bad = await failure(createEngine({ model: "/data/absent.gguf", contextLength: 0 }), "no context");
    equal([bad.code, bad.param], ["invalid_request", "contextLength"], "before the file is asked for");
    const config = await failure(createEngine({ model: TINY, speculativeConfig: { method: "magic" } }), "no such method");
    equal(config.param, "speculative_config.method", "param");
  }),

  "what JSON has no form for is refused, by its field": () => withTiny({ worker: false }, async (engine) => {
    const cycle = {};
    cycle.more = cycle;
    for (const [param, value] of [["temperature", NaN], ["top_p", Infinity], ["seed", 7n], ["logit_bias", { 5: NaN }], ["metadata", cycle]]) {
      const refused = await failure(engine.chat.completions.create(chat({ [param]: value })), param);
      ok(refused instanceof EngineError, `${param}: an EngineError`);
      equal([refused.code, refused.param], ["invalid_request", param], "code and param");
    }
    for (const worker of [true, false]) {
      const option = await failure(createEngine({ model: TINY, tier: "base", worker, contextLength: NaN }), "no number");
      equal([option.code, option.param], ["invalid_request", "contextLength"], "code and param");
    }
  }),

  "fetch answers as a server does": () => withTiny({}, async ({ fetch }) => {
    const url = "http://foretoken.local/v1";
    const post = (path, body, more) =>
      fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), ...more });
    const whole = await post("/chat/completions", chat());
    equal([whole.status, whole.headers.get("content-type")], [200, "application/json"], "reply");
    const { choices } = await whole.json();

    const streamed = await post("/chat/completions", chat({ stream: true }));
    equal(streamed.headers.get("content-type"), "text/event-stream", "content type");
    const events = (await streamed.text()).split("\n\n");
    equal(events.splice(-2), ["data: [DONE]", ""], "the end");
    const parts = events.map((event) => JSON.parse(event.slice("data: ".length)).choices[0].delta.content);
    equal(parts.join(""), choices[0].message.content, "text");

    const models = await (await fetch(`${url}/models`)).json();
    equal(models.data.map((model) => model.id), ["tiny"], "models");
    equal((await fetch(`${url}/models/other`)).status, 404, "another model");
    const bad = await post("/chat/completions", { messages: [] });
    equal([bad.status, (await bad.json()).error.param], [400, "messages"], "a bad request");
    equal((await post("/embeddings", {})).status, 404, "no such path");
    equal((await fetch(`${url}/chat/completions`)).headers.get("allow"), "POST", "allow");
    ok((await (await fetch("http://foretoken.local/metrics")).text()).includes("vllm:generation_tokens_total"), "metrics");

    const controller = new AbortController();
    const cut = await post("/chat/completions", chat({ stream: true, ignore_eos: true, max_tokens: 40 }), { signal: controller.signal });
    const reader = cut.body.getReader();
    await reader.read();
    controller.abort();
    equal((await failure(reader.read(), "an aborted body")).name, "AbortError", "abort");
    equal((await post("/chat/completions", chat())).status, 200, "after an abort");
  }),

  "OpenAI's client runs on fetch unchanged": () =>
    withTiny({ speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "summary" }, async (engine) => {
      const client = openAiClient(engine.fetch);
      const request = chat({ model: "tiny" });
      const whole = await client.chat.completions.create(request);
      const ours = await engine.chat.completions.create(request);
      equal(whole.choices, ours.choices, "choices");
      ok(whole.metrics.speculative_decoding.num_spec_tokens === 4, "metrics reach the caller");

      const chunks = await all(await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }));
      equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), whole.choices[0].message.content, "text");
      equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens, "usage");
      ok(chunks.at(-1).metrics.speculative_decoding !== undefined, "metrics of a stream");

      const streaming = client.chat.completions.stream(request);
      equal((await streaming.finalChatCompletion()).choices[0].message.content, whole.choices[0].message.content, "their stream");
      const text = await client.completions.create({ model: "tiny", prompt: "the cat", max_tokens: 4, temperature: 0 });
      equal(text.usage.completion_tokens, 4, "a text completion");
      equal((await all(await client.models.list())).map((model) => model.id), ["tiny"], "models");

      const refused = await failure(client.chat.completions.create({ ...request, temperature: 9 }), "temperature 9");
      ok(refused instanceof OpenAI.BadRequestError, `a BadRequestError, not ${refused}`);
      equal([refused.status, refused.code, refused.param], [400, "invalid_request", "temperature"], "error");
      ok((await failure(client.chat.completions.create({ ...request, model: "gpt" }), "another model")) instanceof OpenAI.NotFoundError, "404");

      const controller = new AbortController();
      const long = await client.chat.completions.create({ ...request, stream: true, max_tokens: 40, ignore_eos: true }, { signal: controller.signal });
      let seen = 0;
      for await (const _ of long) if (++seen === 2) controller.abort();
      equal(seen, 2, "chunks before the abort");
      equal((await client.chat.completions.create(request)).choices, whole.choices, "after an abort");
    }),

  "Vercel's SDK runs on fetch unchanged": () => withTiny({}, async (engine) => {
    const prompt = QUESTION[0].content;
    const { whole, streamed } = await withAiSdk(engine.fetch, prompt, 12);
    const ours = await engine.chat.completions.create(chat());
    const expected = {
      text: ours.choices[0].message.content, finish: ours.choices[0].finish_reason, tokens: ours.usage.completion_tokens,
    };
    equal(whole, expected, "whole");
    equal(streamed, expected, "streamed");
  }),

  "the package runs from another origin": async () => {
    const cdn = new URL(location.href).searchParams.get("cdn");
    const there = await import(`${cdn}/pkg/dist/index.js`);
    // Its worker through a small module made there; and served from here, as for a policy that forbids that.
    for (const more of [{}, { workerUrl: "/pkg/dist/worker.js" }]) {
      const engine = await there.createEngine({ model: TINY, tier: "base", ...more });
      try {
        await streamingEqualsWhole(engine);
      } finally {
        await engine.unload();
      }
    }
  },

  "tokenize, info and models tell what is loaded": () => withTiny({ model: { url: TINY, name: "my 7%" } }, async (engine) => {
    const tokens = await engine.tokenize("the cat");
    equal((await engine.detokenize(tokens)).join("").trimStart(), "the cat", "tokens and back");
    const info = await engine.info();
    equal([info.model, info.contextLength, info.integrity], ["my 7%", 64, "unverified"], "info");
    ok(["holds", "holds_padded"].includes(info.rowInvariance), `row invariance ${info.rowInvariance}`);
    ok(info.adapter.name !== "", "the adapter has a name");
    ok(info.deviceBytes > 0 && info.wasmBytes > 0, "bytes");
    equal((await engine.models.list()).data[0].id, "my 7%", "models");
    equal((await engine.models.retrieve("my 7%")).id, "my 7%", "the model");
    for (const [name, status] of [["my%207%25", 200], ["my%207%", 404], ["my", 404]]) {
      equal((await engine.fetch(`http://foretoken.local/v1/models/${name}`)).status, status, name);
    }
  }),

  "a File, a Blob and a file of the private file system load": async () => {
    const bytes = await (await fetch(TINY)).arrayBuffer();
    const root = await navigator.storage.getDirectory();
    const handle = await root.getFileHandle("mine.gguf", { create: true });
    const writable = await handle.createWritable();
    await writable.write(bytes);
    await writable.close();
    for (const [model, name] of [[new File([bytes], "a.gguf"), "a"], [new Blob([bytes]), "model"], [handle, "mine"]]) {
      await withTiny({ model }, async (engine) => equal((await engine.info()).model, name, "name"));
    }
  },

  "unloading rejects what is in flight, and what follows": async () => {
    const long = chat({ max_tokens: 40, ignore_eos: true });
    const whole = (engine) => engine.chat.completions.create(long);
    const streamed = async (engine) => all(await engine.chat.completions.create({ ...long, stream: true }));
    const fetched = async ({ fetch }) => {
      const body = JSON.stringify({ ...long, stream: true });
      const response = await fetch("http://foretoken.local/v1/chat/completions", { method: "POST", body });
      if (response.status !== 200) throw (await response.json()).error;
      const reader = response.body.getReader();
      while (!(await reader.read()).done);
    };
    for (const worker of [true, false]) {
      for (const ask of [whole, streamed, fetched]) {
        const engine = await createEngine({ model: TINY, tier: "base", worker });
        const what = `${ask.name}, worker: ${worker}`;
        const flying = failure(ask(engine), what);
        const waiting = failure(engine.chat.completions.create(chat()), `behind ${what}`);
        for (let i = 0; i < 500 && (await engine.metrics()).num_requests_running === 0; i++) await new Promise((resolve) => setTimeout(resolve));
        await engine.unload();
        equal([(await flying).code, (await waiting).code], ["disposed", "disposed"], what);
        equal((await failure(engine.info(), "after")).code, "disposed", "after");
        await engine.unload();
      }
    }
  },

  "a worker that does not start is given up": async () => {
    const { setTimeout } = globalThis;
    globalThis.setTimeout = (call, ms, ...args) => setTimeout(call, ms >= 20_000 ? 100 : ms, ...args);
    try {
      // A module that says nothing.
      const error = await failure(createEngine({ model: TINY, tier: "base", workerUrl: "/pkg/test/check.js" }), "no worker");
      equal(error.code, "worker_lost", `code of: ${error.message}`);
    } finally {
      globalThis.setTimeout = setTimeout;
    }
  },

  "a lost worker rejects what is in flight; the next request loads anew from the cache, once": async () => {
    const workers = [];
    const RealWorker = globalThis.Worker;
    globalThis.Worker = class extends RealWorker {
      constructor(...args) {
        super(...args);
        workers.push(this);
      }
    };
    try {
      await withTiny({}, async (engine) => {
        const before = await engine.chat.completions.create(chat());
        const flying = failure(engine.chat.completions.create(chat({ max_tokens: 40, ignore_eos: true })), "in flight");
        workers[0].terminate();
        equal((await flying).code, "worker_lost", "in flight");
        for (let i = 0; i < 2; i++) {
          equal((await engine.chat.completions.create(chat())).choices[0].message, before.choices[0].message, "the answer after");
        }
        equal(workers.length, 2, "workers");
      });
    } finally {
      globalThis.Worker = RealWorker;
    }
  },

  "a lost device rejects what is in flight; the next request loads anew": async () => {
    const devices = [];
    const { requestDevice } = GPUAdapter.prototype;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await requestDevice.apply(this, args);
      devices.push(device);
      return device;
    };
    try {
      await withTiny({ worker: false }, async (engine) => {
        const before = await engine.chat.completions.create(chat());
        const stream = await engine.chat.completions.create(chat({ stream: true, max_tokens: 40, ignore_eos: true }));
        const error = await failure((async () => {
          for await (const _ of stream) devices[0].destroy();
        })(), "in flight");
        equal(error.code, "device_lost", `code of: ${error.message}`);
        equal((await engine.chat.completions.create(chat())).choices[0].message, before.choices[0].message, "the answer after");
        equal(devices.length, 2, "devices");
      });
    } finally {
      GPUAdapter.prototype.requestDevice = requestDevice;
    }
  },

  "a lost device fails what waits for the same reason": async () => {
    const devices = [];
    const { requestDevice } = GPUAdapter.prototype;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await requestDevice.apply(this, args);
      devices.push(device);
      return device;
    };
    const channel = new BroadcastChannel("lose the device");
    const inWorker = () => (channel.postMessage(null), new Promise((resolve) => setTimeout(resolve, 200)));
    try {
      for (const [options, lose] of [[{ worker: false }, () => devices[0].destroy()], [{ workerUrl: "/pkg/test/losing-worker.js" }, inWorker]]) {
        await withTiny(options, async (engine) => {
          const stream = await engine.chat.completions.create(chat({ stream: true, max_tokens: 40, ignore_eos: true }));
          const waiting = [1, 2].map((i) => failure(engine.chat.completions.create(chat()), `waiting ${i}`));
          const first = await failure((async () => {
            for await (const _ of stream) await lose();
          })(), "in flight");
          const codes = [first, ...(await Promise.all(waiting))].map(({ code }) => code);
          equal(codes, ["device_lost", "device_lost", "device_lost"], "codes");
          ok((await engine.chat.completions.create(chat())).choices[0].message.content !== "", "the answer after");
        });
      }
    } finally {
      GPUAdapter.prototype.requestDevice = requestDevice;
      channel.close();
    }
  },

  "loading can be aborted": async () => {
    const controller = new AbortController();
    const loading = createEngine({ model: TINY, tier: "base", signal: controller.signal, onProgress: () => controller.abort() });
    equal((await failure(loading, "an aborted load")).name, "AbortError", "abort");
  },

  "a download is cached, listed and cleared": async () => {
    await clearCache();
    const phases = new Set();
    await withTiny({ onProgress: ({ phase }) => phases.add(phase) }, async () => {});
    equal([...phases], ["download", "upload", "compile", "tune"], "phases");
    const [model, ...more] = await listCached();
    equal([model.name, model.complete, more.length], ["tiny", true, 0], "cached");
    phases.clear();
    await withTiny({ onProgress: ({ phase }) => phases.add(phase) }, async () => {});
    equal([...phases], ["upload", "compile", "tune"], "phases of a second load");
    await clearCache(TINY);
    equal(await listCached(), [], "after clearing");
    await withTiny({ cache: "none" }, streamingEqualsWhole);
    equal(await listCached(), [], 'with cache: "none"');
  },

  "a cut download goes on where it was cut, in a worker": async () => {
    await clearCache();
    const seen = [];
    const onProgress = ({ phase, loaded }) => phase === "download" && seen.push(loaded);
    await withTiny({ model: `${TINY}?cut=60000`, onProgress }, streamingEqualsWhole);
    ok(seen.includes(60000), `progress at ${seen}`);
    equal(seen, [...seen].sort((a, b) => a - b), "progress");
    equal((await listCached()).map(({ size, complete }) => [size, complete]), [[seen.at(-1), true]], "stored");
  },

  "two engines on a page share one download and do not mix": async () => {
    await clearCache();
    const phases = [[], []];
    const engines = await Promise.all(phases.map((seen) =>
      createEngine({ model: TINY, tier: "base", onProgress: ({ phase }) => seen.push(phase) })));
    equal(phases.filter((seen) => seen.includes("download")).length, 1, "downloads");
    const answers = await Promise.all(engines.map((engine) => engine.chat.completions.create(chat())));
    equal(answers[0].choices[0].message, answers[1].choices[0].message, "answers");
    await Promise.all(engines.map((engine) => engine.unload()));
  },

  "a full store is told before the bytes, with what there is": async () => {
    await clearCache();
    const { estimate } = StorageManager.prototype;
    StorageManager.prototype.estimate = async () => ({ quota: 1000, usage: 900 });
    try {
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "a full store");
      equal(error.code, "quota_exceeded", `code of: ${error.message}`);
    } finally {
      StorageManager.prototype.estimate = estimate;
    }
    equal(await listCached(), [], "kept");
    // What the store takes it may still not put on the disk.
    const { createWritable } = FileSystemFileHandle.prototype;
    FileSystemFileHandle.prototype.createWritable = async function (...args) {
      const writable = await createWritable.apply(this, args);
      if (!this.name.endsWith(".partial")) return writable;
      writable.close = async () => {
        await writable.abort();
        throw new DOMException("no room", "QuotaExceededError");
      };
      return writable;
    };
    try {
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "a store that is full at the end");
      equal(error.code, "quota_exceeded", `code of: ${error.message}`);
    } finally {
      FileSystemFileHandle.prototype.createWritable = createWritable;
    }
    equal(await listCached(), [], "kept");
  },

  "loading again and again does not grow the wasm memory": async () => {
    const sizes = [];
    for (let i = 0; i < 7; i++) {
      await withTiny({ worker: false }, async (engine) => {
        await engine.chat.completions.create(chat());
        sizes.push((await engine.info()).wasmBytes);
      });
    }
    // When JavaScript lets go of what it holds is up to its collection of garbage: the first few loads may find less room.
    equal(sizes.at(-1), sizes[3], `wasm bytes ${sizes}`);
  },

  "what is not the file leaves nothing behind": async () => {
    await clearCache();
    const page = await failure(createEngine({ model: `${TINY}?html` }), "an HTML page");
    equal(page.code, "integrity", `code of: ${page.message}`);
    const hash = await failure(createEngine({ model: { url: TINY, sha256: "0".repeat(64) } }), "a wrong hash");
    equal(hash.code, "integrity", `code of: ${hash.message}`);
    const missing = await failure(createEngine({ model: "/data/absent.gguf" }), "a missing file");
    equal(missing.code, "model_not_found", `code of: ${missing.message}`);
    const other = await failure(createEngine({ model: "/pkg/package.json" }), "another kind of file");
    equal(other.code, "corrupt_weights", `code of: ${other.message}`);
    for (const cache of ["opfs", "none"]) {
      for (const model of [`${TINY}?html=206`, "/pkg/package.json?noranges", `${TINY}?short=0`, `${TINY}?short=2`]) {
        const error = await failure(createEngine({ model, cache }), model);
        equal(error.code, "integrity", `code of: ${error.message}`);
      }
    }
    equal(await listCached(), [], "kept");
  },

  "a stored file that cannot be loaded is removed": async () => {
    await clearCache();
    // A server that gives half a file and calls it whole.
    for (const worker of [true, false]) {
      const half = await failure(createEngine({ model: `${TINY}?short=60000`, worker }), "half a file");
      equal(half.code, "integrity", `code of: ${half.message}`);
      equal(await listCached(), [], "kept");
    }
    await withTiny({}, async () => {});
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken");
    for await (const [name, handle] of folder.entries()) {
      if (!name.endsWith(".gguf")) continue;
      const writable = await handle.createWritable({ keepExistingData: true });
      await writable.truncate(60000);
      await writable.close();
    }
    const damaged = await failure(createEngine({ model: TINY, tier: "base" }), "a damaged file");
    equal(damaged.code, "integrity", `code of: ${damaged.message}`);
    equal(await listCached(), [], "kept");
    await withTiny({}, streamingEqualsWhole);
  },

  "a known hash is checked": async () => {
    await clearCache();
    const digest = await crypto.subtle.digest("SHA-256", await (await fetch(TINY)).arrayBuffer());
    const sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
    for (const worker of [true, false, true]) {
      await withTiny({ model: { url: TINY, sha256 }, worker }, async (engine) => {
        equal((await engine.info()).integrity, "verified", "integrity");
      });
    }
  },

  "a server without ranges will do": async () => {
    await clearCache();
    await withTiny({ model: `${TINY}?noranges` }, streamingEqualsWhole);
    await withTiny({ model: `${TINY}?noranges`, cache: "none" }, streamingEqualsWhole);
  },

  "without WebGPU nothing is downloaded": async () => {
    await clearCache();
    const gpu = Object.getOwnPropertyDescriptor(Navigator.prototype, "gpu");
    delete Navigator.prototype.gpu;
    try {
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "no WebGPU");
      equal(error.code, "webgpu_unavailable", `code of: ${error.message}`);
    } finally {
      Object.defineProperty(Navigator.prototype, "gpu", gpu);
    }
    const { requestAdapter } = GPU.prototype;
    GPU.prototype.requestAdapter = async () => null;
    try {
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "no adapter");
      equal(error.code, "webgpu_unavailable", `code of: ${error.message}`);
    } finally {
      GPU.prototype.requestAdapter = requestAdapter;
    }
    equal(await listCached(), [], "downloaded");
  },

  "SmolLM2 answers as transformers does, drafting or not": async () => {
    const goldens = await (await fetch("/golden/smollm2-135m.json")).json();
    const pick = (id) => goldens.cases.find((found) => found.id === id);
    const engine = await createEngine({ model: "/models/smollm2-135m.gguf", speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "summary" });
    try {
      const question = pick("chat_qa_capital");
      const answer = await engine.chat.completions.create({
        messages: [{ role: "user", content: question.user }], temperature: 0, max_tokens: 24, return_token_ids: true,
      });
      equal(answer.prompt_token_ids, question.prompt_ids, "the prompt");
      equal(answer.choices[0].token_ids, question.output_ids, question.id);
      const fruits = pick("raw_list_fruits");
      await golden(engine, fruits);
      const plain = await engine.completions.create({
        prompt: fruits.prompt_ids, temperature: 0, max_tokens: 24, return_token_ids: true, speculative_config: null,
      });
      equal(plain.choices[0].token_ids, fruits.output_ids.slice(0, 24), "without drafts");
    } finally {
      await engine.unload();
    }
  },
};
