/** The engine in a dedicated worker. */

import { EngineError, fromData, unloaded } from "./errors.js";
import type { Host, RouteReply } from "./host.js";
import type { LoadProgress } from "./options.js";
import type { FromWorker, Method, ToWorker } from "./rpc.js";

/** How long a worker may take to say that it runs: its script and the package's modules are fetched meanwhile. */
const START_MS = 20_000;

interface Pending {
  resolve(value: never): void;
  reject(error: unknown): void;
  onProgress?: (progress: LoadProgress) => void;
}

/** `onLost` is called if the worker ends without having been asked to, or panics. */
export function remoteHost(workerUrl: string | undefined, onLost: (error: EngineError) => void): Host {
  const worker = startWorker(workerUrl);
  const pending = new Map<number, Pending>();
  const ended = new AbortController();
  let lost: EngineError | undefined;
  let nextId = 1;

  /** Everything in flight fails, and everything after. */
  function end(error: EngineError): void {
    if (lost !== undefined) return;
    lost = error;
    ended.abort();
    clearTimeout(starting);
    worker.terminate();
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
  }

  function lose(error: EngineError): void {
    if (lost !== undefined) return;
    end(error);
    onLost(error);
  }

  // A module that a policy or a missing sibling keeps from running may fail without an event.
  const starting = setTimeout(() => {
    const message = `the engine's worker did not start within ${START_MS / 1000} s; see the options workerUrl and worker`;
    lose(new EngineError("worker_lost", message));
  }, START_MS);

  worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
    if ("ready" in data) {
      clearTimeout(starting);
      return watch(data.ready);
    }
    if ("lost" in data) return lose(fromData(data.lost));
    const call = pending.get(data.id);
    if ("progress" in data) return call?.onProgress?.(data.progress);
    pending.delete(data.id);
    if ("error" in data) call?.reject(fromData(data.error));
    else call?.resolve(data.value as never);
  });
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    const said = event.message ? `: ${event.message}` : ": its script cannot be loaded; see the options workerUrl and worker";
    lose(new EngineError("worker_lost", `the engine's worker failed${said}`));
  });
  worker.addEventListener("messageerror", () => {
    lose(new EngineError("worker_lost", "a message of the engine's worker cannot be read"));
  });

  /** The lock becomes free when the worker is gone, however it went. */
  function watch(lock: string): void {
    const gone = () => lose(new EngineError("worker_lost", "the browser ended the engine's worker"));
    navigator.locks.request(lock, { signal: ended.signal }, gone).catch(() => {});
  }

  function call<T>(method: Method, args: unknown[], signal?: AbortSignal, onProgress?: (progress: LoadProgress) => void): Promise<T> {
    if (lost !== undefined) return Promise.reject(lost);
    const id = nextId++;
    const send = (message: ToWorker) => worker.postMessage(message);
    const abort = () => send({ abort: id });
    return new Promise<T>((resolve, reject) => {
      pending.set(id, onProgress === undefined ? { resolve, reject } : { resolve, reject, onProgress });
      send({ id, call: method, args });
      if (signal?.aborted) abort();
      signal?.addEventListener("abort", abort, { once: true });
    }).finally(() => signal?.removeEventListener("abort", abort));
  }

  return {
    load: (config, onProgress, signal) => call("load", [config], signal, onProgress),
    request: (request, signal) => call<RouteReply>("request", [request], signal),
    next: (stream) => call("next", [stream]),
    close: (stream) => call("close", [stream]),
    tokenize: (text) => call("tokenize", [text]),
    detokenize: (tokens) => call("detokenize", [tokens]),
    metrics: () => call("metrics", []),
    passTimes: () => call("passTimes", []),
    info: () => call("info", []),
    // The worker's end gives back everything, whatever it is at.
    unload: async (why = unloaded()) => end(why),
  };
}

/**
 * A module worker. A browser starts one from the page's own origin only; where the package comes from another, a module of one line,
 * made here, imports the worker from there.
 */
function startWorker(workerUrl: string | undefined): Worker {
  // A bundler may have put a source file's path there: it has seen to what follows as well.
  const here = new URL(import.meta.url);
  if (workerUrl === undefined && (here.protocol === "file:" || here.origin === location.origin)) {
    // Written out, so that bundlers see it.
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "foretoken" });
  }
  const url = new URL(workerUrl ?? "./worker.js", here);
  if (url.origin === location.origin) return new Worker(url, { type: "module", name: "foretoken" });
  const shim = URL.createObjectURL(new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" }));
  const worker = new Worker(shim, { type: "module", name: "foretoken" });
  worker.addEventListener("message", () => URL.revokeObjectURL(shim), { once: true });
  return worker;
}
