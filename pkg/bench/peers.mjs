// Measures this package and others that run language models in a page, in turn, in one headless Chromium on its software adapter:
// see docs/BENCHMARKS.md. `cargo xtask peers` gets what it needs and calls it; --peers is the folder where that is.
// Every engine's turn is a browser of its own, with one page: nothing is warm but the machine. Ends with 1 where an engine failed.

import { readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "../test/chromium.mjs";
import { serve } from "../test/serve.mjs";
import { summarise, table } from "./report.mjs";

/** `slow`: makes less than one token a second on a software adapter, and is asked for --slow-tokens; `onnx`: the model it runs; `named`: only if named. */
const ENGINES = [
  { name: "foretoken-webgpu", module: "foretoken.js" },
  { name: "wllama-cpu-1", module: "wllama.js", options: { threads: 1 } },
  { name: "wllama-cpu-2", module: "wllama.js", options: { threads: 2 } },
  { name: "wllama-webgpu", module: "wllama.js", options: { gpu: true } },
  { name: "transformers-webgpu-q4", module: "transformers.js", options: { dtype: "q4" }, slow: true, onnx: "model_q4" },
  { name: "transformers-webgpu-f32", module: "transformers.js", options: { dtype: "fp32" }, slow: true, onnx: "model", named: true },
];
/** Golden cases that share no beginning, so that nobody's cache of prefixes helps, and have more tokens than are asked for. */
const PROMPTS = ["chat_math_word", "raw_list_fruits"];
const WARM_UP = "raw_translate";

const { values: given } = parseArgs({
  options: Object.fromEntries(
    ["chromium", "model", "peers", "rounds", "tokens", "slow-tokens", "limit", "engines"].map((name) => [name, { type: "string" }]),
  ),
});
const [rounds, tokens, slowTokens, limit] = ["rounds", "tokens", "slow-tokens", "limit"].map((name) => whole(name, given[name]));
const engines = chosen(given.engines);

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const golden = JSON.parse(readFileSync(folder(`../../tests/golden/${basename(given.model, ".gguf")}.json`), "utf8")).cases;
const prompts = PROMPTS.map(caseOf);
const most = Math.min(...prompts.map((prompt) => prompt.output_ids.length));
if (Math.max(tokens, slowTokens) > most) throw new Error(`--tokens and --slow-tokens are at most ${most}: the golden answers end there`);

// Pages with threads of wasm have to be isolated from other origins.
const isolated = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const roots = { pkg: folder(".."), models: dirname(given.model), peers: given.peers };
const server = await serve(roots, {}, "", isolated);

const began = Date.now();
const loadBefore = loadavg()[0];
const turns = [];
let environment;
console.log(`${engines.length} engines, ${rounds} rounds; one engine's turn may take ${limit} s`);
try {
  for (let round = 0; round < rounds; round++) {
    for (const engine of engines) {
      const { environment: seen, ...turn } = { round, engine: engine.name, ...(await take(engine)) };
      turns.push(turn);
      environment ??= seen;
      console.log(`round ${round + 1} of ${rounds}  ${engine.name.padEnd(24)} ${outcome(turn)}`);
    }
  }
} finally {
  server.close();
}

const asked = engines.map((engine) => ({ name: engine.name, tokens: tokensOf(engine), model: engine.onnx && exported(engine.onnx) }));
const summary = summarise(asked, turns, golden);
const report = {
  ...(environment ?? { browser: "no page", adapter: "unknown", cores: 0 }), rounds, prompts: prompts.map((prompt) => ({ id: prompt.id, tokens: prompt.prompt_ids.length })),
  minutes: (Date.now() - began) / 60_000, load_average: [loadBefore, loadavg()[0]], engines: summary, turns,
};
const file = join(given.peers, "report.json");
writeFileSync(file, `${JSON.stringify(report, undefined, 1)}\n`);
console.log(`\n${table(report)}\n\nall of it: ${file}`);
process.exitCode = summary.some((engine) => engine.failures.length > 0) ? 1 : 0;

function whole(name, text) {
  if (!/^[1-9]\d*$/.test(text ?? "")) throw new Error(`--${name} is ${text}: a number from 1 on is due`);
  return Number(text);
}

function chosen(names) {
  if (names === undefined) return ENGINES.filter((engine) => engine.named !== true);
  const known = ENGINES.map((engine) => engine.name);
  const unknown = names.split(",").filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`--engines has ${unknown.join(", ")}: choose from ${known.join(", ")}`);
  return ENGINES.filter((engine) => names.split(",").includes(engine.name));
}

