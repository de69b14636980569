/** A streamed completion. */

import { orAborted } from "./abort.js";
import { EngineError, type ErrorData, fromData } from "./errors.js";
import type { Host } from "./host.js";

const DATA = "data: ";
const DONE = "[DONE]";

/** Server-sent events, one at a time. */
export class Events {
  /** The last one was seen, or nobody wants more. */
  private over = false;

  /** `onFault` is shown the error object of a stream that fails. */
  constructor(
    private readonly host: Host,
    private readonly stream: number,
    private readonly signal: AbortSignal,
    private readonly onFault: (json: string) => void,
  ) {
    signal.addEventListener("abort", this.release, { once: true });
  }

  /**
   * The next, as it goes over the wire; undefined after the last, which is `[DONE]` or an error. Rejects with the signal's reason once
   * that is raised, and where the stream is cut short.
   */
  async next(): Promise<string | undefined> {
    if (this.over) return undefined;
    const event = await orAborted(this.host.next(this.stream), this.signal);
    if (event === undefined) {
      if (this.over) return undefined;
      throw new EngineError("internal", "the stream ended before its last event");
    }
    const isFault = event.startsWith(`${DATA}{"error":`);
    if (isFault || event.startsWith(`${DATA}${DONE}`)) this.close();
    if (isFault) this.onFault(event.slice(DATA.length));
    return event;
  }

  /** Cancels the request, unless it has ended. */
  readonly close = (): void => {
    this.over = true;
    this.release();
  };

  private readonly release = (): void => {
    this.signal.removeEventListener("abort", this.release);
    this.host.close(this.stream).catch(() => {});
  };

  /** As the body of a response. Nothing is generated faster than it is read. */
  toReadable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    const encoder = new TextEncoder();
    return new ReadableStream(
      {
        pull: async (controller) => {
          const event = await this.next();
          if (event === undefined) controller.close();
          else controller.enqueue(encoder.encode(event));
        },
        cancel: this.close,
      },
      { highWaterMark: 0 },
    );
  }
}

/**
 * The chunks of a completion, to be iterated once. The request keeps its turn until it has ended or iteration is broken out of: a
 * stream that nobody reads keeps other requests waiting.
 */
export class CompletionStream<Chunk> implements AsyncIterable<Chunk> {
  private taken = false;

  constructor(private readonly events: Events) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Chunk, void, undefined> {
    if (this.taken) throw new EngineError("invalid_request", "a stream can be iterated once");
    this.taken = true;
    try {
      for (let event = await this.events.next(); event !== undefined; event = await this.events.next()) {
        const data = event.slice(DATA.length, -2);
        if (data === DONE) continue;
        const value = JSON.parse(data) as Chunk | { error: ErrorData };
        if (typeof value === "object" && value !== null && "error" in value) throw fromData(value.error);
        yield value as Chunk;
      }
    } finally {
      this.events.close();
    }
  }

  /** Cancels the request without iterating. */
  cancel(): void {
    this.events.close();
  }
}
