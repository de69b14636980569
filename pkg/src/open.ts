/** From what a caller names to a file that can be read. */

import { check, Sha256 } from "../wasm/foretoken.js";
import { Cache } from "./cache.js";
import { cached, discard, download, type Downloaded, type Downloading } from "./download.js";
import { EngineError, toError } from "./errors.js";
import type { FileConfig } from "./options.js";
import { Beginning, refuseHtml } from "./refuse.js";
import { BlobRanges, type ByteRanges, HttpRanges, lengthOf, received, Remembering, request } from "./sources.js";

export interface Opened {
  ranges: ByteRanges;
  /** Whether its SHA-256 was known and is right. */
  isVerified: boolean;
  /** Removes it from the cache; undefined where it is not from there, or is what it should be. */
  discard?: () => Promise<void>;
}

/** Opens a model file for reading, fetching it where it must be fetched; wasm must have been started. */
export async function open(
  file: FileConfig, where: "opfs" | "none", onProgress: Downloading["onProgress"], signal: AbortSignal,
): Promise<Opened> {
  const opened = (blob: Blob, isVerified: boolean): Opened => ({ ranges: new BlobRanges(file.name, blob), isVerified });
  if (file.kind === "blob") return opened(file.blob, false);
  if (file.kind === "handle") return opened(await file.handle.getFile(), false);
  const doing: Downloading = { onProgress, signal, newHash: () => new Sha256() };
  const cache = where === "opfs" ? await Cache.open() : undefined;
  const kept = (cache: Cache, { file: stored, verified }: Downloaded): Opened =>
    verified ? opened(stored, true) : { ...opened(stored, false), discard: () => discard(cache, file) };
  if (cache !== undefined) {
    const found = await cached(cache, file, doing);
    if (found !== undefined) return kept(cache, found);
  }
  const remote = await HttpRanges.open(file.url, file.name, file.headers, signal);
  if (remote !== undefined) await checkHeader(remote);
  if (cache !== undefined) return kept(cache, await download(cache, file, doing));
  if (remote !== undefined && file.sha256 === undefined) return { ranges: remote, isVerified: false };
  return opened(await whole(file.url, file.headers, file.sha256, doing), file.sha256 !== undefined);
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
  refuseHtml(response, url);
  const total = lengthOf(response);
  const hash = doing.newHash();
  const beginning = new Beginning(url);
  let loaded = 0;
  /** Why it was refused: a response does not say why its body failed. */
  let refused: unknown;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      try {
        beginning.push(chunk);
      } catch (error) {
        throw (refused = error);
      }
      hash.update(chunk);
      loaded += chunk.length;
      doing.onProgress("download", loaded, total ?? 0);
      controller.enqueue(chunk);
    },
  });
  try {
    const blob = await received(new Response(response.body!.pipeThrough(counted)).blob(), url, doing.signal).catch((error: unknown) => {
      throw refused ?? error;
    });
    beginning.end();
    const found = hash.hex();
    if (sha256 !== undefined && found !== sha256) {
      throw new EngineError("integrity", `${url}: its SHA-256 is ${found}, not ${sha256}`);
    }
    return blob;
  } finally {
    hash.free();
  }
}

/** The same file, whose reads an abort ends: a load has no other place to stop at. */
export function abortable(file: ByteRanges, signal: AbortSignal): ByteRanges {
  return {
    name: file.name,
    size: file.size,
    read(offset, length) {
      signal.throwIfAborted();
      return file.read(offset, length);
    },
  };
}
