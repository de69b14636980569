/** The engine in this thread: the one file that calls wasm. */

import init, { Cancel, check, Device, type Engine, onPanic, type Reply, Sha256 } from "../wasm/foretoken.js";
import { Cache } from "./cache.js";
import { cached, download, type Downloading } from "./download.js";
import { EngineError, toError } from "./errors.js";
import type { Host, RouteReply, RouteRequest } from "./host.js";
import type { FileConfig, LoadConfig, LoadProgress } from "./options.js";
import { BlobRanges, type ByteRanges, HttpRanges, Remembering, request } from "./sources.js";
import type { EngineInfo, EngineMetrics } from "./types.js";

/** All engines of a thread share one instance. */
let instance: Promise<WebAssembly.Memory> | undefined;
/** Set when the instance is lost. */
let panicked: EngineError | undefined;
const panicWatchers = new Set<(error: EngineError) => void>();

function start(wasmUrl: string | undefined): Promise<WebAssembly.Memory> {
  instance ??= (async () => {
    try {
      const { memory } = await init(wasmUrl === undefined ? undefined : { module_or_path: wasmUrl });
      onPanic((message: string) => {
        panicked = new EngineError("internal", message);
        for (const watcher of panicWatchers) watcher(panicked);
      });
      return memory;
    } catch (cause) {
      instance = undefined;
      throw new EngineError("network", `the engine's wasm module cannot be loaded: ${String(cause)}`, { cause });
    }
  })();
  return instance;
}

interface Stream {
  reply: Reply;
  cancel: Cancel;
  /** The event that is waited for. */
  pending: Promise<string | undefined> | undefined;
}

