/** "Check my browser": what it offers, whether its kernels compute rightly, what passes cost; as a text to send on. */

import { checkKernels, type Engine, type KernelCheck } from "foretoken";

import { button, element, paragraph } from "./elements.js";
import { reason } from "./model.js";

/** The part of WebGPU's interface that is read here. */
interface Adapter {
  features: Iterable<string>;
  limits: Record<string, number>;
  info?: { vendor?: string; architecture?: string; device?: string; description?: string };
}

interface WithGpu {
  gpu?: { requestAdapter(options: { powerPreference: "high-performance" }): Promise<Adapter | null> };
}

const LIMITS = [
  "maxBufferSize", "maxStorageBufferBindingSize", "maxUniformBufferBindingSize", "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupsPerDimension",
];

type Say = (line: string) => void;

/** Checks when asked to; `loaded` gives the engine that is there then. */
export function initCheck(loaded: () => Engine | undefined): void {
  const report = element("report", HTMLPreElement);
  const status = paragraph("check-status");
  const say: Say = (line) => (report.textContent += `${line}\n`);
  let verdict = "";

  button("check").addEventListener("click", async () => {
    button("check").disabled = button("copy").disabled = true;
    report.textContent = "";
    report.hidden = false;
    const verdicts = [];
    for (const [what, part] of [
      ["Looking at the browser", checkWebGpu],
      ["Checking kernels", checkEachKernel],
      ["Timing passes", (say: Say) => timePasses(loaded(), say)],
    ] as const) {
      status.textContent = `${what} …`;
      try {
        verdicts.push(await part(say));
      } catch (error) {
        say(`FAILED: ${reason(error)}`);
        verdicts.push(`${what}: failed`);
        break;
      }
    }
    element("check-progress", HTMLProgressElement).hidden = paragraph("check-now").hidden = true;
    status.textContent = verdict = `${verdicts.join(". ")}.`;
    say(verdict);
    button("check").disabled = button("copy").disabled = false;
  });

  button("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(report.textContent ?? "");
      status.textContent = `${verdict} The report is in the clipboard.`;
    } catch {
      // Not allowed: at least it is selected.
      getSelection()?.selectAllChildren(report);
      status.textContent = `${verdict} The browser does not let the page copy; the report is selected.`;
    }
  });
}

async function checkWebGpu(say: Say): Promise<string> {
  say(`Foretoken's check of a browser, ${new Date().toISOString()}`);
  say(`browser            ${navigator.userAgent}`);
  say(`processors         ${navigator.hardwareConcurrency}`);
  say(`secure page        ${isSecureContext ? "yes" : "no: WebGPU needs https, or localhost"}`);
  const { usage, quota } = (await navigator.storage?.estimate()) ?? {};
  say(`storage            ${megabytes(usage)} of ${megabytes(quota)} MB used`);
  const { gpu } = navigator as WithGpu;
  const adapter = await gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (adapter == null) throw new Error(gpu === undefined ? "this browser has no WebGPU" : "WebGPU has no adapter here");
  const { vendor, architecture, device, description } = adapter.info ?? {};
  say(`adapter            ${[vendor, architecture, device, description].filter(Boolean).join(", ") || "not named"}`);
  const features = [...adapter.features].sort();
  say(`shader-f16         ${features.includes("shader-f16") ? "yes" : "no"}`);
  say(`subgroups          ${features.includes("subgroups") ? "yes" : "no"}`);
  say(`features           ${features.join(" ")}`);
  for (const limit of LIMITS) say(`${limit.padEnd(35)}${adapter.limits[limit] ?? "unknown"}`);
  return "WebGPU is there";
}

async function checkEachKernel(say: Say): Promise<string> {
  const bar = element("check-progress", HTMLProgressElement);
  const now = paragraph("check-now");
  bar.hidden = now.hidden = false;
  const onKernel = ({ kernel }: KernelCheck) => (now.textContent = kernel);
  const { adapter, kernels } = await checkKernels({ onKernel });
  const faults = kernels.filter(({ fault }) => fault !== null);
  say(`computes on        ${adapter.name}, tier ${adapter.tier}${adapter.software ? ", a software adapter" : ""}`);
  say(`kernels            ${kernels.length - faults.length} of ${kernels.length} agree with the CPU, and with themselves when run again`);
  for (const { kernel, fault } of faults) say(`  WRONG ${kernel}: ${fault}`);
  return faults.length === 0 ? `All ${kernels.length} kernels compute rightly` : `${faults.length} of ${kernels.length} kernels compute WRONGLY`;
}

async function timePasses(engine: Engine | undefined, say: Say): Promise<string> {
  if (engine === undefined) return "Load a model to see what passes cost";
  const { version, model, contextLength, rowInvariance, integrity, deviceBytes, speculation } = await engine.info();
  say(`engine             ${version}`);
  say(`model              ${model}, context ${contextLength}, ${megabytes(deviceBytes)} MB on the device, ${integrity}`);
  say(`rows of a pass     ${rowInvariance}: whether a row's bits are the same among any others`);
  say(`speculation        ${speculation.active ? speculation.method : `off: ${speculation.reason ?? "not asked for"}`}`);
  const times = await engine.passTimes();
  const [, one] = times[0] ?? [1, NaN];
  say(`a pass of one row  ${one.toFixed(1)} ms`);
  const against = times.slice(1).map(([rows, ms]) => `v(${rows}) = ${(ms / one).toFixed(2)}`);
  say(`of m rows          ${against.join("  ")}  times that`);
  const rows = { holds: "rows are invariant", holds_padded: "rows are invariant when padded", broken: "rows are NOT invariant", not_checked: "" };
  return [rows[rowInvariance], against.join(", ")].filter(Boolean).join("; ");
}

const megabytes = (bytes: number | undefined) => (bytes === undefined ? "unknown" : (bytes / 1e6).toFixed(0));
