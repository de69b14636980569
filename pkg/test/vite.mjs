// The packed package in an application that Vite builds, and that Vite's development server serves; and in a page without a build, from a
// second origin and under a content security policy that forbids blobs.
// Arguments: the browser, a folder to work in. Ends with `N passed, M failed`.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";
import { build, createServer, preview } from "vite";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { serve } from "./serve.mjs";

const [executablePath, root] = process.argv.slice(2);
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const ANSWER_MS = 120_000;

rmSync(root, { recursive: true, force: true });
cpSync(folder("app"), root, { recursive: true });
const installed = join(root, "node_modules", "foretoken");
mkdirSync(installed, { recursive: true });
const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", root], { cwd: folder("..") }));
execFileSync("tar", ["-xzf", join(root, packed.filename), "-C", installed, "--strip-components=1"]);

const data = await serve({ data: folder("../../tests/data") });
const browser = await chromium.launch({ executablePath, args: CHROMIUM_ARGS });
let [passed, failed] = [0, 0];

/** A page's answer: a text, or the error. */
async function answerAt(url, more = {}) {
  const page = await browser.newPage();
  await page.goto(`${url}?${new URLSearchParams({ model: `${data.origin}/data/tiny.gguf`, ...more })}`);
  // Asked from outside: what waits inside the page evaluates strings, which a policy forbids.
  let answer;
  for (let waited = 0; answer === undefined && waited < ANSWER_MS; waited += 50) {
    answer = await page.evaluate("window.answer");
    if (answer === undefined) await page.waitForTimeout(50);
  }
  await page.close();
  return answer;
}

async function step(name, run) {
  try {
    await run();
    passed++;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}

/** The first answer; all others must be the same. */
let expected;
function isAnswer(answer) {
  if (typeof answer !== "string" || answer === "") throw new Error(`the answer is ${JSON.stringify(answer)}`);
  expected ??= answer;
  if (answer !== expected) throw new Error(`the answer is ${JSON.stringify(answer)}, not ${JSON.stringify(expected)}`);
}

await step("the tarball holds what it promises, and licences of what is in the wasm file", async () => {
  const files = packed.files.map(({ path }) => path);
  for (const file of ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES", "dist/index.js", "dist/index.d.ts", "dist/worker.js", "wasm/foretoken_bg.wasm"]) {
    if (!files.includes(file)) throw new Error(`${file} is not in ${files}`);
  }
  const notice = readFileSync(join(installed, "THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["wgpu", "tokenizers", "wasm-bindgen"]) if (!notice.includes(`\n- ${name} `)) throw new Error(`the notice has no ${name}`);
});

// What README.md says an application has to say, and no more.
const options = { root, configFile: false, logLevel: "error", optimizeDeps: { exclude: ["foretoken"] } };
for (const [name, start] of [
  ["Vite's build", async () => (await build(options), preview({ ...options, preview: { port: 0 } }))],
  ["Vite's development server", async () => (await createServer({ ...options, server: { port: 0 } })).listen()],
]) {
  await step(name, async () => {
    const server = await start();
    try {
      isAnswer(await answerAt(server.resolvedUrls.local[0]));
    } finally {
      await server.close();
    }
  });
}

const cdn = await serve({ foretoken: installed });
/** A page without a build, under a policy that lets workers come from `workers`. */
async function plain(workers, more) {
  const policy = [
    "default-src 'self'", `script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${cdn.origin}`, `worker-src ${workers}`,
    `connect-src 'self' ${cdn.origin} ${data.origin}`, "img-src data:",
  ].join("; ");
  const site = await serve({ plain: folder("plain"), foretoken: installed }, {}, policy);
  try {
    return await answerAt(`${site.origin}/plain/index.html`, more);
  } finally {
    site.close();
  }
}
const there = { package: `${cdn.origin}/foretoken` };
await step("a plain page, the package beside it, no blobs", async () => isAnswer(await plain("'self'", { package: "/foretoken" })));
await step("a plain page, the package on a second origin", async () => isAnswer(await plain(`'self' blob: ${cdn.origin}`, there)));
await step("a plain page, the package on a second origin, no blobs, with workerUrl", async () =>
  isAnswer(await plain("'self'", { ...there, workerUrl: "/foretoken/dist/worker.js" })));
await step("without workerUrl that is an error which names it", async () => {
  const { code, message } = await plain("'self'", there);
  if (code !== "worker_lost" || !message.includes("workerUrl")) throw new Error(`${code}: ${message}`);
});

await browser.close();
cdn.close();
data.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
