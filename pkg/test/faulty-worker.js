// The package's worker on a WebGPU that goes wrong as its address says, or as a page says over a channel.

import { faultyGpu } from "./faulty-gpu.js";
import "/pkg/dist/worker.js";

const fault = faultyGpu();
for (const [name, value] of new URL(location.href).searchParams) fault[name] = Number.isNaN(Number(value)) ? value : Number(value);
const channel = new BroadcastChannel("faulty GPU");
channel.onmessage = ({ data }) => {
  Object.assign(fault, data);
  // So that the page can wait for it.
  channel.postMessage("done");
};
