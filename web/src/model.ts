/** Choosing and loading a model. */

import { createEngine, type Engine, EngineError, type LoadProgress, type ModelSource } from "foretoken";

import { button, element, input, paragraph } from "./elements.js";

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
      const { model: name, adapter, contextLength } = await loaded.info();
      say(`${name} on ${adapter.name}${adapter.software ? ", which computes on the CPU" : ""}; context of ${contextLength} tokens.`);
      onEngine(loaded);
    } catch (error) {
      if (controller !== loading) return;
      say(controller.signal.aborted ? "Loading was cancelled." : reason(error));
    } finally {
      if (controller === loading) {
        loading = undefined;
        button("load").textContent = "Load";
        bar.hidden = true;
      }
    }
  }

  const bar = element("progress", HTMLProgressElement);

  function show({ phase, loaded, total, file }: LoadProgress): void {
    bar.hidden = false;
    if (total > 0) {
      bar.max = total;
      bar.value = loaded;
    } else {
      bar.removeAttribute("value");
    }
    const done = total > 0 ? `: ${megabytes(loaded)} of ${megabytes(total)} MB` : "";
    say(`${PHASES[phase]} ${file}${done}`);
  }

  element("model-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    if (loading !== undefined) return loading.abort();
    void load(addressOf(input("model").value.trim()));
  });
  input("file").addEventListener("change", () => {
    const file = input("file").files?.[0];
    if (file !== undefined) void load(file);
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file !== undefined) void load(file);
  });
}

/** `owner/repo/file.gguf` is a file of the hub, where such a path has three parts or more and none is a folder of this server. */
function addressOf(text: string): string {
  const hub = /^([\w.-]+)\/([\w.-]+)\/(.+\.gguf)$/i.exec(text);
  if (hub === null || text.includes(":") || text.startsWith("models/")) return text;
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
