/** What this browser offers, and what the engine makes of it. */

import type { Engine } from "foretoken";

import { element, make } from "./elements.js";
import { reason } from "./model.js";

/** The part of WebGPU's interface that is read here. */
interface Adapter {
  features: Set<string>;
  limits: Record<string, number>;
  info?: { vendor?: string; architecture?: string; description?: string };
}

interface WithGpu {
  gpu?: { requestAdapter(): Promise<Adapter | null> };
}

export async function checkBrowser(engine: Engine | undefined): Promise<void> {
  const list = element("browser", HTMLDListElement);
  const rows: [string, string][] = [["Browser", navigator.userAgent], ["Secure page", isSecureContext ? "yes" : "no"]];
  try {
    const adapter = await (navigator as WithGpu).gpu?.requestAdapter();
    if (adapter == null) {
      rows.push(["WebGPU", "no adapter: the model cannot run here"]);
    } else {
      const { vendor, architecture, description } = adapter.info ?? {};
      rows.push(["WebGPU", [vendor, architecture, description].filter(Boolean).join(", ") || "yes"]);
      rows.push(["Half precision", adapter.features.has("shader-f16") ? "yes" : "no"]);
      rows.push(["Subgroups", adapter.features.has("subgroups") ? "yes" : "no"]);
      for (const limit of ["maxStorageBufferBindingSize", "maxBufferSize", "maxComputeInvocationsPerWorkgroup"]) {
        rows.push([limit, String(adapter.limits[limit] ?? "unknown")]);
      }
    }
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    rows.push(["Storage", `${(usage / 1e6).toFixed(0)} of ${(quota / 1e6).toFixed(0)} MB used`]);
    const info = await engine?.info();
    rows.push(["Model", info === undefined ? "load one to check the kernels" : JSON.stringify(info, null, 1)]);
    if (info !== undefined) rows.push(["Rows are invariant", info.rowInvariance]);
  } catch (error) {
    rows.push(["Failed", reason(error)]);
  }
  list.replaceChildren(...rows.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}
