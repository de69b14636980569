// llama.cpp behind a line of JSON: {"prompt": [token ids], "max_tokens": n} in, times and token ids out.
// Arguments: model file, backend ("cpu" or "vulkan"), threads, context length.
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [modelPath, backend, threads, contextSize] = process.argv.slice(2);
const put = (object) => process.stdout.write(JSON.stringify(object) + "\n");

const llama = await getLlama({
  gpu: backend === "vulkan" ? "vulkan" : false,
  build: "never",
  maxThreads: Number(threads),
  logLevel: LlamaLogLevel.error,
  progressLogs: false,
});
const onGpu = llama.gpu !== false;
const model = await llama.loadModel({ modelPath, gpuLayers: onGpu ? "max" : 0 });
const context = await model.createContext({ contextSize: Number(contextSize), threads: Number(threads) });
const sequence = context.getSequence();
put({
  backend: onGpu ? llama.gpu : "cpu",
  devices: onGpu ? await llama.getGpuDeviceNames() : [],
  gpu_layers: model.gpuLayers,
  threads: context.currentThreads,
  release: llama.llamaCppRelease.release,
});

for await (const line of createInterface({ input: process.stdin })) {
  const { prompt, max_tokens } = JSON.parse(line);
  await sequence.clearHistory();
  const start = performance.now();
  let first = start;
  const tokens = [];
  for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (tokens.length === 0) first = performance.now();
    tokens.push(token);
    if (tokens.length === max_tokens) break;
  }
  put({ first_token_ms: first - start, decode_ms: performance.now() - first, tokens });
}
await llama.dispose();
