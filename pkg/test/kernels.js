// What a user finds out about a browser: whether its kernels compute what they should, and what passes cost.

import { checkKernels, createEngine } from "/pkg/dist/index.js";
import { equal, NGRAM, ok, TINY } from "./check.js";

/** Shaders as this page's devices get them, changed by `alter`; gives back what `run` gives. */
async function withShaders(alter, run) {
  const { createShaderModule } = GPUDevice.prototype;
  GPUDevice.prototype.createShaderModule = function ({ code, ...rest }) {
    return createShaderModule.call(this, { ...rest, code: alter(code) });
  };
  try {
    return await run();
  } finally {
    GPUDevice.prototype.createShaderModule = createShaderModule;
  }
}

const faulty = ({ kernels }) => kernels.filter(({ fault }) => fault !== null);

export const cases = {
  "every kernel agrees with the CPU, twice, and says so as it goes": async () => {
    const seen = [];
    const { adapter, kernels } = await checkKernels({ onKernel: (check) => seen.push(check) });
    equal(faulty({ kernels }), [], `faults on ${adapter.name}, tier ${adapter.tier}`);
    equal(seen, kernels, "what was told on the way");
    ok(adapter.name !== "", "the adapter has a name");
    for (const op of ["embed[", "matmul[", "matmul_add[", "matmul_glu[", "rms_norm", "qk_norm", "attention, short", "attention, long", "attention, a window", "choose", "logprobs", "next_step"]) {
      ok(kernels.some(({ kernel }) => kernel.startsWith(op)), `${op} was not run`);
    }
  },

  "a kernel that a browser computes wrongly is named": async () => {
    // The clamp of silu, put where it changes results.
    const alter = (code) => code.replaceAll("min(-v, 80.0)", "min(-v, 0.5)");
    const report = await withShaders(alter, () => checkKernels({ tier: "base" }));
    const names = faulty(report).map(({ kernel }) => kernel.split("[")[0]);
    equal([...new Set(names)], ["matmul_glu"], "the faulty kernels");
    ok(names.length > 5, `${names.length} of them`);
    ok(/where the CPU has/.test(faulty(report)[0].fault), faulty(report)[0].fault);
  },

  "what passes cost is measured between requests": async () => {
    for (const worker of [true, false]) {
      const engine = await createEngine({ model: TINY, tier: "base", worker, speculativeConfig: NGRAM });
      try {
        const request = { prompt: "the cat the cat the", max_tokens: 20, temperature: 0 };
        const before = await engine.completions.create(request);
        const [times, between] = await Promise.all([engine.passTimes(), engine.completions.create(request)]);
        equal(times.map(([rows]) => rows), [1, 2, 4, 8, 16], "rows");
        ok(times.every(([, ms]) => ms > 0 && ms < 60_000), `milliseconds ${times}`);
        equal(between.choices, before.choices, "an answer in between");
        equal((await engine.completions.create(request)).choices, before.choices, "an answer after");
      } finally {
        await engine.unload();
      }
    }
  },
};
