/** Files that can be read at any offset, as Rust wants them. */

import type { ByteRanges } from "../wasm/foretoken.js";
import { EngineError } from "./errors.js";
import { refuseHtml } from "./refuse.js";
import { Interrupted, retrying } from "./retry.js";

/** One file. */
export interface RangeFile {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** The parts of a model, of which most have one, or a folder's files, as one file. An abort ends reading it: a load has no other place to stop at. */
export class Parts implements ByteRanges {
  readonly sizes: number[];
  /** Why a read failed: on its way through Rust an error keeps its message only. */
  failure: unknown;

  /** `names`: of each file, where they are a folder's. */
  constructor(
    readonly name: string, private readonly files: RangeFile[], readonly names: string[], private readonly signal: AbortSignal,
  ) {
    this.sizes = files.map(({ size }) => size);
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    let part = 0;
    while (offset >= this.sizes[part]!) offset -= this.sizes[part++]!;
    try {
      this.signal.throwIfAborted();
      return await this.files[part]!.read(offset, length);
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }
}

/** A file on the disk, in memory, or in the origin's private file system. */
export class BlobRanges implements RangeFile {
  constructor(private readonly blob: Blob) {}

  get size(): number {
    return this.blob.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    return new Uint8Array(await this.blob.slice(offset, offset + length).arrayBuffer());
  }
}

/** What a request for a part of a file fetches at least: a header is read in many small pieces. */
const READ_AHEAD = 1 << 20;

/** A file on a server that serves ranges. */
export class HttpRanges implements RangeFile {
  private ahead = new Uint8Array(0);
  private aheadFrom = 0;

  private constructor(
    readonly size: number,
    private readonly etag: string | null,
    private readonly url: string,
    private readonly headers: Record<string, string>,
    private readonly signal: AbortSignal,
  ) {}

  /** The file, or undefined where the server does not serve ranges of it, or does not let us see that it does. */
  static async open(url: string, headers: Record<string, string>, signal: AbortSignal): Promise<HttpRanges | undefined> {
    return retrying(signal, async () => {
      const range = `bytes=0-${READ_AHEAD - 1}`;
      const response = await request(url, { headers: { ...headers, Range: range }, signal });
      // Of 416 the page is about the range, not the file.
      if (response.ok) refuseHtml(response, url);
      const total = totalOf(response);
      if (response.status !== 206 || total === undefined) {
        await response.body?.cancel();
        return undefined;
      }
      const file = new HttpRanges(total, response.headers.get("ETag"), url, headers, signal);
      if (!startsAt(response, 0)) throw file.refused(response, range);
      file.ahead = new Uint8Array(await received(response.arrayBuffer(), url, signal));
      return file;
    });
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const from = offset - this.aheadFrom;
    if (from >= 0 && from + length <= this.ahead.length) return this.ahead.subarray(from, from + length);
    const wanted = Math.min(Math.max(length, READ_AHEAD), this.size - offset);
    const range = `bytes=${offset}-${offset + wanted - 1}`;
    const { url, signal } = this;
    this.ahead = await retrying(signal, async () => {
      const response = await request(url, { headers: { ...this.headers, Range: range }, signal });
      const bytes = new Uint8Array(await received(response.arrayBuffer(), url, signal));
      const same = startsAt(response, offset) && response.headers.get("ETag") === this.etag;
      if (!same || response.status !== 206 || bytes.length !== wanted) throw this.refused(response, range);
      return bytes;
    });
    this.aheadFrom = offset;
    return this.ahead.subarray(0, length);
  }

  private refused({ status, headers }: Response, range: string): EngineError {
    const said = headers.get("Content-Range");
    return new EngineError("integrity", `${this.url}: for ${range} came ${said} with status ${status}: wrong ranges, or the file changed`);
  }
}

/** Fetches; a failure, by the network or by status, is an EngineError that names the address. An abort stays what it is. */
export async function request(url: string, init: RequestInit): Promise<Response> {
  let response;
  try {
    response = await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted) throw init.signal.reason;
    throw new Interrupted(`${url}: cannot be fetched: offline, or the server does not allow this page (CORS)`, cause);
  }
  const { status } = response;
  // 416: what was asked for lies beyond the end, which is the caller's to judge.
  if (response.ok || status === 416) return response;
  await response.body?.cancel();
  const message = `${url}: the server answers with status ${status}`;
  if (status >= 500 || status === 429 || status === 408) throw new Interrupted(message);
  throw new EngineError(status === 404 || status === 410 ? "model_not_found" : "network", message);
}

/** The size of the whole file from `Content-Range: bytes a-b/size`. */
export function totalOf(response: Response): number | undefined {
  const total = Number(/\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "")?.[1]);
  return Number.isSafeInteger(total) ? total : undefined;
}

/** Whether the part of a file begins where it was asked to, as far as the page may see it. */
export function startsAt(response: Response, offset: number): boolean {
  return response.headers.get("Content-Range")?.startsWith(`bytes ${offset}-`) ?? true;
}

/** The length of the body as it is read; unknown where it was compressed on its way. Over another origin it may have been unseen. */
export function lengthOf(response: Response): number | undefined {
  const length = response.headers.get("Content-Length");
  return length === null || response.headers.has("Content-Encoding") ? undefined : Number(length);
}

/** What is read of a response's body; where the connection fails meanwhile, an EngineError as `request` throws it. */
export async function received<T>(reading: Promise<T>, url: string, signal: AbortSignal): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new Interrupted(`${url}: the connection was cut: ${String(cause)}`, cause);
  }
}
