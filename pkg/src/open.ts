/** From what a caller names to a file that can be read. */

import { type ByteRanges, Sha256 } from "../wasm/foretoken.js";
import { Cache, keyOf } from "./cache.js";
import { cached, download, type Downloaded, type Downloading, refuseFull, type Wanted } from "./download.js";
import { EngineError, toError } from "./errors.js";
import { withHubHashes } from "./hub.js";
import type { LoadConfig, LoadProgress } from "./options.js";
import { Beginning, refuseHtml } from "./refuse.js";
import { retrying } from "./retry.js";
import { BlobRanges, HttpRanges, lengthOf, Parts, type RangeFile, received, request } from "./sources.js";

export interface Opened {
  ranges: Parts;
  /** Whether the SHA-256 of all of it was known and is right. */
  isVerified: boolean;
  /** Removes from the cache what is not known to be what it should be; undefined where there is nothing such. */
  discard?: () => Promise<void>;
}

/** What a part is read from. */
interface Part {
  file: RangeFile;
  verified: boolean;
  /** Its key, where it is from the cache. */
  key?: string;
}

type Report = (phase: LoadProgress["phase"], loaded: number, total: number, file: string) => void;

/**
 * Opens a model for reading, fetching what must be fetched; wasm must have been started. Where all headers can be read by ranges, `check`
 * judges the model before anything is fetched, and the browser's storage is asked for room for all of it.
 */
export async function open(
  { files, cache: where, name }: LoadConfig, check: (source: ByteRanges) => Promise<void>, report: Report, signal: AbortSignal,
): Promise<Opened> {
  const cache = where === "opfs" ? await Cache.open() : undefined;
  const doing = (file: string): Downloading => ({
    onProgress: (phase, loaded, total) => report(phase, loaded, total, file), signal, newHash: () => new Sha256(),
  });
  const stored = async ({ file, verified }: Downloaded, { url }: Wanted): Promise<Part> =>
    ({ file: new BlobRanges(file), verified, key: await keyOf(url) });

  const parts: Part[] = [];
  const missing = new Map<number, Wanted>();
  for (const [i, file] of files.entries()) {
    if (file.kind !== "url") {
      parts[i] = { file: new BlobRanges(file.kind === "blob" ? file.blob : await file.handle.getFile()), verified: false };
      continue;
    }
    const found = cache && (await cached(cache, file, doing(file.name)));
    if (found === undefined) missing.set(i, file);
    else parts[i] = await stored(found, file);
  }

  if (missing.size > 0) {
    const wanted = [...missing.values()];
    const hashed = cache === undefined ? wanted : await withHubHashes(wanted, signal);
    const remotes: (HttpRanges | undefined)[] = [];
    for (const { url, headers } of wanted) remotes.push(await HttpRanges.open(url, headers, signal));
    const indexes = [...missing.keys()];
    indexes.forEach((i, n) => {
      if (remotes[n] !== undefined) parts[i] = { file: remotes[n], verified: false };
    });
    if (!remotes.includes(undefined)) {
      const header = new Parts(name, parts.map(({ file }) => file), signal);
      await check(header).catch((error: unknown) => {
        throw header.failure ?? toError(error);
      });
    }
    if (cache !== undefined) await refuseAll(cache, name, wanted, remotes);
    for (const [n, i] of indexes.entries()) {
      const file = { ...hashed[n]!, size: remotes[n]?.size };
      if (cache !== undefined) parts[i] = await stored(await download(cache, file, doing(file.name)), file);
      else if (remotes[n] === undefined || file.sha256 !== undefined) {
        const blob = await retrying(signal, () => whole(file, doing(file.name)));
        parts[i] = { file: new BlobRanges(blob), verified: file.sha256 !== undefined };
      }
    }
  }

  const doubtful = parts.flatMap(({ verified, key }) => (verified || key === undefined ? [] : [key]));
  const opened = { ranges: new Parts(name, parts.map(({ file }) => file), signal), isVerified: parts.every(({ verified }) => verified) };
  if (doubtful.length === 0) return opened;
  return { ...opened, discard: async () => void (await Promise.all(doubtful.map((key) => cache!.discard(key)))) };
}

/** Fails where the browser has no room for what is still to be stored, and then keeps nothing of it. */
async function refuseAll(cache: Cache, name: string, wanted: Wanted[], remotes: (HttpRanges | undefined)[]): Promise<void> {
  const keys = await Promise.all(wanted.map(({ url }) => keyOf(url)));
  let needed = 0;
  for (const [n, key] of keys.entries()) needed += Math.max(0, (remotes[n]?.size ?? 0) - (await cache.partialSize(key)));
  try {
    await refuseFull(needed, name);
  } catch (error) {
    for (const key of keys) await cache.discard(key);
    throw error;
  }
}

/** All of a file, where it can be neither cached nor read in parts. */
async function whole({ url, headers, sha256 }: Wanted, doing: Downloading): Promise<Blob> {
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
