/** The dedicated worker: a host behind messages. */

import { toData } from "./errors.js";
import type { Host } from "./host.js";
import { localHost } from "./local.js";
import type { LoadConfig } from "./options.js";
import type { FromWorker, Method, ToWorker } from "./rpc.js";

const post = (message: FromWorker) => postMessage(message);
const host: Host = localHost((error) => post({ lost: toData(error) }));
/** Of the calls that can be aborted. */
const aborts = new Map<number, AbortController>();

addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("abort" in data) return aborts.get(data.abort)?.abort();
  const { id, call, args } = data;
  run(id, call, args).then(
    (value) => post({ id, value }),
    (error) => post({ id, error: toData(error) }),
  );
});

async function run(id: number, call: Method, args: unknown[]): Promise<unknown> {
  if (call !== "load" && call !== "request") {
    return (host[call] as (...args: unknown[]) => Promise<unknown>)(...args);
  }
  const controller = new AbortController();
  aborts.set(id, controller);
  try {
    return call === "load"
      ? await host.load(args[0] as LoadConfig, (progress) => post({ id, progress }), controller.signal)
      : await host.request(args[0] as Parameters<Host["request"]>[0], controller.signal);
  } finally {
    aborts.delete(id);
  }
}

// A worker that the browser ends says nothing, but its lock becomes free: the page waits for that.
const lock = `foretoken:worker:${crypto.randomUUID()}`;
void navigator.locks.request(lock, () => {
  post({ ready: lock });
  return new Promise(() => {});
});
