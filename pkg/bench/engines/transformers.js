// transformers.js on ONNX Runtime's WebGPU back end, with the model that export_onnx.py made.

import { AutoModelForCausalLM, env, Tensor } from "/peers/npm/node_modules/@huggingface/transformers/dist/transformers.min.js";

const RUNTIME = "/peers/npm/node_modules/onnxruntime-web";

export async function load({ dtype }) {
  // Everything from this server: a page on a network would be answered by others' caches.
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: "/peers/", useBrowserCache: false });
  const runtime = `${RUNTIME}/dist/ort-wasm-simd-threaded.asyncify`;
  env.backends.onnx.wasm.wasmPaths = { mjs: `${runtime}.mjs`, wasm: `${runtime}.wasm` };
  const model = await AutoModelForCausalLM.from_pretrained("onnx", { dtype, device: "webgpu" });
  const { version } = await (await fetch(`${RUNTIME}/package.json`)).json();
  return {
    about: { version: `transformers.js ${env.version} (onnxruntime-web ${version})`, backend: "webgpu" },
    async generate({ ids }, tokens, onTokens) {
      const shape = [1, ids.length];
      const found = [];
      const streamer = {
        // The first call has the prompt.
        put: ([row]) => {
          if (found.length === 0 && row.length === ids.length) return;
          found.push(...row.map(Number));
          onTokens(row.length);
        },
        end() {},
      };
      await model.generate({
        input_ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), shape),
        attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape),
        max_new_tokens: tokens,
        do_sample: false,
        streamer,
      });
      return found;
    },
  };
}
