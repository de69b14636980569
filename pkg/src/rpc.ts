/** Calls across `postMessage`: what a page and its worker say to each other. */

import type { ErrorData } from "./errors.js";
import type { Host } from "./host.js";
import type { LoadProgress } from "./options.js";

/** Methods of a host. */
export type Method = keyof Host;

/** To the worker. */
export type ToWorker =
  /** Signals and callbacks do not cross: the worker makes its own. */
  | { id: number; call: Method; args: unknown[] }
  | { abort: number };

/** From the worker. */
export type FromWorker =
  | { id: number; value: unknown }
  | { id: number; error: ErrorData }
  | { id: number; progress: LoadProgress }
  /** Its first message: it runs, and holds this lock while it does. */
  | { ready: string }
  /** Its last one. */
  | { lost: ErrorData };
