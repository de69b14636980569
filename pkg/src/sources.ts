/** Files that can be read at any offset, as Rust wants them. */

import type { ByteRanges } from "../wasm/foretoken.js";
import { EngineError } from "./errors.js";
import { refuseHtml } from "./refuse.js";

export type { ByteRanges };

/** A file on the disk, in memory, or in the origin's private file system. */
export class BlobRanges implements ByteRanges {
  constructor(readonly name: string, private readonly blob: Blob) {}

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
export class HttpRanges implements ByteRanges {
  private ahead = new Uint8Array(0);
  private aheadFrom = 0;

  private constructor(
    readonly name: string,
    readonly size: number,
    private readonly url: string,
    private readonly headers: Record<string, string>,
    private readonly signal: AbortSignal,
  ) {}

  /** The file, or undefined where the server does not serve ranges of it, or does not let us see that it does. */
  static async open(
    url: string, name: string, headers: Record<string, string>, signal: AbortSignal,
  ): Promise<HttpRanges | undefined> {
    const range = `bytes=0-${READ_AHEAD - 1}`;
    const response = await request(url, { headers: { ...headers, Range: range }, signal });
    // Of 416 the page is about the range, not the file.
    if (response.ok) refuseHtml(response, url);
    const total = totalOf(response);
    if (response.status !== 206 || total === undefined) {
      await response.body?.cancel();
      return undefined;
    }
    const file = new HttpRanges(name, total, url, headers, signal);
    file.ahead = new Uint8Array(await received(response.arrayBuffer(), url, signal));
    return file;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const from = offset - this.aheadFrom;
    if (from < 0 || from + length > this.ahead.length) {
      const wanted = Math.min(Math.max(length, READ_AHEAD), this.size - offset);
      const range = `bytes=${offset}-${offset + wanted - 1}`;
      const response = await request(this.url, { headers: { ...this.headers, Range: range }, signal: this.signal });
      const bytes = new Uint8Array(await received(response.arrayBuffer(), this.url, this.signal));
      if (response.status !== 206 || bytes.length !== wanted) {
        throw new EngineError("network", `${this.url}: the server gave ${bytes.length} bytes with status ${response.status} for ${range}`);
      }
      this.ahead = bytes;
      this.aheadFrom = offset;
      return bytes.subarray(0, length);
    }
    return this.ahead.subarray(from, from + length);
  }
}

/** Remembers why a read failed: on its way through Rust an error keeps its message only. */
export class Remembering implements ByteRanges {
  failure: unknown;

  constructor(private readonly file: ByteRanges) {}

  get name(): string {
    return this.file.name;
  }

  get size(): number {
    return this.file.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    try {
      return await this.file.read(offset, length);
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }
}

/** Fetches; a failure, by the network or by status, is an EngineError that names the address. An abort stays what it is. */
export async function request(url: string, init: RequestInit): Promise<Response> {
  let response;
  try {
    response = await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted) throw init.signal.reason;
    throw new EngineError("network", `${url}: cannot be fetched: offline, or the server does not allow this page (CORS)`, { cause });
  }
  // 416: what was asked for lies beyond the end, which is the caller's to judge.
  if (response.ok || response.status === 416) return response;
  await response.body?.cancel();
  const code = response.status === 404 || response.status === 410 ? "model_not_found" : "network";
  throw new EngineError(code, `${url}: the server answers with status ${response.status}`);
}

/** The size of the whole file from `Content-Range: bytes a-b/size`. */
export function totalOf(response: Response): number | undefined {
  const total = Number(/\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "")?.[1]);
  return Number.isSafeInteger(total) ? total : undefined;
}

/** The length of the body as it is read; unknown where it was compressed on its way. */
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
    throw new EngineError("network", `${url}: the connection was cut: ${String(cause)}`, { cause });
  }
}
