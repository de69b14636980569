/** From what a caller names to a file that can be read. */

import { type ByteRanges, Sha256 } from "../wasm/foretoken.js";
import { Cache, keyOf } from "./cache.js";
import { cached, download, type Downloaded, type Downloading, refuseFull, type Wanted } from "./download.js";
import { toError } from "./errors.js";
import { findHubHashes } from "./hub.js";
import type { LoadConfig, LoadProgress, ModelConfig } from "./options.js";
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

/** The models of an engine. */
export interface OpenedModels extends Opened {
  draft: Opened | undefined;
  /** Why there is no draft model though there was to be one. */
  draftProblem: string | undefined;
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
 * Opens a model for reading, and its draft model, fetching what must be fetched; wasm must have been started. Where all headers can be read
 * by ranges, `check` judges the models before anything is fetched, and the browser's storage is asked for room for all of it. What is wrong
 * with the draft alone is told and fails nothing, but for a name that nothing goes by.
 */
export async function open(
  config: LoadConfig, check: (header: ByteRanges, draft?: ByteRanges) => Promise<string | undefined>, report: Report, signal: AbortSignal,
): Promise<OpenedModels> {
  const cache = config.cache === "opfs" ? await Cache.open() : undefined;
  const target = new Opening(config, cache, report, signal);
  await target.find();
  let draft = config.draft && new Opening(config.draft, cache, report, signal);
  let draftProblem: string | undefined;
  const leaveOut = (problem: string | undefined) => {
    draftProblem = problem;
    if (problem !== undefined) draft = undefined;
  };
  leaveOut(await problemOf(draft?.find(), signal));

  const header = target.isReadable ? target.read() : undefined;
  const beside = draft?.isReadable ? draft.read() : undefined;
  if (header && (target.missing.length > 0 || (beside && draft!.missing.length > 0))) {
    const problem = await check(header, beside).catch((error: unknown) => {
      throw header.failure ?? toError(error);
    });
    signal.throwIfAborted();
    if (beside) leaveOut(problem);
  }
  await target.refuseFull();
  leaveOut(draftProblem ?? (await problemOf(draft?.refuseFull(target.missing), signal)));
  await target.fetch();
  leaveOut(draftProblem ?? (await problemOf(draft?.fetch(), signal)));
  return { ...target.opened(), draft: draft?.opened(), draftProblem };
}

/** What fails about a draft model, as far as that is no mistake of the caller's. */
async function problemOf(doing: Promise<void> | undefined, signal: AbortSignal): Promise<string | undefined> {
  try {
    await doing;
    return undefined;
  } catch (thrown) {
    signal.throwIfAborted();
    const error = toError(thrown);
    if (error.code === "model_not_found" || error.code === "invalid_request") throw error;
    return error.message;
  }
}

/** A model on its way from a configuration to what can be read. */
class Opening {
  private readonly parts: Part[] = [];

  constructor(
    private readonly config: ModelConfig, private readonly cache: Cache | undefined, private readonly report: Report,
    private readonly signal: AbortSignal,
  ) {}

  /** What is neither on this machine nor in the cache. */
  get missing(): (Part & { wanted: Wanted })[] {
    return this.parts.filter((part): part is Part & { wanted: Wanted } => part.wanted !== undefined);
  }

  /** Whether all of it can be read, some by ranges perhaps. */
  get isReadable(): boolean {
    return this.parts.every(({ file }) => file);
  }

  read(): Parts {
    const { name, files, isFolder } = this.config;
    const names = isFolder ? files.map((file) => file.name) : [];
    return new Parts(name, this.parts.map(({ file }) => file!), names, this.signal);
  }

  /** Looks for each file here, in the cache, and then on its server. */
  async find(): Promise<void> {
    const { cache, signal } = this;
    for (const file of this.config.files) {
      if (file.kind === "url") {
        const wanted: Wanted = { ...file, isGguf: !this.config.isFolder };
        const found = cache && (await cached(cache, wanted, this.doing(wanted)));
        this.parts.push(found ? await stored(found, wanted) : { wanted });
      } else {
        this.parts.push({ file: new BlobRanges(file.kind === "blob" ? file.blob : await file.handle.getFile()) });
      }
    }
    const { missing } = this;
    if (cache) await findHubHashes(missing.map((part) => part.wanted), signal);
    for (const part of missing) {
      part.file = await HttpRanges.open(part.wanted.url, part.wanted.headers, signal);
      part.wanted.size = part.file?.size;
    }
  }

  /** Fails where the browser has no room for what is still to be stored, of the parts `before` too, and then keeps nothing of it. */
  async refuseFull(before: (Part & { wanted: Wanted })[] = []): Promise<void> {
    const { cache, missing } = this;
    if (!cache || missing.length === 0) return;
    const keys: string[] = [];
    let needed = 0;
    for (const part of [...before, ...missing]) {
      const { url, size = 0 } = part.wanted;
      const key = await keyOf(url);
      if (missing.includes(part)) keys.push(key);
      needed += Math.max(0, size - (await cache.partialSize(key)));
    }
    try {
      await refuseFull(needed, this.config.name);
    } catch (error) {
      await discardAll(cache, keys);
      throw error;
    }
  }

  /** Fetches what has to be here before it can be read. */
  async fetch(): Promise<void> {
    const { cache, signal } = this;
    for (const part of this.missing) {
      const { wanted } = part;
      const doing = this.doing(wanted);
      if (cache) Object.assign(part, await stored(await download(cache, wanted, doing), wanted));
      else if (!part.file || wanted.sha256) {
        part.file = new BlobRanges(await retrying(signal, () => whole(wanted, doing)));
        part.verified = wanted.sha256 !== undefined;
      }
    }
  }

  opened(): Opened {
    const { cache, parts } = this;
    const opened = { ranges: this.read(), isVerified: parts.every(({ verified }) => verified) };
    const doubtful = parts.flatMap(({ verified, key }) => (verified ? [] : key ?? []));
    if (doubtful.length === 0) return opened;
    return { ...opened, discard: () => discardAll(cache!, doubtful) };
  }

  private doing({ name }: Wanted): Downloading {
    const { report, signal } = this;
    return { onProgress: (phase, loaded, total) => report(phase, loaded, total, name), signal, newHash: () => new Sha256() };
  }
}

async function stored({ file, verified }: Downloaded, { url }: Wanted): Promise<Part> {
  return { file: new BlobRanges(file), verified, key: await keyOf(url) };
}

async function discardAll(cache: Cache, keys: string[]): Promise<void> {
  for (const key of keys) await cache.discard(key);
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
