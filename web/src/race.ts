/** The same prompt without speculation and with it. */

import type { ChatMessage, Engine } from "foretoken";

import { type Answer, stream } from "./answer.js";
import { clearSteps, showHistogram, showStep } from "./acceptance.js";
import { div, paragraph } from "./elements.js";
import { drafting, settings } from "./settings.js";

export async function race(engine: Engine, messages: ChatMessage[], signal: AbortSignal): Promise<Answer> {
  const status = paragraph("race-status");
  for (const id of ["race-plain", "race-draft"]) div(id).replaceChildren();
  for (const id of ["race-plain-rate", "race-draft-rate"]) paragraph(id).textContent = "";
  clearSteps();
  // One seed for both: without it each would draw its own.
  const request = { messages, seed: 1, ...settings() };

  status.textContent = "Running without speculation …";
  const plain = await stream(engine, { ...request, speculative_config: null }, div("race-plain"), signal);
  paragraph("race-plain-rate").textContent = rate(plain);
  status.textContent = "Running with speculation …";
  const drafted = await stream(engine, { ...request, speculative_config: draftingAlone() }, div("race-draft"), signal, showStep);
  paragraph("race-draft-rate").textContent = rate(drafted);
  showHistogram(drafted.last?.metrics?.speculative_decoding);

  const equal = plain.tokens.length === drafted.tokens.length && plain.tokens.every((token, i) => token === drafted.tokens[i]);
  const ratio = (drafted.tokensPerSecond ?? 0) / (plain.tokensPerSecond ?? 0);
  const speed = Number.isFinite(ratio) ? `; ${ratio.toFixed(2)} times the speed with speculation` : "";
  status.textContent = equal
    ? `The same ${plain.tokens.length} tokens${speed}.`
    : "The tokens differ: please report this, with what “Check my browser” shows.";
  return drafted;
}

/** As set, but that earlier answers are neither looked in nor joined: a race run again would replay its last answer, and tell nothing of a new one. */
function draftingAlone(): Record<string, unknown> {
  const config = drafting();
  const looksInEarlier = config["method"] === "suffix" || config["method"] === "auto";
  return looksInEarlier ? { ...config, suffix_decoding_max_cached_requests: 0 } : config;
}

function rate({ tokens, tokensPerSecond }: Answer): string {
  const speed = tokensPerSecond === undefined ? "" : `, ${tokensPerSecond.toFixed(1)} tokens/s`;
  return `${tokens.length} tokens${speed}`;
}
