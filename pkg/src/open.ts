/** From what a caller names to a file that can be read. */

import { check, Sha256 } from "../wasm/foretoken.js";
import { Cache } from "./cache.js";
import { cached, download, type Downloading } from "./download.js";
import { EngineError, toError } from "./errors.js";
import type { FileConfig } from "./options.js";
import { BlobRanges, type ByteRanges, HttpRanges, Remembering, request } from "./sources.js";

interface Opened {
  ranges: ByteRanges;
  /** Whether its SHA-256 was known and is right. */
  isVerified: boolean;
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
  if (cache !== undefined) {
    const found = await cached(cache, file, doing);
    if (found !== undefined) return opened(found.file, found.verified);
  }
  const remote = await HttpRanges.open(file.url, file.name, file.headers, signal);
  if (remote !== undefined) await checkHeader(remote);
  if (cache !== undefined) {
    const { file: stored, verified } = await download(cache, file, doing);
    return opened(stored, verified);
  }
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
