// What takes several visits, several tabs, a quota or a real server: loading across them. Each case gets a browser and a server of its own.

import { createReadStream, mkdirSync, openSync, ftruncateSync, readFileSync, statSync, writeSync, closeSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { equal, ok } from "./check.js";
import { header, parse, u32, withEntry } from "./gguf.js";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const TINY = folder("../../tests/data/tiny.gguf");
const TINY_BYTES = statSync(TINY).size;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
/** The header that is read before a download. */
const HEADER = "bytes=0-1048575";

/**
 * Serves the package and `model`, a file, as `/model.gguf`, to every origin. `asked` lists what was asked of the model but its header: ranges, and the
 * bytes that were sent. `limit` is where the answer stops and waits: `go()` lets it end. `gzip` compresses the whole, and serves no ranges.
 */
async function serve(model) {
  const state = { asked: [], limit: Infinity, go: () => {}, gzip: false };
  const size = statSync(model).size;
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const headers = { "access-control-allow-origin": "*", "cache-control": "no-store" };
    if (path === "/") return response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>A visit</title>");
    if (path !== "/model.gguf") {
      const file = join(folder(".."), normalize(path));
      const stream = createReadStream(file);
      stream.on("error", () => response.writeHead(404).end());
      stream.on("open", () => response.writeHead(200, { ...headers, "content-type": TYPES[extname(file)] ?? "text/plain" }));
      return stream.pipe(response);
    }
    const { range } = request.headers;
    if (state.gzip) {
      // A request for a range takes none, and such servers serve none.
      const takes = /gzip/.test(request.headers["accept-encoding"]);
      const body = takes ? gzipSync(readFileSync(model)) : readFileSync(model);
      return response.writeHead(200, { ...headers, ...(takes && { "content-encoding": "gzip" }), "content-length": body.length }).end(body);
    }
    const [, from = 0, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
    const last = Math.min(to ? Number(to) : size - 1, size - 1);
    const part = range === undefined ? {} : { "content-range": `bytes ${from}-${last}/${size}` };
    response.writeHead(range === undefined ? 200 : 206, { ...headers, ...part, etag: '"1"', "content-length": last - from + 1 });
    const counted = { range: range ?? "all", sent: 0 };
    if (range !== HEADER) state.asked.push(counted);
    const stops = range === HEADER ? size : Math.min(state.limit, size);
    const stream = createReadStream(model, { start: Number(from), end: Math.min(last, stops - 1) });
    const count = (chunk) => (counted.sent += chunk.length);
    stream.on("data", count);
    stream.pipe(response, { end: false });
    stream.on("end", () => {
      if (last < stops) return response.end();
      state.go = () => createReadStream(model, { start: stops, end: last }).on("data", count).pipe(response);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(state, {
    origin: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  });
}

/** Opens a page of the server's origin. */
async function visit(context, server) {
  const page = await context.newPage();
  await page.goto(`${server.origin}/`);
  return page;
}

/** Loads in a page's own way, until the weights are to be uploaded: all that is about bytes is past then. Tells the phases and what came of it. */
const load = (page, model, options = {}) => page.evaluate(async ([model, options]) => {
  const { createEngine } = await import("/dist/index.js");
  const seen = { phases: [], first: undefined, error: undefined };
  window.seen = seen;
  const controller = new AbortController();
  try {
    await createEngine({
      model, ...options, signal: controller.signal,
      onProgress({ phase, loaded, total }) {
        if (seen.phases.at(-1) !== phase) seen.phases.push(phase);
        if (phase === "download") Object.assign(seen, { first: seen.first ?? loaded, loaded, total });
        if (phase === "upload") controller.abort();
      },
    });
  } catch (error) {
    if (!controller.signal.aborted) seen.error = `${error.code}: ${error.message}`;
  }
  return seen;
}, [model, options]);

/** Loads until all weights are uploaded; gives the bytes of wasm's memory, which only grows, at that time. */
const memoryOfLoad = (page, model) => page.evaluate(async (model) => {
  const { createEngine } = await import("/dist/index.js");
  const { instantiateStreaming } = WebAssembly;
  let memory;
  WebAssembly.instantiateStreaming = async (...args) => {
    const made = await instantiateStreaming.apply(WebAssembly, args);
    memory = Object.values(made.instance.exports).find((one) => one instanceof WebAssembly.Memory);
    return made;
  };
  const controller = new AbortController();
  let bytes = 0;
  try {
    await createEngine({
      model, cache: "none", worker: false, signal: controller.signal,
      onProgress({ phase, loaded, total }) {
        bytes = memory.buffer.byteLength;
        if (phase === "upload" && loaded === total) controller.abort();
      },
    });
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  }
  return bytes;
}, model);

const listed = (page) => page.evaluate(async () => (await import("/dist/index.js")).listCached());
const clear = (page) => page.evaluate(async () => (await import("/dist/index.js")).clearCache());
/** Whatever the package has stored. */
const stored = (page) => page.evaluate(async () => {
  const names = [];
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken", { create: true });
  for await (const name of folder.keys()) names.push(name);
  return names;
});
const reached = (page, bytes) => page.waitForFunction((bytes) => window.seen?.loaded >= bytes, bytes);
const URL_OF_MODEL = "/model.gguf";

/** Names to `(browser, target)`; they throw. */
export const visits = {
  "a download that a reload cuts at 40 % goes on from there": withTiny(async (context, server) => {
    const page = await visit(context, server);
    server.limit = Math.floor(0.4 * TINY_BYTES);
    load(page, URL_OF_MODEL).catch(() => {});
    await reached(page, server.limit);
    server.limit = Infinity;
    await page.reload();
    const [partial] = await listed(page);
    const cut = Math.floor(0.4 * TINY_BYTES);
    equal([partial.complete, partial.size], [false, cut], "what was kept");
    const again = await load(page, URL_OF_MODEL);
    equal(again.error, undefined, "error");
    equal(again.phases.slice(0, 2), ["verify", "download"], "phases");
    ok(again.first > cut, `the second download began at ${again.first}`);
    equal(server.asked.map(({ range }) => range), ["all", `bytes=${cut}-`], "requests");
    equal(server.asked.map(({ sent }) => sent), [cut, TINY_BYTES - cut], "bytes sent");
  }),

  "a second tab waits for the first one's download, and reads its file": withTiny(async (context, server) => {
    const [first, second] = [await visit(context, server), await visit(context, server)];
    server.limit = Math.floor(0.4 * TINY_BYTES);
    const loading = load(first, URL_OF_MODEL);
    await reached(first, server.limit);
    const waiting = load(second, URL_OF_MODEL);
    await second.waitForFunction(async () => (await navigator.locks.query()).pending.some(({ name }) => /^foretoken:[0-9a-f]{64}$/.test(name)));
    equal(server.asked.length, 1, "downloads meanwhile");
    server.go();
    const [one, two] = await Promise.all([loading, waiting]);
    equal([one.error, two.error], [undefined, undefined], "errors");
    equal([one.phases[0], two.phases[0]], ["download", "upload"], "first phases");
    equal(server.asked.map(({ sent }) => sent), [TINY_BYTES], "bytes sent");
  }),

  "a quota that is too small is told with what is needed and what there is": withTiny(async (context, server) => {
    const page = await visit(context, server);
    const devtools = await context.newCDPSession(page);
    for (const share of [0.01, 0.1, 0.99]) {
      const quotaSize = Math.floor(share * TINY_BYTES);
      await devtools.send("Storage.overrideQuotaForOrigin", { origin: server.origin, quotaSize });
      const { error } = await load(page, URL_OF_MODEL);
      ok(error?.startsWith("quota_exceeded: "), `at ${share}: ${error}`);
      const [, needed, room] = /(\d+) bytes are needed and the browser has room for (-?\d+)/.exec(error) ?? [];
      equal([Number(needed), Number(room) <= quotaSize], [TINY_BYTES, true], error);
      equal(await stored(page), [], `kept at ${share}`);
    }
    equal((await load(page, URL_OF_MODEL, { cache: "none" })).error, undefined, "without the store");
    // It shrinks while a download is under way.
    await devtools.send("Storage.overrideQuotaForOrigin", { origin: server.origin });
    server.limit = 1000;
    const loading = load(page, URL_OF_MODEL);
    await reached(page, 1000);
    await devtools.send("Storage.overrideQuotaForOrigin", { origin: server.origin, quotaSize: 2000 });
    server.go();
    const late = await loading;
    ok(late.error?.startsWith("quota_exceeded: "), `late: ${late.error}`);
    equal(await stored(page), [], "kept");
    await devtools.send("Storage.overrideQuotaForOrigin", { origin: server.origin });
    server.limit = Infinity;
    equal((await load(page, URL_OF_MODEL)).error, undefined, "with room");
  }),

  "clearing the cache leaves a download alone, and then removes what it stored": withTiny(async (context, server) => {
    const [page, other] = [await visit(context, server), await visit(context, server)];
    server.limit = Math.floor(0.4 * TINY_BYTES);
    const loading = load(page, URL_OF_MODEL);
    await reached(page, server.limit);
    await clear(other);
    await clear(page);
    server.go();
    equal((await loading).error, undefined, "error");
    const [model, ...more] = await listed(page);
    equal([model.name, model.complete, model.size, more.length], ["model", true, TINY_BYTES, 0], "stored");
    await clear(other);
    equal(await stored(page), [], "after clearing");
  }),

  "what the browser evicted is downloaded again": withTiny(async (context, server) => {
    const page = await visit(context, server);
    equal((await load(page, URL_OF_MODEL)).error, undefined, "first");
    equal((await load(page, URL_OF_MODEL)).phases.includes("download"), false, "second");
    await page.close();
    const next = await visit(context, server);
    const devtools = await context.newCDPSession(next);
    await devtools.send("Storage.clearDataForOrigin", { origin: server.origin, storageTypes: "all" });
    equal(await listed(next), [], "after eviction");
    const again = await load(next, URL_OF_MODEL);
    equal([again.error, again.phases[0]], [undefined, "download"], "third");
    equal(server.asked.map(({ sent }) => sent), [TINY_BYTES, TINY_BYTES], "bytes sent");
  }),

  "a compressed file of another origin loads": withTiny(async (context, server) => {
    const there = await serve(TINY);
    there.gzip = true;
    try {
      const page = await visit(context, server);
      for (const cache of ["opfs", "none"]) equal((await load(page, `${there.origin}${URL_OF_MODEL}`, { cache })).error, undefined, cache);
    } finally {
      there.close();
    }
  }),
};

/** Long ones. */
export const longVisits = {
  "a model of 470 MB loads in 96 MiB of wasm memory": async (browser, target) => {
    const model = forgeLarge(target);
    await withServer(browser, model, async (context, server) => {
      const bytes = await memoryOfLoad(await visit(context, server), URL_OF_MODEL);
      console.log(`    ${statSync(model).size} bytes of model, ${(bytes / 2 ** 20).toFixed(1)} MiB of wasm memory`);
      ok(bytes > 0 && bytes <= 96 * 2 ** 20, `${bytes} bytes of wasm memory`);
    });
  },
};

function withTiny(test) {
  return (browser) => withServer(browser, TINY, test);
}

async function withServer(browser, model, test) {
  const server = await serve(model);
  const context = await browser.newContext();
  try {
    await test(context, server);
  } finally {
    await context.close();
    server.close();
  }
}

/** A Q8_0 llama of seven wide layers with TINY's vocabulary. Its weights are zeros, and take no room on the disk. */
function forgeLarge(target) {
  const [hidden, ffn, heads, kvHeads, layers] = [2048, 8704, 32, 8, 7];
  const [q, kv] = [hidden, (hidden / heads) * kvHeads];
  const tiny = parse(new Uint8Array(readFileSync(TINY)));
  let model = tiny;
  for (const [key, value] of [
    ["embedding_length", hidden], ["feed_forward_length", ffn], ["block_count", layers], ["attention.head_count", heads],
    ["attention.head_count_kv", kvHeads], ["rope.dimension_count", hidden / heads],
  ]) model = withEntry(model, u32(`llama.${key}`, value));
  const [F32, Q8_0] = [0, 8];
  const vector = (name) => ({ name, dims: [hidden], type: F32, data: { length: 4 * hidden } });
  const matrix = (name, cols, rows) => ({ name, dims: [cols, rows], type: Q8_0, data: { length: (cols / 32) * 34 * rows } });
  const layer = (index) => {
    const at = (name) => `blk.${index}.${name}.weight`;
    return [
      vector(at("attn_norm")), matrix(at("attn_q"), hidden, q), matrix(at("attn_k"), hidden, kv), matrix(at("attn_v"), hidden, kv),
      matrix(at("attn_output"), q, hidden), vector(at("ffn_norm")), matrix(at("ffn_gate"), hidden, ffn), matrix(at("ffn_up"), hidden, ffn),
      matrix(at("ffn_down"), ffn, hidden),
    ];
  };
  const vocabulary = tiny.tensors.find(({ name }) => name === "token_embd.weight").dims[1];
  const tensors = [
    matrix("token_embd.weight", hidden, vocabulary), ...Array.from({ length: layers }, (_, index) => layer(index)).flat(), vector("output_norm.weight"),
  ];
  const { bytes, size } = header({ entries: model.entries, tensors });
  mkdirSync(target, { recursive: true });
  const path = join(target, "large.gguf");
  const file = openSync(path, "w");
  writeSync(file, bytes);
  ftruncateSync(file, size);
  closeSync(file);
  return path;
}
