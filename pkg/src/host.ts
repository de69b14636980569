/**
 * `Host`: whoever runs the engine, in this thread (`local.ts`) or behind a worker (`remote.ts`).
 * What crosses is plain data, so that both are the same to a caller.
 */

import type { EngineError } from "./errors.js";
import type { LoadConfig, LoadProgress } from "./options.js";
import type { EngineInfo, EngineMetrics } from "./types.js";

/** A request to one of the engine's routes. */
export interface RouteRequest {
  method: string;
  /** As in an address: a name in it is encoded. */
  path: string;
  body: string;
}

/** Its answer: a body, or the number of a stream of events. */
export interface RouteReply {
  status: number;
  contentType: string;
  allow: string | undefined;
  body: string | undefined;
  stream: number | undefined;
}

export interface Host {
  /** Opens the device, fetches the file, uploads it. Once. */
  load(config: LoadConfig, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<void>;
  /** Answers a request; the signal ends it. Requests take turns in the order of the calls. */
  request(request: RouteRequest, signal: AbortSignal): Promise<RouteReply>;
  /** The next event of a stream, in the form in which it goes over a wire; undefined after the last. */
  next(stream: number): Promise<string | undefined>;
  /** Ends a stream: a pending `next` gives undefined. */
  close(stream: number): Promise<void>;
  tokenize(text: string): Promise<number[]>;
  detokenize(tokens: number[]): Promise<string[]>;
  metrics(): Promise<EngineMetrics>;
  passTimes(): Promise<[rows: number, ms: number][]>;
  info(): Promise<EngineInfo>;
  /** Gives everything back. What is in flight rejects with `why`, as does all that follows; by default it was unloaded. */
  unload(why?: EngineError): Promise<void>;
}
