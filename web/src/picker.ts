/** A choice of a model: one that is known, a file at an address, or a file of the user's. */

import type { ModelSource } from "foretoken";

import { element, input, make, paragraph } from "./elements.js";
import { MODELS } from "./models.js";

export class Picker {
  private readonly select: HTMLSelectElement;

  /** Of the elements whose ids begin with `prefix`. An option whose value is "none" is chosen first, where there is one. */
  constructor(private readonly prefix: string) {
    this.select = element(`${prefix}picker`, HTMLSelectElement);
    const none = this.select.querySelector('option[value="none"]');
    const known = MODELS.map(({ name }, i) => new Option(name, String(i)));
    if (none === null) this.select.prepend(...known);
    else none.after(...known);
    this.select.selectedIndex = 0;
    this.select.addEventListener("change", () => this.show());
    this.show();
  }

  /** What is chosen; undefined: no model, or no file or address yet. */
  source(): ModelSource | undefined {
    const { value } = this.select;
    if (value === "address") {
      const address = this.field("address").value.trim();
      return address === "" ? undefined : addressOf(address);
    }
    if (value === "file") return this.field("file").files?.[0];
    const known = MODELS[Number(value)];
    return known && (known.sha256 === undefined ? known.url : { url: known.url, sha256: known.sha256 });
  }

  /** Chooses the user's file. */
  chooseFile(): void {
    this.select.value = "file";
    this.show();
  }

  field(name: "address" | "file"): HTMLInputElement {
    return input(`${this.prefix}${name}`);
  }

  private show(): void {
    const { value } = this.select;
    for (const name of ["address", "file"] as const) {
      paragraph(`${this.prefix}${name}-field`).hidden = value !== name;
      this.field(name).required = value === name;
    }
    const about = paragraph(`${this.prefix}about`);
    about.hidden = value === "none";
    const known = MODELS[Number(value)];
    if (known === undefined) {
      about.textContent = "Its licence is what its publisher says.";
    } else {
      const hash = known.sha256 === undefined ? "as the hub lists it" : make("code", "", known.sha256);
      about.replaceChildren(`${known.about}. Licence: ${known.licence}. SHA-256: `, hash);
    }
  }
}

/** `owner/repo/file.gguf` is a file of the hub; anything else an address, relative to the page where it has no host. */
function addressOf(text: string): string {
  const hub = /^([\w.-]+)\/([\w.-]+)\/(.+\.gguf)$/i.exec(text);
  if (hub === null || text.includes(":") || text.startsWith(".") || text.startsWith("models/")) return text;
  return `https://huggingface.co/${hub[1]}/${hub[2]}/resolve/main/${hub[3]}`;
}
