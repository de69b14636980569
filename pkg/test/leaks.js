// The leak gate: what lives on the GPU and in the wasm memory after many requests, and after many models.

import { createEngine } from "/pkg/dist/index.js";
import { all, equal, failure, NGRAM, ok, TINY } from "./check.js";

/** Counts the GPU's buffers that this thread made and nobody has destroyed or forgotten. */
class Buffers {
  made = 0;
  /** Buffers, and their devices: one that is destroyed takes its buffers along. */
  refs = [];
  gone = new WeakSet();

  constructor() {
    const [device, buffer, counted] = [GPUDevice.prototype, GPUBuffer.prototype, this];
    const { createBuffer, destroy: destroyDevice } = device;
    const { destroy } = buffer;
    device.createBuffer = function (...args) {
      const made = createBuffer.apply(this, args);
      counted.made++;
      counted.refs.push([new WeakRef(made), new WeakRef(this)]);
      return made;
    };
    device.destroy = function () {
      counted.gone.add(this);
      return destroyDevice.call(this);
    };
    buffer.destroy = function () {
      counted.gone.add(this);
      return destroy.call(this);
    };
    this.restore = () => {
      Object.assign(device, { createBuffer, destroy: destroyDevice });
      buffer.destroy = destroy;
    };
  }

  async live() {
    // A reference that was looked at in a task lives to its end.
    await new Promise((resolve) => setTimeout(resolve, 20));
    globalThis.gc();
    const lives = (ref) => ref.deref() !== undefined && !this.gone.has(ref.deref());
    return this.refs.filter(([buffer, device]) => lives(buffer) && lives(device)).length;
  }
}

async function counting(test) {
  ok(typeof globalThis.gc === "function", "the browser was started without --expose-gc");
  const buffers = new Buffers();
  try {
    await test(buffers);
  } finally {
    buffers.restore();
  }
}

const load = () => createEngine({ model: TINY, tier: "base", worker: false, speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "detailed" });

const text = (more) => ({ prompt: "the cat the cat the", max_tokens: 12, ...more });

/** Requests of every kind, by turns; `i` chooses one. */
async function request(engine, i) {
  const speculation = i % 2 === 0 ? {} : { speculative_config: null };
  const long = text({ max_tokens: 40, ignore_eos: true, stream: true, ...speculation });
  switch (i % 8) {
    case 0:
    case 1:
      return engine.completions.create(text({ temperature: 0, ...speculation }));
    case 2:
      return engine.completions.create(text({ temperature: 0.9, seed: i, top_p: 0.9, repetition_penalty: 1.2, logprobs: 3, ...speculation }));
    case 3:
      return all(await engine.completions.create(text({ temperature: 0.7, seed: i, stream: true, logit_bias: { 5: 2 }, ...speculation })));
    case 4: {
      const controller = new AbortController();
      const stream = await engine.completions.create(long, { signal: controller.signal });
      let chunks = 0;
      const aborted = failure((async () => {
        for await (const _ of stream) if (++chunks === 2) controller.abort();
      })(), "aborted in its midst");
      return equal((await aborted).name, "AbortError", "abort");
    }
    case 5: {
      for await (const _ of await engine.completions.create(long)) break;
      return;
    }
    case 6: {
      const refused = await failure(engine.completions.create(text({ temperature: 9 })), "temperature 9");
      return equal(refused.code, "invalid_request", "refused");
    }
    default: {
      const refused = await engine.fetch("http://foretoken.local/v1/completions", { method: "POST", body: "{" });
      equal(refused.status, 400, "no JSON");
      return refused.text();
    }
  }
}

function flat(sizes, what) {
  const growth = sizes.at(-1) / sizes[0] - 1;
  ok(growth < 0.01, `${what} grew by ${(100 * growth).toFixed(1)} %: ${sizes}`);
}

export const cases = {
  "200 requests of every kind leave no buffer and no memory behind": () => counting(async (buffers) => {
    const engine = await load();
    try {
      const [live, sizes] = [[], []];
      // One of each kind first: what is made once is made.
      for (let i = 0; i <= 200; i++) {
        await request(engine, i);
        if (i % 40 !== 16 && i !== 200) continue;
        live.push(await buffers.live());
        sizes.push((await engine.info()).wasmBytes);
      }
      equal(live.every((count) => count === live[0]), true, `live buffers ${live}`);
      ok(live[0] > 10, `${live[0]} live buffers: they are not seen`);
      flat(sizes, "the wasm memory");
      const { requests } = await engine.metrics();
      equal([requests.abort, requests.error, requests.stop + requests.length], [50, 0, 101], "requests");
    } finally {
      await engine.unload();
    }
  }),

  "20 models loaded and unloaded leave no buffer and no memory behind": () => counting(async (buffers) => {
    const [live, sizes] = [[], []];
    const before = await buffers.live();
    for (let i = 0; i < 20; i++) {
      const engine = await load();
      await request(engine, i);
      sizes.push((await engine.info()).wasmBytes);
      // Some are unloaded while they answer.
      const flying = i % 3 === 0 ? failure(engine.completions.create(text({ max_tokens: 40, ignore_eos: true })), "in flight") : undefined;
      await engine.unload();
      await flying;
      live.push(await buffers.live());
    }
    equal([...new Set(live)], [before], `live buffers after each: ${live}`);
    ok(buffers.made > 20 * 10, `${buffers.made} buffers were made: they are not seen`);
    // The first two settle what one load needs at most.
    flat(sizes.slice(2), "the wasm memory");
  }),
};
