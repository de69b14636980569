/** How drafting went: a bar a step while it runs, the histogram afterwards. */

import type { SpeculativeDecoding, TokenProvenance } from "foretoken";

import { div, element, make, paragraph } from "./elements.js";
import { mostDrafts } from "./settings.js";

/** The bars that fit. */
const MOST_BARS = 120;

export function clearSteps(): void {
  div("steps").replaceChildren();
  div("steps").ariaLabel = "Drafts accepted in each step: none yet";
  element("histogram", HTMLTableElement).hidden = true;
}

/** A step without drafts has no bar. */
export function showStep(tokens: TokenProvenance[]): void {
  if (tokens.every((from) => from === "plain" || from === "prefill")) return;
  const accepted = tokens.filter((from) => from === "draft").length;
  const bar = document.createElement("div");
  bar.title = `${accepted} accepted`;
  const fill = document.createElement("span");
  fill.style.height = `${Math.min(100, (100 * accepted) / mostDrafts())}%`;
  bar.append(fill);
  const steps = div("steps");
  steps.append(bar);
  if (steps.childElementCount > MOST_BARS) steps.firstElementChild?.remove();
}

export function showHistogram(speculation: SpeculativeDecoding | null | undefined): void {
  const table = element("histogram", HTMLTableElement);
  table.hidden = speculation == null || speculation.num_spec_steps === 0;
  if (speculation == null || speculation.num_spec_steps === 0) {
    const why = speculation == null ? "Speculation was off." : "Nothing was drafted: nothing in the texts so far came before, or drafting did not pay.";
    paragraph("acceptance-status").textContent = why;
    return;
  }
  const { num_accepted_draft_tokens: accepted, num_draft_tokens: drafted, mean_acceptance_length: mean } = speculation;
  paragraph("acceptance-status").textContent =
    `${accepted} of ${drafted} drafts accepted in ${speculation.num_spec_steps} steps with drafts; ${mean.toFixed(2)} tokens a step.`;
  div("steps").ariaLabel = `Drafts accepted in each step: ${(speculation.per_step_accepted ?? []).slice(-MOST_BARS).join(", ")}`;
  const rows = speculation.acceptance_histogram.map((steps, accepted) => {
    const row = document.createElement("tr");
    row.append(make("td", "", String(accepted)), make("td", "", String(steps)));
    return row;
  });
  table.tBodies[0]?.replaceChildren(...rows);
}
