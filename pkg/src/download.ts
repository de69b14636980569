/** Fetching a model file into the cache: resumed where it was cut, hashed as it streams, whole or not there. */

import type { Sha256 } from "../wasm/foretoken.js";
import { Cache, type Entry, keyOf } from "./cache.js";
import { EngineError } from "./errors.js";
import { openPartial, type PartialFile } from "./partial.js";
import { Beginning, refuseHtml } from "./refuse.js";
import { lengthOf, received, request, totalOf } from "./sources.js";

/** What to fetch. */
export interface Wanted {
  url: string;
  name: string;
  /** The SHA-256 it must have, where that is known. */
  sha256: string | undefined;
  headers: Record<string, string>;
}

/** Who wants to know, who may end it, and who hashes. */
export interface Downloading {
  onProgress(phase: "download" | "verify", loaded: number, total: number): void;
  signal: AbortSignal;
  newHash(): Sha256;
}

export interface Downloaded {
  file: File;
  /** Whether its SHA-256 was known and is right. */
  verified: boolean;
}

/** Removes the file from the cache. */
export async function discard(cache: Cache, { url }: Wanted): Promise<void> {
  await cache.remove(await keyOf(url));
}

/** The file from the cache, if it is there and is the one that is wanted. */
export async function cached(cache: Cache, wanted: Wanted, doing: Downloading): Promise<Downloaded | undefined> {
  const key = await keyOf(wanted.url);
  const file = await cache.file(key);
  if (file === undefined) return undefined;
  const entry = await cache.entry(key);
  if (wanted.sha256 === undefined) return { file, verified: entry?.sha256 !== undefined };
  if (entry?.sha256 === undefined) {
    const sha256 = await hashOf(file, doing);
    if (sha256 === wanted.sha256) {
      // It saves the next load from hashing; this one does without.
      await cache.writeEntry(key, { url: wanted.url, name: wanted.name, ...entry, sha256 }).catch(() => {});
      return { file, verified: true };
    }
  } else if (entry.sha256 === wanted.sha256) {
    return { file, verified: true };
  }
  await cache.remove(key);
  return undefined;
}

/**
 * Downloads into the cache. A lock is held meanwhile, and no longer: another tab that wants the file waits, then finds it.
 * What is cut stays for the next time; what is wrong does not stay.
 */
export async function download(cache: Cache, wanted: Wanted, doing: Downloading): Promise<Downloaded> {
  const key = await keyOf(wanted.url);
  return navigator.locks.request(`foretoken:${key}`, { signal: doing.signal }, async () => {
    const found = await cached(cache, wanted, doing);
    if (found !== undefined) return found;
    try {
      await fill(cache, key, wanted, doing);
      await cache.commit(key);
    } catch (thrown) {
      const error = asOurs(thrown, wanted, doing.signal);
      const keep = error instanceof EngineError ? error.code === "network" : doing.signal.aborted;
      if (!keep) await cache.remove(key);
      throw error;
    }
    const file = await cache.file(key);
    if (file === undefined) throw new EngineError("internal", `${wanted.url}: the cached file is gone`);
    return { file, verified: wanted.sha256 !== undefined };
  });
}

/** Downloads into the partial file, and closes it: what cannot be put on the disk is not there. */
async function fill(cache: Cache, key: string, wanted: Wanted, doing: Downloading): Promise<void> {
  const partial = await openPartial(await cache.partial(key));
  try {
    await stream(cache, key, partial, wanted, doing);
  } catch (error) {
    await partial.close().catch(() => {});
    throw error;
  }
  await partial.close();
}

