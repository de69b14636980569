/** Choosing and loading a model. */

import { createEngine, type Engine, EngineError, type LoadProgress, type ModelSource } from "foretoken";

import { button, element, input, make, paragraph } from "./elements.js";
import { MODELS } from "./models.js";

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
    button("load").textContent = "Cancel";
    try {
      onEngine(undefined);
      await engine?.unload();
      engine = undefined;
      const loaded = await createEngine({
        model,
        // The most that the page's settings can ask for.
        speculativeConfig: { method: "ngram", num_speculative_tokens: 15, prompt_lookup_min: 2, prompt_lookup_max: 4 },
        perRequestSpecDecodeMetrics: "detailed",
        enablePerRequestMetrics: true,
        onProgress: show,
        signal: controller.signal,
      });
      engine = loaded;
      const { model: name, adapter, contextLength, integrity } = await loaded.info();
      const where = `${adapter.name}${adapter.software ? ", which computes on the CPU" : ""}`;
      const hash = integrity === "verified" ? "its SHA-256 is right" : "no SHA-256 was known to check it by";
      say(`${name} on ${where}; context of ${contextLength} tokens; ${hash}.`);
      onEngine(loaded);
    } catch (error) {
      if (controller !== loading) return;
      say(controller.signal.aborted ? "Loading was cancelled." : reason(error));
    } finally {
      if (controller === loading) {
        loading = undefined;
        button("load").textContent = "Load";
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

  const picker = element("picker", HTMLSelectElement);
  const options = MODELS.map(({ name }, i) => new Option(name, String(i)));
  picker.prepend(...options);
  picker.selectedIndex = 0;

  function showChoice(): void {
    paragraph("address-field").hidden = picker.value !== "address";
    paragraph("file-field").hidden = picker.value !== "file";
    input("address").required = picker.value === "address";
    input("file").required = picker.value === "file";
    const known = MODELS[Number(picker.value)];
    const about = paragraph("about");
    if (known === undefined) {
      about.textContent = "Its licence is what its publisher says.";
    } else {
      const hash = known.sha256 === undefined ? "as the hub lists it" : make("code", "", known.sha256);
      about.replaceChildren(`${known.about}. Licence: ${known.licence}. SHA-256: `, hash);
    }
  }
  picker.addEventListener("change", showChoice);
  showChoice();

  function choose(file: File): void {
    picker.value = "file";
    showChoice();
    void load(file);
  }

  element("model-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    if (loading !== undefined) return loading.abort();
    const file = input("file").files?.[0];
    const known = MODELS[Number(picker.value)];
    if (known !== undefined) void load(known.sha256 === undefined ? known.url : { url: known.url, sha256: known.sha256 });
    else if (picker.value === "address") void load(addressOf(input("address").value.trim()));
    else if (file !== undefined) choose(file);
  });
  input("file").addEventListener("change", () => {
    const file = input("file").files?.[0];
    if (file !== undefined) choose(file);
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
    input("file").files = files;
    choose(files[0]);
  });
}

/** `owner/repo/file.gguf` is a file of the hub; anything else an address, relative to the page where it has no host. */
function addressOf(text: string): string {
  const hub = /^([\w.-]+)\/([\w.-]+)\/(.+\.gguf)$/i.exec(text);
  if (hub === null || text.includes(":") || text.startsWith(".") || text.startsWith("models/")) return text;
  return `https://huggingface.co/${hub[1]}/${hub[2]}/resolve/main/${hub[3]}`;
}

function say(text: string): void {
  paragraph("model-status").textContent = text;
}

export function reason(error: unknown): string {
  if (error instanceof EngineError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