function caseOf(id) {
  const found = golden.find((entry) => entry.id === id);
  if (found === undefined) throw new Error(`there is no golden case ${id}`);
  return found;
}

function promptOf({ id, prompt_ids, text }) {
  return { id, ids: prompt_ids, text };
}

function tokensOf(engine) {
  return engine.slow ? slowTokens : tokens;
}

/** How the model that export_onnx.py made did on ONNX Runtime's CPU back end. */
function exported(name) {
  const checked = JSON.parse(readFileSync(join(given.peers, "onnx", "checked.json"), "utf8"));
  const { equal_cases, cases } = checked[name];
  return `${name}.onnx, on the CPU ${equal_cases} of ${cases} golden answers equal over ${checked.tokens_a_case} tokens`;
}

/** One engine's turn: loaded and measured in a new browser. What it had reported by the time it failed is kept. */
async function take(engine) {
  const request = {
    module: engine.module,
    options: { ...engine.options, model: `/models/${basename(given.model)}` },
    warmUp: promptOf(caseOf(WARM_UP)),
    prompts: prompts.map(promptOf),
    tokens: tokensOf(engine),
  };
  const turn = { runs: [] };
  const logs = [];
  let doing = "starting the browser";
  const work = async (browser) => {
    const page = await (await browser.newContext()).newPage();
    page.on("console", (message) => logs.push(message.text()));
    page.on("pageerror", (error) => logs.push(String(error)));
    await page.exposeFunction("report", (event) => {
      if (event.doing !== undefined) doing = event.doing;
      if (event.loaded !== undefined) Object.assign(turn, event.loaded);
      if (event.run !== undefined) turn.runs.push(event.run);
    });
    await page.goto(`${server.origin}/pkg/bench/page.html`);
    const gone = new Promise((_, reject) => page.on("crash", () => reject(new Error("the page crashed"))));
    gone.catch(() => {});
    turn.environment = { browser: `Chromium ${browser.version()}`, ...(await page.evaluate(() => window.environment())) };
    await Promise.race([page.evaluate((request) => window.take(request), request), gone]);
  };
  let host, timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came of it in ${limit} s`)), limit * 1000);
  });
  try {
    host = await chromium.launchServer({ executablePath: given.chromium, args: CHROMIUM_ARGS });
    await Promise.race([chromium.connect(host.wsEndpoint()).then(work), late]);
  } catch (error) {
    const said = String(error.message ?? error).split("\n")[0].replace(/^page.evaluate: /, "");
    turn.failure = `${said} (while ${doing})`;
    turn.logs = logs.slice(-20);
  } finally {
    clearTimeout(timer);
    // Its processes end with it, whatever they are at.
    await host?.kill();
  }
  return turn;
}

function outcome({ failure, load_ms, runs, fell_back }) {
  if (failure !== undefined) return `FAILED: ${failure}`;
  const rates = runs.map((run) => `${run.id} ${(1000 * (run.tokens.length - run.first_tokens) / run.decode_ms).toFixed(2)}`);
  const note = fell_back === undefined ? "" : `  (${fell_back})`;
  return `loaded in ${(load_ms / 1000).toFixed(1)} s; tokens/s: ${rates.join(", ")}${note}`;
}
