// What the package does when the GPU goes wrong: see faulty-gpu.js. Each case is a function that throws, as in cases.js.

import { clearCache, createEngine, EngineError, listCached } from "/pkg/dist/index.js";
import { all, equal, failure, ok } from "./check.js";
import { faultyGpu } from "./faulty-gpu.js";

const TINY = "/data/tiny.gguf";
const WORKER = "/pkg/test/faulty-worker.js";
const chat = (more) => ({ messages: [{ role: "user", content: "What is 7?" }], max_tokens: 12, temperature: 0, ...more });
const LONG = { max_tokens: 40, ignore_eos: true };
const text = async (engine, more) => (await engine.chat.completions.create(chat(more))).choices[0].message.content;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What need not wait for any device must not take longer, however slow the machine. */
const SOON_MS = 10_000;

/** Fails where `promise` is not settled soon. */
async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing came of it in ${SOON_MS} ms`)), SOON_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Runs `test` with a faulty GPU in this thread. */
async function here(test) {
  const fault = faultyGpu();
  try {
    await test(fault);
  } finally {
    fault.maps = undefined;
    fault.restore();
  }
}

async function withTiny(options, test) {
  const engine = await createEngine({ model: TINY, tier: "base", ...options });
  try {
    await test(engine);
  } finally {
    await engine.unload();
  }
}

/** The error of a stream that is read to its end, and those of requests that wait behind it; `hurt` is called after its second chunk. */
async function hurtMidStream(engine, hurt) {
  const stream = await engine.chat.completions.create(chat({ ...LONG, stream: true }));
  const waiting = [1, 2].map((i) => failure(engine.chat.completions.create(chat()), `waiting ${i}`));
  let chunks = 0;
  const flying = await failure((async () => {
    for await (const _ of stream) if (++chunks === 2) await hurt();
  })(), "in flight");
  return [flying, ...(await Promise.all(waiting))];
}

const codes = (errors) => errors.map(({ code }) => code);
const allOf = (code) => [code, code, code];

export const gpuFaults = {
  "a read-back that never calls back ends when the device is lost": () => here((fault) => withTiny({ worker: false }, async (engine) => {
    const before = await text(engine);
    const errors = await hurtMidStream(engine, () => {
      fault.maps = "dropped";
      setTimeout(() => fault.devices[0].destroy(), 300);
    });
    equal(codes(errors), allOf("device_lost"), `codes of: ${errors[0].message}`);
    fault.maps = undefined;
    equal(await text(engine), before, "the answer after");
    equal(fault.devices.length, 2, "devices");
  })),

  "a device that does not answer is lost after fifteen seconds, and built anew, once": async () => {
    const channel = new BroadcastChannel("faulty GPU");
    const told = new Promise((resolve) => (channel.onmessage = resolve));
    try {
      await withTiny({ workerUrl: WORKER }, async (engine) => {
        const before = await text(engine);
        const errors = await hurtMidStream(engine, () => {
          channel.postMessage({ maps: "dropped", answers: "dropped", speed: 20 });
          return told;
        });
        equal(codes(errors), allOf("device_lost"), `codes of: ${errors[0].message}`);
        ok(/not answered for 1[5-9] s/.test(errors[0].message), errors[0].message);
        // In a fresh worker, which nothing is wrong with.
        equal(await text(engine), before, "the answer after");
      });
    } finally {
      channel.close();
    }
  },

  "a wait that hangs goes on while the device answers, or the page is hidden": () => here((fault) => withTiny({ worker: false }, async (engine) => {
    const before = await text(engine);
    const own = Object.getOwnPropertyDescriptor(Document.prototype, "visibilityState");
    Object.defineProperty(Document.prototype, "visibilityState", { ...own, get: () => "hidden" });
    Object.assign(fault, { maps: "held", speed: 20 });
    const asking = text(engine);
    await sleep(60_000);
    equal(fault.asked, 0, "questions while hidden");
    Object.defineProperty(Document.prototype, "visibilityState", own);
    for (let i = 0; i < 500 && fault.asked < 3; i++) await sleep(100);
    ok(fault.asked >= 3, `it asked ${fault.asked} times`);
    Object.assign(fault, { maps: undefined, speed: 1 });
    equal(await asking, before, "the answer");
    equal(fault.devices.length, 1, "devices");
  })),

  "a device that is destroyed while loading is told, and the next load is a fresh one": () => here(async (fault) => {
    for (const phase of ["upload", "compile", "tune"]) {
      const seen = new Set();
      const onProgress = (progress) => {
        if (seen.has(progress.phase)) return;
        seen.add(progress.phase);
        if (progress.phase === phase) fault.devices.at(-1).destroy();
      };
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false, onProgress }), phase);
      equal(error.code, "device_lost", `${phase}: ${error.message}`);
    }
    await withTiny({ worker: false }, async (engine) => ok((await text(engine)) !== "", "an answer"));
  }),

  "memory that is not to be had is named, and all of it given back": () => here(async (fault) => {
    await withTiny({ worker: false }, async () => {});
    const { made } = fault;
    for (const bufferFails of ["thrown", "told"]) {
      // The first, which has no name, is there to stand in for one that cannot be.
      for (const buffers of bufferFails === "thrown" ? [0, 1, 20] : [1, 20, made - 1]) {
        Object.assign(fault, { buffers, bufferFails, failed: undefined });
        const what = `buffer ${buffers} of ${made}, ${bufferFails}`;
        const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), what);
        ok(error instanceof EngineError && error.code === "out_of_memory", `${what}: ${error.code} ${error.message}`);
        ok(error.message.includes(`${fault.failed.size} bytes needed`), `${what}: ${error.message}`);
        ok(buffers === 0 || error.message.includes(fault.failed.label), `${what}, ${fault.failed.label}: ${error.message}`);
        equal((await soon(fault.devices.at(-1).lost, what)).reason, "destroyed", what);
        fault.buffers = undefined;
      }
    }
  }),

  "memory that is not to be had for a draft model costs the draft alone": () => here(async (fault) => {
    let alone;
    await withTiny({ worker: false }, async (engine) => (alone = await text(engine)));
    const speculativeConfig = { method: "draft_model", num_speculative_tokens: 3 };
    const options = { worker: false, draftModel: TINY, speculativeConfig };
    for (const [buffers, bufferFails] of [[5, "thrown"], [20, "told"]]) {
      const what = `buffer ${buffers} of the draft, ${bufferFails}`;
      // The draft's weights follow all that is the target's.
      let uploads = 0;
      const onProgress = ({ phase, loaded, total }) => {
        if (phase === "upload" && loaded > total / 2 && uploads++ === 0) Object.assign(fault, { buffers, bufferFails, failed: undefined });
      };
      await withTiny({ ...options, onProgress }, async (engine) => {
        ok(fault.failed !== undefined, `${what}: it failed`);
        fault.buffers = undefined;
        const { active, reason } = (await engine.info()).speculation;
        ok(!active && reason.includes(`${fault.failed.size} bytes needed`), `${what}: ${reason}`);
        equal(await text(engine), alone, `${what}: the answer`);
      });
    }
  }),

  "memory that a request lacks fails it alone, and the next one has a fresh device": () => here((fault) => withTiny({ worker: false }, async (engine) => {
    const before = await text(engine);
    Object.assign(fault, { buffers: 0, bufferFails: "told" });
    const error = await failure(text(engine, { logit_bias: { 5: -100 } }), "no room for biases");
    equal(error.code, "out_of_memory", error.message);
    fault.buffers = undefined;
    equal(await text(engine), before, "the answer after");
    equal(fault.devices.length, 2, "devices");
  })),

  "a small device says what is needed and what it has": () => here(async (fault) => {
    fault.limit = 70_000;
    const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "a small device");
    equal(error.code, "out_of_memory", error.message);
    ok(/\d{5,} bytes needed.*at most 70000 bytes/.test(error.message), error.message);
  }),

  "in a worker too, what has no device downloads nothing": async () => {
    await clearCache();
    for (const query of ["?adapter=none", "?device=refused"]) {
      const error = await failure(createEngine({ model: TINY, tier: "base", workerUrl: WORKER + query }), query);
      equal(error.code, "webgpu_unavailable", `${query}: ${error.message}`);
    }
    await here(async (fault) => {
      fault.device = "refused";
      const error = await failure(createEngine({ model: TINY, tier: "base", worker: false }), "no device");
      equal(error.code, "webgpu_unavailable", error.message);
      ok(error.message.includes("no device today"), error.message);
    });
    equal(await listCached(), [], "downloaded");
  },

  "in a worker too, memory that is not to be had is named": async () => {
    for (const bufferFails of ["thrown", "told"]) {
      const error = await failure(createEngine({ model: TINY, tier: "base", workerUrl: `${WORKER}?buffers=20&bufferFails=${bufferFails}` }), bufferFails);
      equal(error.code, "out_of_memory", error.message);
    }
  },

  "a panic while loading is told, and the next worker is a fresh one": async () => {
    const error = await failure(createEngine({ model: TINY, tier: "base", workerUrl: `${WORKER}?writes=thrown` }), "a panic");
    equal(error.code, "internal", error.message);
    await withTiny({ workerUrl: WORKER }, async (engine) => ok((await text(engine)) !== "", "an answer"));
  },

  "logits that are no numbers are an error, and the next request has a fresh device": () => here((fault) => withTiny({ worker: false }, async (engine) => {
    const before = await text(engine);
    const label = [...fault.labelled.keys()].find((label) => label?.startsWith("output_norm"));
    const norm = fault.labelled.get(label);
    const spoil = async () => fault.devices[0].queue.writeBuffer(norm, 0, new Float32Array(norm.size / 4).fill(NaN));
    const errors = await hurtMidStream(engine, spoil);
    equal(codes(errors), allOf("internal"), `codes of: ${errors[0].message}`);
    ok(/NaN|finite/.test(errors[0].message), errors[0].message);
    equal(await text(engine), before, "the answer after");
    equal(fault.devices.length, 2, "devices");
  })),

  "unloading gives the device back at once, even while it hangs": () => here(async (fault) => {
    for (const maps of [undefined, "dropped"]) {
      const engine = await createEngine({ model: TINY, tier: "base", worker: false });
      fault.maps = maps;
      const flying = failure(text(engine, LONG), "in flight");
      const waiting = failure(text(engine), "waiting");
      await sleep(20);
      await soon(Promise.all([engine.unload(), engine.unload()]), "unloading, twice");
      equal(codes([await flying, await waiting]), ["disposed", "disposed"], `codes, maps ${maps}`);
      equal((await soon(fault.devices.at(-1).lost, "the device's end")).reason, "destroyed", "device");
      fault.maps = undefined;
    }
  }),

  "an abort while loading gives the device back": () => here(async (fault) => {
    const controller = new AbortController();
    const onProgress = ({ phase }) => phase === "upload" && controller.abort();
    const loading = createEngine({ model: TINY, tier: "base", worker: false, signal: controller.signal, onProgress });
    equal((await failure(loading, "an aborted load")).name, "AbortError", "abort");
    equal((await soon(fault.devices.at(-1).lost, "the device's end")).reason, "destroyed", "device");
  }),

  "unloading does not wait for a model that is loaded anew": async () => {
    const workers = [];
    const RealWorker = globalThis.Worker;
    globalThis.Worker = class extends RealWorker {
      constructor(url, options) {
        // The second one waits for a device for ever.
        super(workers.length === 0 ? url : `${url}?device=pending`, options);
        workers.push(this);
      }
    };
    try {
      for (const worker of [true, false]) await here((fault) => unloadedWhileReviving(fault, workers, worker));
    } finally {
      globalThis.Worker = RealWorker;
    }
  },
};

async function unloadedWhileReviving(fault, workers, worker) {
  const engine = await createEngine({ model: TINY, tier: "base", worker, workerUrl: WORKER });
  const flying = failure(text(engine, LONG), "in flight");
  fault.device = "pending";
  if (worker) workers[0].terminate();
  else fault.devices[0].destroy();
  equal((await flying).code, worker ? "worker_lost" : "device_lost", "in flight");
  const asking = ["one", "another"].map((what) => failure(text(engine), what));
  const looking = failure(engine.info(), "info");
  const body = new ReadableStream({ start() {} });
  const fetching = engine.fetch("http://foretoken.local/v1/completions", { method: "POST", body, duplex: "half" });
  await sleep(300);
  await soon(Promise.all([engine.unload(), engine.unload()]), "unloading, twice");
  equal(codes(await soon(Promise.all([...asking, looking]), "what waited")), allOf("disposed"), "codes");
  const response = await soon(fetching, "a fetch whose body never comes");
  equal([response.status, (await response.json()).error.code], [503, "disposed"], "the fetch");
  equal((await failure(text(engine), "after")).code, "disposed", "after");
}