/** Fetches, hashes and stores what is missing; throws unless the file is whole and right. */
async function stream(cache: Cache, key: string, partial: PartialFile, wanted: Wanted, doing: Downloading): Promise<void> {
  const { url, headers } = wanted;
  const { signal } = doing;
  let at = partial.stored;
  const before = await cache.entry(key);
  let response = await request(url, { headers: at > 0 ? { ...headers, Range: `bytes=${at}-` } : headers, signal });
  if (at > 0 && !continues(response, at, wanted, before)) {
    if (response.status !== 200) {
      await response.body?.cancel();
      response = await request(url, { headers, signal });
    }
    at = 0;
    await partial.restart();
  }
  const total = at > 0 ? totalOf(response) ?? before?.total : lengthOf(response);
  refuseHtml(response, url);
  await refuseFull(total === undefined ? 0 : total - at, url);
  const etag = response.headers.get("ETag");
  const entry: Entry = { url, name: wanted.name };
  if (total !== undefined) entry.total = total;
  if (etag !== null) entry.etag = etag;
  await cache.writeEntry(key, entry);

  const hash = doing.newHash();
  const beginning = new Beginning(url);
  try {
    for (let read = 0; read < at; ) {
      const bytes = partial.read(read, Math.min(at - read, 4 << 20));
      beginning.push(bytes);
      hash.update(bytes);
      read += bytes.length;
      doing.onProgress("verify", read, at);
      signal.throwIfAborted();
    }
    const reader = response.body!.getReader();
    for (;;) {
      const { done, value } = await received(reader.read(), url, signal);
      if (done) break;
      beginning.push(value);
      hash.update(value);
      await partial.append(value);
      at += value.length;
      doing.onProgress("download", at, total ?? 0);
    }
    if (total !== undefined && at < total) {
      throw new EngineError("network", `${url}: the connection ended after ${at} of ${total} bytes; loading again resumes there`);
    }
    if (total !== undefined && at > total) {
      throw new EngineError("integrity", `${url}: ${at} bytes came where ${total} were announced; nothing was kept`);
    }
    beginning.end();
    const sha256 = hash.hex();
    if (wanted.sha256 !== undefined && sha256 !== wanted.sha256) {
      throw new EngineError("integrity", `${url}: its SHA-256 is ${sha256}, not ${wanted.sha256}; nothing was kept`);
    }
    if (wanted.sha256 !== undefined) await cache.writeEntry(key, { ...entry, sha256 });
  } finally {
    hash.free();
  }
}

/** Whether a response goes on, from byte `at`, with the file that was begun. */
function continues(response: Response, at: number, wanted: Wanted, before: Entry | undefined): boolean {
  if (response.status !== 206) return false;
  const range = response.headers.get("Content-Range");
  if (range !== null && !range.startsWith(`bytes ${at}-`)) return false;
  if (wanted.sha256 !== undefined) return true;
  const etag = response.headers.get("ETag");
  if (etag !== null && before?.etag !== undefined) return etag === before.etag;
  const total = totalOf(response);
  return total !== undefined && total === before?.total;
}

async function refuseFull(needed: number, url: string): Promise<void> {
  const { quota, usage } = await navigator.storage.estimate();
  if (quota === undefined || usage === undefined || needed <= quota - usage) return;
  const message = `${url}: ${needed} bytes are needed and the browser has room for ${quota - usage}: free space, or pass cache: "none"`;
  throw new EngineError("quota_exceeded", message);
}

/** What the browser's storage throws, as an EngineError. */
function asOurs(error: unknown, wanted: Wanted, signal: AbortSignal): unknown {
  if (error instanceof EngineError) return error;
  if (signal.aborted) return signal.reason;
  if (error instanceof DOMException) {
    const isFull = error.name === "QuotaExceededError";
    const why = isFull ? "the browser's storage is full: free space" : `the browser cannot store it (${error.message}): clear its storage`;
    return new EngineError(isFull ? "quota_exceeded" : "internal", `${wanted.url}: ${why}, or pass cache: "none"`, { cause: error });
  }
  return error;
}

async function hashOf(file: File, doing: Downloading): Promise<string> {
  const hash = doing.newHash();
  try {
    for (let at = 0; at < file.size; ) {
      const bytes = new Uint8Array(await file.slice(at, at + (4 << 20)).arrayBuffer());
      hash.update(bytes);
      at += bytes.length;
      doing.onProgress("verify", at, file.size);
      doing.signal.throwIfAborted();
    }
    return hash.hex();
  } finally {
    hash.free();
  }
}
