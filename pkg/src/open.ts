/** From what a caller names to a file that can be read. */

import { type ByteRanges, Sha256 } from "../wasm/foretoken.js";
import { Cache, keyOf } from "./cache.js";
import { cached, download, type Downloaded, type Downloading, refuseFull, type Wanted } from "./download.js";
import { toError } from "./errors.js";
import { findHubHashes } from "./hub.js";
import type { LoadConfig, LoadProgress } from "./options.js";
import { Incoming, refuseHtml } from "./refuse.js";
import { retrying } from "./retry.js";
import { BlobRanges, HttpRanges, lengthOf, Parts, type RangeFile, received, request } from "./sources.js";

export interface Opened {
  ranges: Parts;
  /** Whether the SHA-256 of all of it was known and is right. */
  isVerified: boolean;
  /** Removes from the cache what is not known to be what it should be; undefined where there is nothing such. */
  discard?: () => Promise<void>;
}

/** A part of a model. */
interface Part {
  /** What it is read from. */
  file?: RangeFile | undefined;
  verified?: boolean;
  /** Its key, where it is from the cache. */
  key?: string;
  /** What is to be fetched first. */
  wanted?: Wanted;
}

type Report = (phase: LoadProgress["phase"], loaded: number, total: number, file: string) => void;

/**
 * Opens a model for reading, fetching what must be fetched; wasm must have been started. Where all headers can be read by ranges, `check`
 * judges the model before anything is fetched, and the browser's storage is asked for room for all of it.
 */
export async function open(
  { files, cache: where, name, isFolder }: LoadConfig, check: (header: ByteRanges) => Promise<void>, report: Report, signal: AbortSignal,
): Promise<Opened> {
  const cache = where === "opfs" ? await Cache.open() : undefined;
  const doing = ({ name }: Wanted): Downloading => ({
    onProgress: (phase, loaded, total) => report(phase, loaded, total, name), signal, newHash: () => new Sha256(),
  });
  const stored = async ({ file, verified }: Downloaded, { url }: Wanted): Promise<Part> =>
    ({ file: new BlobRanges(file), verified, key: await keyOf(url) });
  const names = isFolder ? files.map((file) => file.name) : [];
  const read = () => new Parts(name, parts.map(({ file }) => file!), names, signal);

  const parts: Part[] = [];
  for (const file of files) {
    if (file.kind === "url") {
      const wanted: Wanted = { ...file, isGguf: !isFolder };
      const found = cache && (await cached(cache, wanted, doing(wanted)));
      parts.push(found ? await stored(found, wanted) : { wanted });
    } else {
      parts.push({ file: new BlobRanges(file.kind === "blob" ? file.blob : await file.handle.getFile()) });
    }
  }

  const missing = parts.filter((part): part is Part & { wanted: Wanted } => part.wanted !== undefined);
  const wanted = missing.map((part) => part.wanted);
  if (cache) await findHubHashes(wanted, signal);
  for (const part of missing) {
    part.file = await HttpRanges.open(part.wanted.url, part.wanted.headers, signal);
    part.wanted.size = part.file?.size;
  }
  if (missing.length > 0 && parts.every(({ file }) => file)) {
    const header = read();
    await check(header).catch((error: unknown) => {
      throw header.failure ?? toError(error);
    });
  }
  if (cache && wanted.length > 0) await refuseAll(cache, name, wanted);
  for (const part of missing) {
    const { wanted } = part;
    if (cache) Object.assign(part, await stored(await download(cache, wanted, doing(wanted)), wanted));
    else if (!part.file || wanted.sha256) {
      part.file = new BlobRanges(await retrying(signal, () => whole(wanted, doing(wanted))));
      part.verified = wanted.sha256 !== undefined;
    }
  }

  const opened = { ranges: read(), isVerified: parts.every(({ verified }) => verified) };
  const doubtful = parts.flatMap(({ verified, key }) => (verified ? [] : key ?? []));
  if (doubtful.length === 0) return opened;
  return { ...opened, discard: () => discardAll(cache!, doubtful) };
}

async function discardAll(cache: Cache, keys: string[]): Promise<void> {
  for (const key of keys) await cache.discard(key);
}

/** Fails where the browser has no room for what is still to be stored, and then keeps nothing of it. */
async function refuseAll(cache: Cache, name: string, wanted: Wanted[]): Promise<void> {
  const keys: string[] = [];
  let needed = 0;
  for (const { url, size = 0 } of wanted) {
    const key = await keyOf(url);
    keys.push(key);
    needed += Math.max(0, size - (await cache.partialSize(key)));
  }
  try {
    await refuseFull(needed, name);
  } catch (error) {
    await discardAll(cache, keys);
    throw error;
  }
}

/** All of a file, where it can be neither cached nor read in parts. */
async function whole({ url, headers, sha256, isGguf }: Wanted, doing: Downloading): Promise<Blob> {
  const response = await request(url, { headers, signal: doing.signal });
  refuseHtml(response, url);
  const total = lengthOf(response) ?? 0;
  const incoming = new Incoming(url, doing.newHash(), isGguf);
  /** Why it was refused: a response does not say why its body failed. */
  let refused: unknown;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      try {
        incoming.push(chunk);
      } catch (error) {
        throw (refused = error);
      }
      doing.onProgress("download", incoming.length, total);
      controller.enqueue(chunk);
    },
  });
  try {
    const blob = await received(new Response(response.body!.pipeThrough(counted)).blob(), url, doing.signal);
    incoming.end(sha256);
    return blob;
  } catch (error) {
    throw refused ?? error;
  } finally {
    incoming.free();
  }
}
