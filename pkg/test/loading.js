// Loading: where a model's bytes come from, what can go wrong on their way, and what is refused before them. `fetch` is played here; what takes
// a real server, several visits or several tabs is in visits.mjs.

import { clearCache, createEngine, listCached } from "/pkg/dist/index.js";
import { equal, failure, ok } from "./check.js";
import { build, parse, split, u32, withEntry } from "./gguf.js";

export const tiny = new Uint8Array(await (await fetch("/data/tiny.gguf")).arrayBuffer());
export const URL_OF_TINY = "/played/tiny.gguf";

export async function sha256Of(bytes) {
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A body that is cut after `length` bytes. */
function cut(bytes, length) {
  let sent = false;
  return new ReadableStream({
    pull(controller) {
      if (sent) return controller.error(new TypeError("network error"));
      sent = true;
      controller.enqueue(bytes.slice(0, length));
    },
  });
}

/** What a good server answers: the file from byte `from` on, or the part that was asked for. */
function answer(bytes, from, to = bytes.length - 1, more = {}) {
  const part = bytes.slice(from ?? 0, to + 1);
  const range = from === undefined ? {} : { "content-range": `bytes ${from}-${to}/${bytes.length}` };
  const headers = Object.entries({ etag: '"1"', "content-length": `${part.length}`, ...range, ...more.headers });
  const status = more.status ?? (from === undefined ? 200 : 206);
  return new Response(more.body?.(part) ?? part, { status, headers: headers.filter(([, value]) => value !== undefined) });
}

/**
 * Runs `test` where `fetch` answers for `files`, from addresses to bytes. Each request for all of a file, or for all that is left of it, takes
 * the next of `faults`, `(bytes, from) => Response`; undefined means a good answer. The test gets a list of what was asked for.
 */
export async function played(files, faults, test) {
  await clearCache();
  const { fetch, setTimeout } = globalThis;
  const asked = [];
  globalThis.setTimeout = (call, ms, ...args) => setTimeout(call, ms >= 200 ? 5 : ms, ...args);
  globalThis.fetch = async (url, init = {}) => {
    const { href, origin, pathname } = new URL(url, location.href);
    const file = files[origin === location.origin ? pathname : href];
    if (file === undefined && !pathname.startsWith("/played/") && origin === location.origin) return fetch(url, init);
    init.signal?.throwIfAborted();
    if (typeof file === "function") return file(init);
    const range = new Headers(init.headers).get("range");
    asked.push(range ?? "all");
    if (file === undefined) return new Response("not here", { status: 404 });
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
    if (to) return answer(file, Number(from), Math.min(Number(to), file.length - 1));
    const fault = faults.shift();
    return (fault ?? answer)(file, from === undefined ? undefined : Number(from));
  };
  try {
    await test(asked);
  } finally {
    globalThis.fetch = fetch;
    globalThis.setTimeout = setTimeout;
    await clearCache();
  }
}

/** Loads, tells what the engine answers and says of itself, and unloads. */
export async function answers(options) {
  const engine = await createEngine({ worker: false, tier: "base", ...options });
  try {
    const { choices } = await engine.completions.create({ prompt: "the cat", max_tokens: 12, temperature: 0, return_token_ids: true });
    return { tokens: choices[0].token_ids, info: await engine.info() };
  } finally {
    await engine.unload();
  }
}

/** Loads until the weights are to be uploaded: all that is about bytes is past then. Tells what was stored. */
export async function fetched(options) {
  const controller = new AbortController();
  const loading = createEngine({
    worker: false, ...options, signal: controller.signal,
    onProgress(progress) {
      options.onProgress?.(progress);
      if (progress.phase === "upload") controller.abort();
    },
  });
  const error = await failure(loading, "aborted");
  if (error.name !== "AbortError") throw error;
  return listCached();
}

/** What TINY answers, loaded as one file. */
let whole;
export const expected = () => (whole ??= answers({ model: new Blob([tiny]) }).then(({ tokens }) => tokens));

/** The files of the store, by their ends. */
export async function kept() {
  const names = [];
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken", { create: true });
  for await (const name of folder.keys()) names.push(name.replace(/^[0-9a-f]+\./, ""));
  return names.sort();
}

export const HEADER = "bytes=0-1048575";
const CUT = 100_000;
const cutAt = (length) => (bytes, from) => answer(bytes, from, undefined, { body: (part) => cut(part, length) });
export const status = (code) => () => new Response("", { status: code });
const reset = () => {
  throw new TypeError("Failed to fetch");
};

export const model = parse(tiny);
const parts = split(model, 3);
const partUrl = (part, of = "/played/m") => `${of}-0000${part}-of-00003.gguf`;
const splitFiles = (of) => Object.fromEntries(parts.map((bytes, i) => [partUrl(i + 1, of), bytes]));
const asFiles = () => parts.map((bytes, i) => new File([bytes], partUrl(i + 1).slice("/played/".length)));

export const cases = {
  "a split model loads as the one it was, from its first address": () => played(splitFiles(), [], async (asked) => {
    const [seen, names] = [new Set(), [1, 2, 3].map((part) => partUrl(part).slice("/played/".length, -".gguf".length))];
    const onProgress = ({ phase, file, loaded, total }) => phase === "download" && loaded === total && seen.add(file);
    const stored = await fetched({ model: partUrl(1), onProgress });
    equal(stored.map(({ name, complete }) => [name, complete]).sort(), names.map((name) => [name, true]), "stored");
    equal([[...seen], asked], [names, [...Array(3).fill(HEADER), ...Array(3).fill("all")]], "downloads and requests");
    asked.length = 0;
    await fetched({ model: partUrl(1) });
    equal(asked, [], "requests of a second load");
    const found = await answers({ model: partUrl(1), cache: "none" });
    equal([found.tokens, found.info.model], [await expected(), "m"], "answer and name");
  }),

  "the files of a split model load in any order": async () => {
    const [first, second, third] = asFiles();
    equal((await answers({ model: [third, first, second] })).tokens, await expected(), "answer");
    for (const files of [[first, second, third], parts.map((bytes) => new Blob([bytes]))]) await fetched({ model: files });
    for (const [files, words] of [
      [first, ["split.count", "is 3", "one file was given"]],
      [[first, second], ["split.count", "is 3", "2 files were given"]],
      [[first, third, third], ["part 2 of 3", "split.no", "is 2"]],
      [[first, second, new File([build(model)], "z.gguf")], ["split.count", "missing"]],
    ]) {
      const error = await failure(fetched({ model: files }), words[0]);
      equal(error.code, "corrupt_weights", `code of: ${error.message}`);
      for (const word of words) ok(error.message.includes(word), `"${word}" is not in: ${error.message}`);
    }
    const none = await failure(fetched({ model: [] }), "no files");
    equal([none.code, none.param], ["invalid_request", "model"], "code and param");
    const noParts = await failure(fetched({ model: "/played/m-00001-of-00000.gguf" }), "a part of none");
    equal([noParts.code, noParts.param], ["invalid_request", "model"], "code and param");
  },

  "a part of a split model that is missing, wrong or no first one is named": async () => {
    const files = splitFiles();
    const hashes = await Promise.all(parts.map(sha256Of));
    await played(files, [], async () => {
      const verified = await fetched({ model: { url: partUrl(1), sha256: hashes } });
      equal(verified.map(({ sha256 }) => sha256).sort(), [...hashes].sort(), "hashes of what is stored");
      await clearCache();
      const wrong = await failure(fetched({ model: { url: partUrl(1), sha256: [hashes[0], hashes[0], hashes[2]] } }), "a wrong hash");
      equal([wrong.code, wrong.message.includes(partUrl(2))], ["integrity", true], wrong.message);
      equal((await listCached()).map(({ url }) => new URL(url).pathname), [partUrl(1)], "what stays");
      const later = await failure(fetched({ model: partUrl(2) }), "the second part");
      equal([later.code, later.param], ["invalid_request", "model"], later.message);
      for (const sha256 of [hashes[0], hashes.slice(1), [...hashes.slice(1), "0"]]) {
        const refused = await failure(fetched({ model: { url: partUrl(1), sha256 } }), "hashes");
        equal([refused.code, refused.param], ["invalid_request", "model.sha256"], refused.message);
      }
      const many = await failure(fetched({ model: "/played/m-00001-of-01025.gguf" }), "too many");
      equal([many.code, many.param], ["invalid_request", "model"], many.message);
      delete files[partUrl(3)];
      await clearCache();
      const missing = await failure(fetched({ model: partUrl(1) }), "a missing part");
      equal([missing.code, missing.message.includes(partUrl(3))], ["model_not_found", true], missing.message);
      equal(await kept(), [], "kept");
    });
  },

  "what cannot be loaded is refused from its header, saying what is needed and what there is": async () => {
    const without = ({ entries, tensors }, name) => ({ entries, tensors: tensors.filter((tensor) => tensor.name !== name) });
    const reshaped = ({ entries, tensors }, name, dims) => ({
      entries, tensors: tensors.map((tensor) => (tensor.name === name ? { ...tensor, dims } : tensor)),
    });
    const long = withEntry(model, u32("llama.context_length", 2 ** 31));
    for (const [what, changed, options, code, words] of [
      ["a context that is too long", model, { contextLength: 65 }, "invalid_request", ["65", "1 to 64"]],
      ["no head", without(model, "output_norm.weight"), {}, "corrupt_weights", ["output_norm.weight", "missing"]],
      ["a missing tensor", without(model, "blk.1.ffn_up.weight"), {}, "corrupt_weights", ["blk.1.ffn_up.weight", "missing"]],
      ["another shape", reshaped(model, "blk.1.ffn_down.weight", [64, 128]), {}, "corrupt_weights", ["blk.1.ffn_down.weight", "128 x 64", "64 x 128"]],
      ["a format", { ...model, tensors: model.tensors.map((t) => (t.name === "blk.0.attn_q.weight" ? { ...t, dims: [256, 16], type: 16 } : t)) },
        {}, "unsupported_quantization", ["blk.0.attn_q.weight", "IQ2_XXS"]],
      ["a dimension", withEntry(model, u32("llama.attention.head_count_kv", 3)), {}, "corrupt_weights", ["head_count_kv", "is 3"]],
      ["more than the device binds", long, { contextLength: 2 ** 30 }, "out_of_memory", ["bytes needed", "the device binds at most"]],
    ]) {
      await played({ [URL_OF_TINY]: build(changed) }, [], async (asked) => {
        for (const cache of ["opfs", "none"]) {
          const error = await failure(fetched({ model: URL_OF_TINY, cache, ...options }), what);
          equal(error.code, code, `${what}: code of: ${error.message}`);
          for (const word of words) ok(error.message.includes(word), `${what}: "${word}" is not in: ${error.message}`);
        }
        equal(asked, [HEADER, HEADER], `${what}: requests`);
        equal(await kept(), [], `${what}: kept`);
      });
    }
    // Planning is not loading: what the device holds is what it holds without.
    await played({ [URL_OF_TINY]: tiny }, [], async () => {
      const [planned, stored] = [await answers({ model: URL_OF_TINY }), await answers({ model: new Blob([tiny]) })];
      equal(planned.info.deviceBytes, stored.info.deviceBytes, "bytes on the device");
    });
  },

  "a download that is cut, reset or refused for a while is taken up again": () =>
    played({ [URL_OF_TINY]: tiny }, [cutAt(CUT), status(503), reset, status(429), cutAt(CUT)], async (asked) => {
      // Four failures in a row are one too many, but what came is kept: only a worker can go on with it, see visits.mjs.
      const early = await failure(fetched({ model: URL_OF_TINY }), "failures");
      equal([early.code, early.message.includes("429")], ["network", true], early.message);
      equal(asked, [HEADER, "all", ...Array(3).fill(`bytes=${CUT}-`)], "requests");
      asked.length = 0;
      await fetched({ model: URL_OF_TINY });
      equal(asked, [HEADER, "all", `bytes=${CUT}-`], "requests");
    }),

  "an answer that ends early, with no length said, is taken up again": () =>
    played({ [URL_OF_TINY]: tiny }, [(bytes) => answer(bytes.slice(0, CUT), undefined, undefined, { headers: { "content-length": undefined } })],
      async (asked) => {
        await fetched({ model: URL_OF_TINY });
        equal(asked, [HEADER, "all", `bytes=${CUT}-`], "requests");
      }),

  "what will not pass is not tried again, and an abort ends the trying": () =>
    played({ [URL_OF_TINY]: tiny }, [status(403), status(404), status(503), status(503)], async (asked) => {
      for (const code of ["network", "model_not_found"]) {
        asked.length = 0;
        equal((await failure(fetched({ model: URL_OF_TINY }), code)).code, code, code);
        equal(asked, [HEADER, "all"], "requests");
      }
      asked.length = 0;
      const controller = new AbortController();
      const { fetch } = globalThis;
      globalThis.fetch = async (...args) => {
        const response = await fetch(...args);
        if (response.status === 503) controller.abort(new Error("mine"));
        return response;
      };
      equal((await failure(createEngine({ model: URL_OF_TINY, worker: false, signal: controller.signal }), "aborted")).message, "mine", "reason");
      equal(asked, [HEADER, "all"], "requests");
    }),

  "a download goes on only with the file that it began": async () => {
    const other = tiny.map((byte, i) => (i < 2000 ? byte : byte ^ 1));
    const whole = "all";
    const rest = `bytes=${CUT}-`;
    const headers = (more) => (bytes, from) => answer(bytes, from, undefined, { headers: more });
    for (const [what, begin, next, asked] of [
      ["the rest", {}, undefined, [whole, rest]],
      ["no Accept-Ranges", {}, headers({ "accept-ranges": undefined }), [whole, rest]],
      ["all of it", {}, (bytes) => answer(bytes), [whole, rest]],
      ["another beginning", {}, (bytes) => answer(bytes, CUT - 1000), [whole, rest, whole]],
      ["nothing at all", {}, () => new Response("", { status: 416, headers: { "content-range": `bytes */${tiny.length}` } }), [whole, rest, whole]],
      ["another ETag", {}, (bytes, from) => answer(other, from, undefined, { headers: { etag: '"2"' } }), [whole, rest, whole]],
      ["a weak ETag", { etag: 'W/"1"' }, headers({ etag: 'W/"1"' }), [whole, rest, whole]],
      ["no ETag, a size", { etag: undefined }, headers({ etag: undefined }), [whole, rest]],
      ["no ETag, another size", { etag: undefined }, (bytes, from) => answer(new Uint8Array([...other, 0]), from, undefined, { headers: { etag: undefined } }), [whole, rest, whole]],
      ["nothing to know it by", { etag: undefined }, headers({ etag: undefined, "content-range": undefined }), [whole, rest, whole]],
      ["an ETag, a hidden Content-Range", {}, headers({ "content-range": undefined }), [whole, rest]],
    ]) {
      const first = (bytes, from) => answer(bytes, from, undefined, { headers: begin, body: (part) => cut(part, CUT) });
      await played({ [URL_OF_TINY]: tiny }, [first, next], async (requests) => {
        await fetched({ model: URL_OF_TINY });
        equal(requests, [HEADER, ...asked], `${what}: requests`);
        const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken");
        for await (const [name, handle] of folder.entries()) {
          if (name.endsWith(".gguf")) equal(await sha256Of(await (await handle.getFile()).arrayBuffer()), await sha256Of(tiny), `${what}: the file`);
        }
      });
    }
    // A known hash lets it go on without those headers, and finds what was wrong all the same.
    const sha256 = await sha256Of(tiny);
    const hidden = headers({ etag: undefined, "content-range": undefined });
    const shifted = (bytes, from) => answer(bytes, from - 64, undefined, { headers: { etag: undefined, "content-range": undefined } });
    await played({ [URL_OF_TINY]: tiny }, [cutAt(CUT), hidden, cutAt(CUT), (bytes, from) => shifted(other, from + 64), cutAt(CUT), shifted], async (requests) => {
      equal((await fetched({ model: { url: URL_OF_TINY, sha256 } }))[0].sha256, sha256, "the hash of what is stored");
      equal(requests, [HEADER, whole, rest], "requests");
      for (const what of ["other bytes", "shifted bytes"]) {
        await clearCache();
        const error = await failure(fetched({ model: { url: URL_OF_TINY, sha256 } }), what);
        equal(error.code, "integrity", `${what}: code of: ${error.message}`);
        equal(await kept(), [], `${what}: kept`);
      }
    });
  },

  "a compressed answer is not held against its length": () =>
    played({ [URL_OF_TINY]: tiny }, Array(2).fill((bytes) => answer(bytes, undefined, undefined, {
      headers: { "content-length": "1234", "content-encoding": "gzip" },
    })), async () => {
      for (const cache of ["opfs", "none"]) await fetched({ model: URL_OF_TINY, cache });
    }),

  "a file that changes while it is read in parts is refused": async () => {
    // Larger than what is read ahead.
    const large = build({ entries: model.entries, tensors: [...model.tensors, { name: "v.unused", dims: [1 << 20], type: 0, data: new Uint8Array(4 << 20) }].reverse() });
    for (const headers of [{ etag: '"2"' }, { "content-range": `bytes 7-9/${large.length}` }]) {
      let asked = 0;
      const file = (init) => {
        const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init.headers).get("range"));
        return answer(large, Number(from), Math.min(Number(to), large.length - 1), { headers: asked++ > 0 ? headers : {} });
      };
      await played({ [URL_OF_TINY]: file }, [], async () => {
        const error = await failure(answers({ model: URL_OF_TINY, cache: "none" }), "a changed file");
        equal(error.code, "integrity", `code of: ${error.message}`);
      });
    }
  },

  "the hub's listing tells the hash": async () => {
    const base = "https://huggingface.co/someone/some-model";
    const listing = base.replace(".co/", ".co/api/models/") + "/paths-info/main";
    const sha256 = await sha256Of(tiny);
    const url = `${base}/resolve/main/a%20folder/tiny.gguf`;
    const list = (entry) => async ({ method, body, headers }) => {
      equal([method, String(body), headers.authorization], ["POST", "paths=a+folder%2Ftiny.gguf", "Bearer mine"], "the listing's request");
      return Response.json([{ type: "file", path: "a folder/tiny.gguf", oid: "1", size: tiny.length, ...entry }]);
    };
    const remote = { url: `${url}?download=true`, headers: { authorization: "Bearer mine" } };
    const files = { [remote.url]: tiny };
    for (const [what, listed, expected] of [
      ["a listed hash", list({ lfs: { oid: sha256, size: tiny.length } }), sha256],
      ["no such hash", list({}), undefined],
      ["a hash that is none", list({ lfs: { oid: "../../x" } }), undefined],
      ["no listing", status(500), undefined],
      ["an unreachable listing", reset, undefined],
      ["a listing that is none", async () => new Response("<html>"), undefined],
    ]) {
      await played({ ...files, [listing]: listed }, [], async (asked) => {
        equal((await fetched({ model: remote }))[0].sha256, expected, what);
        // From the cache, and without asking anyone.
        asked.length = 0;
        equal((await fetched({ model: remote }))[0].sha256, expected, `${what}, again`);
        equal(asked, [], "requests");
      });
    }
    await played({ ...files, [listing]: list({ lfs: { oid: "0".repeat(64) } }) }, [], async () => {
      const error = await failure(fetched({ model: remote }), "another hash");
      equal([error.code, await kept()], ["integrity", []], error.message);
      // The caller's word goes before the hub's.
      equal((await fetched({ model: { ...remote, sha256 } }))[0].sha256, sha256, "a hash that was given");
    });
    const parted = Object.fromEntries(Object.entries(splitFiles("/resolve/main/m")).map(([path, bytes]) => [base + path, bytes]));
    const hashes = await Promise.all(parts.map(sha256Of));
    const listed = async ({ body }) => Response.json(body.getAll("paths").map((path, i) => ({ path, lfs: { oid: hashes[i] } })).reverse());
    await played({ ...parted, [listing]: listed }, [], async () => {
      const stored = await fetched({ model: `${base}${partUrl(1, "/resolve/main/m")}` });
      equal(stored.map(({ sha256 }) => sha256).sort(), hashes.sort(), "a split model");
    });
  },

  "the hub's listings tell the hashes of files of several repositories, and git's of small ones": async () => {
    const base = "https://huggingface.co";
    const gitBlob = async (bytes) => {
      const hash = await crypto.subtle.digest("SHA-1", await new Blob([`blob ${bytes.length}\0`, bytes]).arrayBuffer());
      return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    };
    // As git itself says of an empty file.
    equal(await gitBlob(new Uint8Array()), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "git's hash");
    const [first, second, third] = parts;
    const given = await sha256Of(second);
    const urls = [`${base}/a/one/resolve/main/m1.gguf`, "/played/m2.gguf", `${base}/b/two/resolve/v1/m3.gguf`];
    // One of the hub's, one from elsewhere with the caller's hash, one of another repository that is small.
    const model = [urls[0], { url: urls[1], sha256: given }, urls[2]];
    const lists = (path, entry) => async ({ body }) => {
      equal(body.getAll("paths"), [path], "the listing's request");
      return Response.json([{ path, size: 1, ...entry }]);
    };
    const listed = async (oid) => ({
      [urls[0]]: first, [urls[1]]: second, [urls[2]]: third,
      [`${base}/api/models/a/one/paths-info/main`]: lists("m1.gguf", { oid: "1".repeat(40), lfs: { oid: await sha256Of(first) } }),
      [`${base}/api/models/b/two/paths-info/v1`]: lists("m3.gguf", { oid }),
    });
    await played(await listed(await gitBlob(third)), [], async () => {
      const stored = await fetched({ model });
      const hashOf = (end) => stored.find(({ url }) => url.endsWith(end)).sha256;
      equal([hashOf("m1.gguf"), hashOf("m2.gguf"), hashOf("m3.gguf")], [await sha256Of(first), given, undefined], "hashes");
    });
    await played(await listed("0".repeat(40)), [], async () => {
      const error = await failure(fetched({ model }), "another hash of git's");
      equal([error.code, (await listCached()).length], ["integrity", 2], error.message);
    });
  },
};
