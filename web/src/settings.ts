/** The settings, as fields of a request. */

import { element, input } from "./elements.js";

export interface Settings {
  temperature: number;
  top_p: number;
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  max_tokens: number;
  seed?: number;
  speculative_config: Record<string, unknown> | null;
}

/** A field's number; what stands for it where the field is empty. */
function number(id: string, otherwise: number): number {
  const { valueAsNumber } = input(id);
  return Number.isNaN(valueAsNumber) ? otherwise : valueAsNumber;
}

export function settings(): Settings {
  const seed = input("seed").value;
  return {
    temperature: number("temperature", 0),
    top_p: number("top-p", 1),
    top_k: number("top-k", 0),
    min_p: number("min-p", 0),
    repetition_penalty: number("repetition-penalty", 1),
    max_tokens: number("max-tokens", 200),
    ...(seed === "" ? {} : { seed: Number(seed) }),
    speculative_config: input("speculate").checked ? drafting() : null,
  };
}

/** The most tokens that a step drafts. */
export const mostDrafts = () => number("drafts", 5);

/** Lets a draft model be chosen for drafting, or not; where one was just loaded, "auto" is, which asks it too. */
export function offerDraftModel(there: boolean): void {
  const method = element("method", HTMLSelectElement);
  const option = element("method-draft-model", HTMLOptionElement);
  option.disabled = !there;
  if (there) method.value = "auto";
  else if (option.selected) method.value = "ngram";
}

/** Speculation as set, whether or not it is on. */
export function drafting(): Record<string, unknown> {
  const method = element("method", HTMLSelectElement).value;
  // What pays is what "auto" goes by.
  const adaptive = method === "auto" || input("adaptive").checked;
  const common = { method, num_speculative_tokens: mostDrafts(), adaptive };
  if (method !== "ngram") return common;
  return {
    ...common,
    prompt_lookup_min: number("lookup-min", 2),
    prompt_lookup_max: number("lookup-max", 4),
    prompt_lookup_match: element("lookup-match", HTMLSelectElement).value,
  };
}
