/** What is refused as not the file that was asked for. */

import { EngineError } from "./errors.js";

const MAGIC = "GGUF";

export function refuseHtml(response: Response, url: string): void {
  if (/^text\/html\b/i.test(response.headers.get("Content-Type") ?? "")) {
    response.body?.cancel().catch(() => {});
    throw new EngineError("integrity", `${url}: the server gave an HTML page, not a model: check the address`);
  }
}

/** Judges a file by its first bytes, in whatever pieces they come. */
export class Beginning {
  private seen = "";

  constructor(private readonly url: string) {}

  /** The next bytes of the file. */
  push(bytes: Uint8Array): void {
    if (this.seen.length === MAGIC.length) return;
    this.seen += new TextDecoder("latin1").decode(bytes.subarray(0, MAGIC.length - this.seen.length));
    if (!MAGIC.startsWith(this.seen)) throw this.refused(`it begins with ${JSON.stringify(this.seen)}`);
  }

  /** There are no more. */
  end(): void {
    if (this.seen.length < MAGIC.length) throw this.refused(`it has ${this.seen.length} bytes`);
  }

  private refused(why: string): EngineError {
    return new EngineError("integrity", `${this.url}: not a GGUF file: ${why}`);
  }
}
