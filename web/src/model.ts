/** Choosing and loading a model. */

import { createEngine, type Engine, EngineError, type LoadProgress, type ModelSource } from "foretoken";

import { button, element, paragraph } from "./elements.js";
import { Picker } from "./picker.js";
import { offerDraftModel } from "./settings.js";

const PHASES: Record<LoadProgress["phase"], string> = {
  download: "Downloading",
  verify: "Checking what is stored",
  upload: "Uploading to the GPU",
  compile: "Compiling kernels and comparing their rows",
  tune: "Timing passes",
};

/** Calls `onEngine` with each engine that is loaded, and with undefined before one is unloaded. */
export function initModel(onEngine: (engine: Engine | undefined) => void): void {
  let engine: Engine | undefined;
  let loading: AbortController | undefined;

  async function load(model: ModelSource): Promise<void> {
    loading?.abort();
    const controller = (loading = new AbortController());
    const draftModel = draft.source();
    button("load").textContent = "Cancel";
    // It cancels whatever the pickers hold by then.
    button("load").formNoValidate = true;
    try {
      onEngine(undefined);
      await engine?.unload();
      engine = undefined;
      const loaded = await createEngine({
        model,
        ...(draftModel === undefined ? {} : { draftModel }),
        // The most that the page's settings can ask for.
        speculativeConfig: { method: draftModel === undefined ? "ngram" : "auto", num_speculative_tokens: 15, prompt_lookup_min: 2, prompt_lookup_max: 4 },
        perRequestSpecDecodeMetrics: "detailed",
        enablePerRequestMetrics: true,
        onProgress: show,
        signal: controller.signal,
      });
      engine = loaded;
      const { model: name, adapter, contextLength, integrity, speculation } = await loaded.info();
      const where = `${adapter.name}${adapter.software ? ", which computes on the CPU" : ""}`;
      const hash = integrity === "verified" ? "its SHA-256 is right" : "no SHA-256 was known to check it by";
      const { active, reason: inactive, draft_problem: draftProblem } = speculation;
      const drafts = draftModel !== undefined && active && draftProblem === undefined;
      const beside = drafts ? `, with ${speculation.draft} to draft` : "";
      let problem = "";
      if (inactive !== null) problem = ` Speculation is off: ${inactive}`;
      else if (draftProblem !== undefined) problem = ` It drafts without a model: ${draftProblem}`;
      say(`${name}${beside} on ${where}; context of ${contextLength} tokens; ${hash}.${problem}`);
      offerDraftModel(drafts);
      onEngine(loaded);
    } catch (error) {
      if (controller !== loading) return;
      say(controller.signal.aborted ? "Loading was cancelled." : reason(error));
    } finally {
      if (controller === loading) {
        loading = undefined;
        button("load").textContent = "Load";
        button("load").formNoValidate = false;
        bar.hidden = amount.hidden = true;
      }
    }
  }

  const bar = element("progress", HTMLProgressElement);
  const amount = paragraph("progress-text");
  let phase = "";

  function show(progress: LoadProgress): void {
    const { loaded, total, file } = progress;
    // A screen reader is told of each phase; how far it is, is for the eye.
    if (progress.phase !== phase) say(`${PHASES[progress.phase]} ${file}`);
    phase = progress.phase;
    bar.hidden = amount.hidden = false;
    amount.textContent = total > 0 ? `${megabytes(loaded)} of ${megabytes(total)} MB` : "";
    if (total > 0) {
      bar.max = total;
      bar.value = loaded;
    } else {
      bar.removeAttribute("value");
    }
  }

  const picker = new Picker("");
  const draft = new Picker("draft-");

  const form = element("model-form", HTMLFormElement);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (loading !== undefined) return loading.abort();
    const source = picker.source();
    if (source !== undefined) void load(source);
  });
  picker.field("file").addEventListener("change", () => {
    // The draft model may not be chosen yet.
    if (!form.reportValidity()) return;
    const source = picker.source();
    if (source !== undefined) void load(source);
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const files = event.dataTransfer?.files;
    if (files?.[0] === undefined) return;
    // As if it had been chosen there.
    picker.field("file").files = files;
    picker.chooseFile();
    if (!form.reportValidity()) return;
    void load(files[0]);
  });
}

function say(text: string): void {
  paragraph("model-status").textContent = text;
}

export function reason(error: unknown): string {
  if (error instanceof EngineError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
