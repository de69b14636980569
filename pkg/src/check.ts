/** Whether this browser's GPU computes what it should. */

import { Device } from "../wasm/foretoken.js";
import { adapterName } from "./adapter.js";
import { toError } from "./errors.js";
import { guardPanic, start } from "./local.js";
import type { EngineInfo } from "./types.js";

/** What one kernel did on known data. */
export interface KernelCheck {
  /** The op, the weights' format where it reads any, and the rows of its pass. */
  kernel: string;
  /** What is wrong with it; null: it ran twice with the same bits and agrees with the CPU. */
  fault: string | null;
}

/** Options of `checkKernels`. */
export interface KernelCheckOptions {
  /** Called with each kernel as it is done. */
  onKernel?: (check: KernelCheck) => void;
  /** As for `createEngine`. */
  tier?: EngineInfo["adapter"]["tier"];
  wasmUrl?: string | URL;
}

/**
 * Runs the kernels of every format twice on known data (of rarer formats each at one number of rows), in this thread, and compares them with the
 * same computation on the CPU. Needs no model.
 */
export async function checkKernels(options: KernelCheckOptions = {}): Promise<{ adapter: EngineInfo["adapter"]; kernels: KernelCheck[] }> {
  const kernels: KernelCheck[] = [];
  const report = (check: KernelCheck) => {
    kernels.push(check);
    options.onKernel?.(check);
  };
  const name = await adapterName();
  await start(options.wasmUrl?.toString());
  try {
    const device = await guardPanic(Device.open(name, options.tier, "{}"));
    return { adapter: (await guardPanic(device.checkKernels(report))) as EngineInfo["adapter"], kernels };
  } catch (error) {
    throw toError(error);
  }
}