/** `onLost` is called if the instance panics: what was pending then never settles. */
export function localHost(onLost: (error: EngineError) => void): Host {
  let engine: Engine | undefined;
  let memory: WebAssembly.Memory;
  let verified = false;
  let nextStream = 1;
  const streams = new Map<number, Stream>();
  /** Requests without a reply yet, and what ends them. */
  const working = new Map<Promise<unknown>, Cancel>();
  panicWatchers.add(onLost);

  function loaded(): Engine {
    if (panicked !== undefined) throw panicked;
    if (engine === undefined) throw new EngineError("disposed", "the engine was unloaded");
    return engine;
  }

  /** In the order that fails earliest: the device, the file's header, its bytes. */
  async function load(config: LoadConfig, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<void> {
    if (panicked !== undefined) throw panicked;
    if (!("gpu" in navigator)) {
      const why = globalThis.isSecureContext ? "this browser has no WebGPU" : "WebGPU needs a secure page: https, or localhost";
      throw new EngineError("webgpu_unavailable", `${why}; Chrome, Edge, Safari 26 and Firefox 141 have it`);
    }
    memory = await start(config.wasmUrl);
    const device = await Device.open(config.tier);
    const report = (phase: LoadProgress["phase"], loaded: number, total: number) =>
      onProgress({ phase, loaded, total, file: config.file.name });
    const opened = await open(config.file, config.cache, report, signal).catch((error: unknown) => {
      device.free();
      throw error;
    });
    const source = new Remembering(abortable(opened.ranges, signal));
    try {
      engine = await device.load(source, JSON.stringify(config.engine), report);
    } catch (error) {
      throw source.failure ?? error;
    }
    verified = opened.isVerified;
  }

  async function requestRoute({ method, path, body }: RouteRequest, signal: AbortSignal): Promise<RouteReply> {
    const cancel = new Cancel();
    const abort = () => cancel.cancel();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const replying = loaded().request(method, path, body, cancel);
    working.set(replying, cancel);
    const reply = await replying;
    working.delete(replying);
    signal.removeEventListener("abort", abort);
    const { status, contentType, allow, body: whole } = reply;
    const answer: RouteReply = { status, contentType, allow, body: whole, stream: undefined };
    const stream: Stream = { reply, cancel, pending: undefined };
    if (whole === undefined && !signal.aborted) {
      answer.stream = nextStream++;
      streams.set(answer.stream, stream);
    } else {
      free(stream);
    }
    return answer;
  }

  async function next(id: number): Promise<string | undefined> {
    const stream = streams.get(id);
    if (stream === undefined) return undefined;
    // One at a time, whatever the caller does.
    await stream.pending;
    stream.pending = stream.reply.next();
    const event = await stream.pending;
    stream.pending = undefined;
    if (event === undefined && streams.delete(id)) free(stream);
    return event;
  }

  async function close(id: number): Promise<void> {
    const stream = streams.get(id);
    if (stream === undefined) return;
    streams.delete(id);
    stream.cancel.cancel();
    // What is at work ends before its next pass; then nothing uses the reply any more.
    await (stream.pending ?? stream.reply.next());
    free(stream);
  }

  function free({ reply, cancel }: Stream): void {
    reply.free();
    cancel.free();
  }

  async function unload(): Promise<void> {
    panicWatchers.delete(onLost);
    if (panicked !== undefined) return;
    for (const cancel of working.values()) cancel.cancel();
    await Promise.allSettled(working.keys());
    await Promise.all([...streams.keys()].map(close));
    engine?.free();
    engine = undefined;
  }

  return {
    load,
    request: requestRoute,
    next,
    close,
    unload,
    tokenize: async (text) => Array.from(loaded().tokenize(text)),
    detokenize: async (tokens) => loaded().detokenize(Uint32Array.from(tokens)),
    metrics: async () => loaded().metrics() as EngineMetrics,
    info: async () => ({
      ...(loaded().info() as Omit<EngineInfo, "integrity" | "wasmBytes">),
      integrity: verified ? "verified" : "unverified",
      wasmBytes: memory.buffer.byteLength,
    }),
  };
}

/** Opens a model file for reading, fetching it where it must be fetched. */
async function open(
  file: FileConfig, where: "opfs" | "none", onProgress: Downloading["onProgress"], signal: AbortSignal,
): Promise<{ ranges: ByteRanges; isVerified: boolean }> {
  if (file.kind === "blob") return { ranges: new BlobRanges(file.name, file.blob), isVerified: false };
  if (file.kind === "handle") return { ranges: new BlobRanges(file.name, await file.handle.getFile()), isVerified: false };
  const doing: Downloading = { onProgress, signal, newHash: () => new Sha256() };
  const cache = where === "opfs" ? await Cache.open() : undefined;
  if (cache !== undefined) {
    const found = await cached(cache, file, doing);
    if (found !== undefined) return { ranges: new BlobRanges(file.name, found.file), isVerified: found.verified };
  }
  const remote = await HttpRanges.open(file.url, file.name, file.headers, signal);
  if (remote !== undefined) await checkHeader(remote);
  if (cache !== undefined) {
    const { file: stored, verified } = await download(cache, file, doing);
    return { ranges: new BlobRanges(file.name, stored), isVerified: verified };
  }
  if (remote !== undefined && file.sha256 === undefined) return { ranges: remote, isVerified: false };
  return { ranges: new BlobRanges(file.name, await whole(file.url, file.headers, file.sha256, doing)), isVerified: file.sha256 !== undefined };
}

/** Refuses a file that this build cannot load before its bytes are fetched. */
async function checkHeader(remote: HttpRanges): Promise<void> {
  const source = new Remembering(remote);
  try {
    await check(source);
  } catch (error) {
    throw source.failure ?? toError(error);
  }
}

/** All of a file, where it can be neither cached nor read in parts. */
async function whole(url: string, headers: Record<string, string>, sha256: string | undefined, doing: Downloading): Promise<Blob> {
  const response = await request(url, { headers, signal: doing.signal });
  const total = Number(response.headers.get("Content-Length") ?? 0);
  const hash = doing.newHash();
  let loaded = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      hash.update(chunk);
      loaded += chunk.length;
      doing.onProgress("download", loaded, total);
      controller.enqueue(chunk);
    },
  });
  const blob = await new Response(response.body!.pipeThrough(counted)).blob();
  const found = hash.hex();
  hash.free();
  if (sha256 !== undefined && found !== sha256) {
    throw new EngineError("integrity", `${url}: its SHA-256 is ${found}, not ${sha256}`);
  }
  return blob;
}

/** The same file, whose reads an abort ends: a load has no other place to stop at. */
function abortable(file: ByteRanges, signal: AbortSignal): ByteRanges {
  return {
    name: file.name,
    size: file.size,
    read(offset, length) {
      signal.throwIfAborted();
      return file.read(offset, length);
    },
  };
}
