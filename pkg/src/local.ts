/** The engine in this thread. */

import init, { type ByteRanges, Cancel, Device, type Engine, memoryBytes, onPanic, type Reply } from "../wasm/foretoken.js";
import { adapterName } from "./adapter.js";
import { EngineError, toError, unloaded } from "./errors.js";
import type { Host, RouteReply, RouteRequest } from "./host.js";
import { open, type Opened } from "./open.js";
import type { LoadConfig, LoadProgress } from "./options.js";
import type { EngineInfo, EngineMetrics } from "./types.js";

/** All engines of a thread share one instance. */
let instance: Promise<void> | undefined;
/** Set when the instance is lost. */
let panicked: EngineError | undefined;
const panicWatchers = new Set<(error: EngineError) => void>();

export function start(wasmUrl: string | undefined): Promise<void> {
  instance ??= (async () => {
    try {
      await init(wasmUrl === undefined ? undefined : { module_or_path: wasmUrl });
      onPanic((message: string) => {
        panicked = new EngineError("internal", message);
        for (const watcher of panicWatchers) watcher(panicked);
      });
    } catch (cause) {
      instance = undefined;
      throw new EngineError("network", `the engine's wasm module cannot be loaded (see the option wasmUrl): ${String(cause)}`, { cause });
    }
  })();
  return instance;
}

/** A call of wasm outside any host; after a panic it rejects, where it would never settle. */
export function guardPanic<T>(call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    if (panicked !== undefined) return reject(panicked);
    panicWatchers.add(reject);
    call.then(resolve, reject).finally(() => panicWatchers.delete(reject));
  });
}

/** A pause that is worth using: a request that comes while it is used waits for the pass under way. */
const PAUSE_MS = 500;

/** The part of a `GPUDevice` that is used here. */
interface Gpu {
  destroy(): void;
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
  /** The browser's device: whoever holds it can end what waits for it, whatever state wasm is in. */
  let gpu: Gpu | undefined;
  let verified = false;
  let nextStream = 1;
  /** Set when everything was given back, or is about to be. */
  let ended: EngineError | undefined;
  const streams = new Map<number, Stream>();
  /** Requests without a reply yet, and what ends them. */
  const working = new Map<Promise<unknown>, Cancel>();
  /** Rejects the calls that are pending. */
  const pending = new Set<(error: EngineError) => void>();
  panicWatchers.add(lose);

  function lose(error: EngineError): void {
    gpu?.destroy();
    for (const reject of pending) reject(error);
    onLost(error);
  }

