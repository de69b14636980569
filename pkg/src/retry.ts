/** Trying again. */

import { orAborted } from "./abort.js";
import { EngineError } from "./errors.js";

/** A failure of the network that may pass. */
export class Interrupted extends EngineError {
  constructor(message: string, cause?: unknown) {
    super("network", message, { cause });
  }
}

/** How long to wait after each failure in a row, give or take a half: all clients of a server that came back do not come at once. */
const PAUSES_MS = [500, 1000, 2000];
/** Failures with so much progress between them are not in a row. */
const PROGRESS = 1 << 20;

/** What `attempt` gives, which is tried again after each `Interrupted`, a few times in a row. `reached` tells how far it has come. */
export async function retrying<T>(signal: AbortSignal, attempt: () => Promise<T>, reached = () => 0): Promise<T> {
  let furthest = 0;
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (reached() >= furthest + PROGRESS) {
        furthest = reached();
        failures = 0;
      }
      const pause = PAUSES_MS[failures];
      if (pause === undefined || !(error instanceof Interrupted)) throw error;
      await orAborted(new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random()))), signal);
    }
  }
}
