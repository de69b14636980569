/** The adapter, before there is an engine to ask. */

import { EngineError } from "./errors.js";

/** The part of `navigator.gpu` that is used here. */
interface Gpu {
  requestAdapter(options: { powerPreference: "high-performance" }): Promise<{ info?: GpuAdapterInfo } | null>;
}

interface GpuAdapterInfo {
  vendor: string;
  architecture: string;
  description: string;
}

/** What to call the adapter that wgpu will open; throws where there is none. */
export async function adapterName(): Promise<string> {
  const { gpu } = navigator as { gpu?: Gpu };
  if (gpu === undefined) {
    const why = globalThis.isSecureContext ? "this browser has no WebGPU" : "WebGPU needs a secure page: https, or localhost";
    throw new EngineError("webgpu_unavailable", `${why}; Chrome, Edge, Safari 26 and Firefox 141 have it`);
  }
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter === null) {
    const message = "the browser offers no WebGPU adapter: update it or the graphics driver, or enable hardware acceleration";
    throw new EngineError("webgpu_unavailable", message);
  }
  const { vendor, architecture, description } = adapter.info ?? {};
  return [vendor, architecture, description].filter(Boolean).join(" ") || "WebGPU";
}