  /** A call of wasm; after a panic it rejects, where it would never settle. */
  function guarded<T>(call: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      pending.add(reject);
      call.then(resolve, reject).finally(() => pending.delete(reject));
    });
  }

  let pause: ReturnType<typeof setTimeout> | undefined;

  function restSoon(): void {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if (panicked === undefined) engine?.rest();
    }, PAUSE_MS);
  }

  function loaded(): Engine {
    if (panicked !== undefined) throw panicked;
    if (ended !== undefined || engine === undefined) throw ended ?? unloaded();
    return engine;
  }

  /** In the order that fails earliest: the device, the file's header, its bytes. */
  async function load(config: LoadConfig, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<void> {
    if (panicked !== undefined) throw panicked;
    const name = await adapterName();
    await start(config.wasmUrl);
    const device = await guarded(Device.open(name, config.tier, config.engine));
    gpu = device.gpu as Gpu;
    try {
      engine = await fill(device, config, onProgress, signal);
      if (ended !== undefined) {
        engine.free();
        throw ended;
      }
    } catch (error) {
      engine = undefined;
      // Its memory is given back at once.
      gpu.destroy();
      throw ended ?? error;
    }
  }

  async function fill(
    device: Device, config: LoadConfig, onProgress: (progress: LoadProgress) => void, signal: AbortSignal,
  ): Promise<Engine> {
    const report = (phase: LoadProgress["phase"], loaded: number, total: number, file = config.name) =>
      onProgress({ phase, loaded, total, file });
    const check = (header: ByteRanges, draft?: ByteRanges) => guarded(device.check(header, draft));
    const opened = await open(config, check, report, signal).catch((error: unknown) => {
      device.free();
      throw error;
    });
    const { draft, draftProblem } = opened;
    const engine = await guarded(device.load(opened.ranges, draft?.ranges, draftProblem, report)).catch(async (error: unknown) => {
      throw await blamed(opened.ranges.failure ?? error, opened);
    });
    if (signal.aborted) {
      // Of a draft model even that fails nothing in wasm.
      engine.free();
      throw signal.reason;
    }
    // What merely could not be read may be whole.
    if (engine.draftIsCorrupt && draft?.ranges.failure === undefined) await draft?.discard?.();
    verified = opened.isVerified;
    return engine;
  }

  /** A file that cannot be read and that nobody has vouched for may have come so: it is not kept. */
  async function blamed(thrown: unknown, { discard }: Opened): Promise<unknown> {
    if (discard === undefined || toError(thrown).code !== "corrupt_weights") return thrown;
    await discard();
    const { message } = toError(thrown);
    return new EngineError("integrity", `${message}; it was removed from the cache: load again to download it anew`, { cause: thrown });
  }

  async function requestRoute({ method, path, body }: RouteRequest, signal: AbortSignal): Promise<RouteReply> {
    const wasm = loaded();
    clearTimeout(pause);
    const cancel = new Cancel();
    const abort = () => cancel.cancel();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const replying = guarded(wasm.request(method, path, body, cancel));
    working.set(replying, cancel);
    let reply;
    try {
      reply = await replying;
    } finally {
      working.delete(replying);
      signal.removeEventListener("abort", abort);
    }
    const { status, contentType, allow, body: whole } = reply;
    const answer: RouteReply = { status, contentType, allow, body: whole, stream: undefined };
    const stream: Stream = { reply, cancel, pending: undefined };
    if (ended !== undefined) {
      // The reply tells of an abort that the caller did not ask for.
      free(stream);
      throw ended;
    }
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
    if (stream === undefined) return afterLast();
    // One at a time, whatever the caller does.
    await stream.pending;
    if (streams.get(id) !== stream) return afterLast();
    stream.pending = guarded(stream.reply.next());
    const event = await stream.pending;
    stream.pending = undefined;
    // It may tell of what unloading did.
    if (ended !== undefined) return afterLast();
    if (event !== undefined) return event;
    if (streams.delete(id)) free(stream);
    return afterLast();
  }

  /** What comes after the last event: nothing, or why there are no more. */
  function afterLast(): undefined {
    if (ended !== undefined) throw ended;
  }

  async function close(id: number): Promise<void> {
    const stream = streams.get(id);
    if (stream === undefined) return;
    streams.delete(id);
    stream.cancel.cancel();
    // What is at work ends before its next pass; then nothing uses the reply any more.
    await (stream.pending ?? guarded(stream.reply.next()));
    free(stream);
  }

  /** Of a request that has ended. */
  function free({ reply, cancel }: Stream): void {
    reply.free();
    cancel.free();
    restSoon();
  }

  async function unload(why = unloaded()): Promise<void> {
    if (ended !== undefined) return;
    ended = why;
    panicWatchers.delete(lose);
    clearTimeout(pause);
    if (panicked !== undefined) return;
    for (const cancel of working.values()) cancel.cancel();
    for (const { cancel } of streams.values()) cancel.cancel();
    // Gives back its memory, and ends what waits for it.
    gpu?.destroy();
    await Promise.allSettled(working.keys());
    await Promise.all([...streams.keys()].map(close));
    clearTimeout(pause);
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
    passTimes: async () =>
      guarded(loaded().passTimes() as Promise<[number, number][]>).catch((error: unknown) => {
        throw ended ?? error;
      }),
    info: async () => ({
      ...(loaded().info() as Omit<EngineInfo, "integrity" | "wasmBytes">),
      integrity: verified ? "verified" : "unverified",
      wasmBytes: memoryBytes(),
    }),
  };
}
