/** Fetching a model file into the cache: resumed where it was cut, hashed as it streams, whole or not there. */

import type { Sha256 } from "../wasm/foretoken.js";
import { Cache, type Entry, keyOf, lockOf } from "./cache.js";
import { EngineError } from "./errors.js";
import { isGitBlob } from "./hub.js";
import { openPartial, type PartialFile } from "./partial.js";
import { Incoming, refuseHtml } from "./refuse.js";
import { Interrupted, retrying } from "./retry.js";
import { lengthOf, received, request, startsAt, totalOf } from "./sources.js";

/** What to fetch. */
export interface Wanted {
  url: string;
  name: string;
  /** The SHA-256 it must have, where that is known. */
  sha256: string | undefined;
  /** The hash that git has of it, where that alone is known. */
  gitBlob?: string | undefined;
  headers: Record<string, string>;
  /** Whether it is a GGUF file, which shows at once. */
  isGguf: boolean;
  /** Its bytes, where a range of it told. */
  size?: number | undefined;
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

/** The file from the cache, if it is there and is the one that is wanted. */
export async function cached(cache: Cache, wanted: Wanted, doing: Downloading): Promise<Downloaded | undefined> {
  const key = await keyOf(wanted.url);
  const file = await cache.file(key);
  if (file === undefined) return undefined;
  const entry = await cache.entry(key);
  let known = entry?.sha256;
  if (wanted.sha256 && !known) {
    known = await hashOf(file, doing);
    // It saves the next load from hashing; this one does without.
    if (known === wanted.sha256) await cache.writeEntry(key, { url: wanted.url, name: wanted.name, ...entry, sha256: known }).catch(() => {});
  }
  if (!wanted.sha256 || known === wanted.sha256) return { file, verified: known !== undefined };
  await cache.remove(key);
  return undefined;
}

/**
 * Downloads into the cache. A lock is held meanwhile, and no longer: another tab that wants the file waits, then finds it.
 * What is cut stays for the next time; what is wrong does not stay.
 */
export async function download(cache: Cache, wanted: Wanted, doing: Downloading): Promise<Downloaded> {
  const key = await keyOf(wanted.url);
  return navigator.locks.request(lockOf(key), { signal: doing.signal }, async () => {
    const found = await cached(cache, wanted, doing);
    if (found !== undefined) return found;
    const { url, sha256, gitBlob } = wanted;
    try {
      await fill(cache, key, wanted, doing);
      await cache.commit(key);
      if (!sha256 && gitBlob && !(await isGitBlob((await cache.file(key))!, gitBlob))) {
        throw new EngineError("integrity", `${url}: its hash in git is not ${gitBlob}; nothing was kept`);
      }
    } catch (thrown) {
      const error = doing.signal.aborted ? doing.signal.reason : await asOurs(thrown, wanted, () => cache.partialSize(key));
      const keep = error instanceof EngineError ? error.code === "network" : doing.signal.aborted;
      if (!keep) await cache.remove(key);
      throw error;
    }
    return { file: (await cache.file(key))!, verified: (sha256 ?? gitBlob) !== undefined };
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

/** Fetches, hashes and stores what is missing, in several goes where the connection is cut; throws unless the file is whole and right. */
async function stream(cache: Cache, key: string, partial: PartialFile, wanted: Wanted, doing: Downloading): Promise<void> {
  const { url, headers, sha256, isGguf } = wanted;
  const { signal } = doing;
  let entry = await cache.entry(key);
  const begin = () => new Incoming(url, doing.newHash(), isGguf);
  /** What is stored and hashed. */
  let incoming = begin();
  const restart = async () => {
    await partial.restart();
    incoming.free();
    incoming = begin();
  };
  const go = async () => {
    const { length: at } = incoming;
    let response = await request(url, { headers: at > 0 ? { ...headers, Range: `bytes=${at}-` } : headers, signal });
    const resumed = at > 0 && continues(response, at, wanted, entry);
    if (at > 0 && !resumed) {
      if (response.status !== 200) {
        await response.body?.cancel();
        response = await request(url, { headers, signal });
      }
      await restart();
    }
    refuseHtml(response, url);
    const length = lengthOf(response);
    // What a range told; else what this answer tells, if that is the length of what the page sees.
    const total = wanted.size ?? (resumed ? totalOf(response) ?? entry?.total : response.type === "cors" ? undefined : length);
    const shown = total ?? length ?? 0;
    await refuseFull(shown - incoming.length, url);
    entry = { url, name: wanted.name, total, etag: response.headers.get("ETag") ?? undefined };
    await cache.writeEntry(key, entry);

    const reader = response.body!.getReader();
    for (;;) {
      const { done, value } = await received(reader.read(), url, signal);
      if (done) break;
      // Stored first: what is hashed can be gone on from.
      await partial.append(value);
      incoming.push(value);
      doing.onProgress("download", incoming.length, shown);
    }
    const came = incoming.length;
    if (total === undefined || came === total) return;
    if (came < total) throw new Interrupted(`${url}: the connection ended after ${came} of ${total} bytes; load again to go on`);
    throw new EngineError("integrity", `${url}: ${came} bytes came of ${total}; nothing was kept`);
  };
  try {
    const { stored } = partial;
    if (stored > 0 && !(sha256 ?? entry?.etag ?? entry?.total)) await partial.restart();
    else {
      for (let at = 0; at < stored; at = incoming.length) {
        incoming.push(partial.read(at, Math.min(stored - at, 4 << 20)));
        doing.onProgress("verify", incoming.length, stored);
        signal.throwIfAborted();
      }
    }
    await retrying(signal, go, () => incoming.length);
    incoming.end(sha256);
    if (sha256 !== undefined) await cache.writeEntry(key, { ...entry!, sha256 });
  } finally {
    incoming.free();
  }
}

/** Whether a response goes on, from byte `at`, with the file that was begun. */
function continues(response: Response, at: number, wanted: Wanted, before: Entry | undefined): boolean {
  if (response.status !== 206 || !startsAt(response, at)) return false;
  if (wanted.sha256 !== undefined) return true;
  const etag = response.headers.get("ETag");
  // A weak one does not speak of bytes.
  if (etag && before?.etag) return etag === before.etag && !etag.startsWith("W/");
  const total = totalOf(response);
  return total ? total === before?.total : false;
}

/** Fails where the browser has no room for `needed` bytes more, as far as it tells. */
export async function refuseFull(needed: number, what: string): Promise<void> {
  const { quota = NaN, usage = NaN } = await navigator.storage.estimate();
  if (needed > quota - usage) throw full(what, needed, quota - usage);
}

function full(what: string, needed: number | undefined, room: number, cause?: unknown): EngineError {
  const message = `${what}: ${needed ?? "more"} bytes are needed and the browser has room for ${room}: free space, or pass cache: "none"`;
  return new EngineError("quota_exceeded", message, { cause });
}

/** What the browser's storage throws, as an EngineError. */
async function asOurs(error: unknown, { url, size }: Wanted, stored: () => Promise<number>): Promise<unknown> {
  if (!(error instanceof DOMException)) return error;
  // Browsers do not always tell their quota: what there is room for is what was stored.
  if (error.name === "QuotaExceededError") return full(url, size, await stored(), error);
  return new EngineError("internal", `${url}: the browser cannot store it (${error.message}): clear its storage, or pass cache: "none"`, { cause: error });
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
