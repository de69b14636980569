/** What is refused as not the file that was asked for. */

import type { Sha256 } from "../wasm/foretoken.js";
import { EngineError } from "./errors.js";

const MAGIC = "GGUF";

export function refuseHtml(response: Response, url: string): void {
  if (/^text\/html\b/i.test(response.headers.get("Content-Type") ?? "")) {
    response.body?.cancel().catch(() => {});
    throw new EngineError("integrity", `${url}: the server gave an HTML page, not a model: check the address`);
  }
}

/** A file as it comes: judged by its first bytes where it is a GGUF file, then by its hash. */
export class Incoming {
  /** Bytes so far. */
  length = 0;
  private seen: string;

  constructor(private readonly url: string, private readonly hash: Sha256, isGguf: boolean) {
    this.seen = isGguf ? "" : MAGIC;
  }

  /** The next bytes of the file. */
  push(bytes: Uint8Array): void {
    if (this.seen.length < MAGIC.length) {
      this.seen += new TextDecoder("latin1").decode(bytes.subarray(0, MAGIC.length - this.seen.length));
      if (!MAGIC.startsWith(this.seen)) throw this.refused(`not a GGUF file: it begins with ${JSON.stringify(this.seen)}`);
    }
    this.hash.update(bytes);
    this.length += bytes.length;
  }

  /** There are no more. */
  end(sha256: string | undefined): void {
    if (this.seen.length < MAGIC.length) throw this.refused(`not a GGUF file: it has ${this.length} bytes`);
    const found = this.hash.hex();
    if (sha256 !== undefined && found !== sha256) throw this.refused(`its SHA-256 is ${found}, not ${sha256}; nothing was kept`);
  }

  free(): void {
    this.hash.free();
  }

  private refused(why: string): EngineError {
    return new EngineError("integrity", `${this.url}: ${why}`);
  }
}
