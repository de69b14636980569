// The packed package in an application that Vite builds, and that Vite's development server serves.
// Arguments: the browser, a folder to work in. Ends with `N passed, M failed`.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
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

/** The application's answer, from the address at which it is served. */
async function answerAt(url) {
  const page = await browser.newPage();
  await page.goto(`${url}?model=${encodeURIComponent(`${data.origin}/data/tiny.gguf`)}`);
  await page.waitForFunction("window.answer !== undefined", undefined, { timeout: ANSWER_MS });
  const answer = await page.evaluate("window.answer");
  await page.close();
  return answer;
}

// What README.md says an application has to say, and no more.
const options = { root, configFile: false, logLevel: "error", optimizeDeps: { exclude: ["foretoken"] } };
for (const [name, start] of [
  ["Vite's build", async () => (await build(options), preview({ ...options, preview: { port: 0 } }))],
  ["Vite's development server", async () => (await createServer({ ...options, server: { port: 0 } })).listen()],
]) {
  try {
    const server = await start();
    const answer = await answerAt(server.resolvedUrls.local[0]);
    await server.close();
    if (typeof answer !== "string" || answer === "") throw new Error(`the answer is ${JSON.stringify(answer)}`);
    passed++;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}

await browser.close();
data.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
