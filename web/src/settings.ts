/** The settings, as fields of a request. */

import { input } from "./elements.js";

export interface Settings {
  temperature: number;
  max_tokens: number;
  seed?: number;
  speculative_config: Record<string, unknown> | null;
}

export function settings(): Settings {
  const seed = input("seed").value;
  return {
    temperature: input("temperature").valueAsNumber || 0,
    max_tokens: input("max-tokens").valueAsNumber || 200,
    ...(seed === "" ? {} : { seed: Number(seed) }),
    speculative_config: input("speculate").checked ? drafting() : null,
  };
}

/** Speculation as set, whether or not it is on. */
export function drafting(): Record<string, unknown> {
  return {
    num_speculative_tokens: input("drafts").valueAsNumber || 5,
    adaptive: input("adaptive").checked,
  };
}
