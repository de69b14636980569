// Runs cases.js in a headless Chromium. Arguments: the browser, the folder of models, then parts of the names to run (all if none).
// Ends with `N passed, M failed`.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { serve } from "./serve.mjs";
import { longVisits, visits } from "./visits.mjs";

const [executablePath, models, ...wanted] = process.argv.slice(2);
const CASE_SECONDS = 300;
/** Where long tests put the files that they make; without it they are skipped. */
const target = process.env.FORETOKEN_LONG_TESTS;

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const clients = await build({ entryPoints: [folder("clients.js")], bundle: true, format: "esm", write: false, logLevel: "warning" });
const roots = { pkg: folder(".."), data: folder("../../tests/data"), golden: folder("../../tests/golden"), models };
// A second origin that serves the package alone, and a policy that allows what the package says it needs.
const cdn = await serve({ pkg: folder("..") });
const policy = [
  "default-src 'self'", `script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${cdn.origin}`, `worker-src 'self' blob: ${cdn.origin}`,
  `connect-src 'self' ${cdn.origin}`, "img-src data:",
].join("; ");
const server = await serve(roots, { "/clients.js": clients.outputFiles[0].contents }, policy);
const browser = await chromium.launch({ executablePath, args: CHROMIUM_ARGS });
let [passed, failed] = [0, 0];
try {
  const page = await browser.newPage();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") console.log(`    ${message.text()}`);
  });
  page.on("pageerror", (error) => console.log(`    ${error}`));
  await page.goto(`${server.origin}/pkg/test/page.html?cdn=${encodeURIComponent(cdn.origin)}`);
  while (!(await page.evaluate("window.cases !== undefined"))) await new Promise((resolve) => setTimeout(resolve, 50));
  const names = await page.evaluate("Object.keys(window.cases)");
  const isWanted = (name) => wanted.length === 0 || wanted.some((part) => name.includes(part));
  for (const name of names.filter(isWanted)) await report(name, runCase(page, name));
  for (const [name, run] of Object.entries(visits).filter(([name]) => isWanted(name))) await report(name, messageOf(run(browser)));
  for (const [name, run] of Object.entries(longVisits).filter(([name]) => isWanted(name))) {
    if (target === undefined) console.log(`SKIPPED           ${name}: it takes minutes; FORETOKEN_LONG_TESTS names a folder for its model`);
    else await report(name, messageOf(run(browser, target)));
  }
} finally {
  await browser.close();
  server.close();
  cdn.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

async function report(name, running) {
  const start = performance.now();
  const error = await running;
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (error === undefined) passed++;
  else failed++;
  console.log(`${error === undefined ? "ok    " : "FAILED"} ${seconds.padStart(6)} s  ${name}${error === undefined ? "" : `: ${error}`}`);
}

/** What a promise rejects with, in a line. */
function messageOf(promise) {
  return promise.then(
    () => undefined,
    (error) => String(error.message).split("\n").slice(0, 3).join(" | "),
  );
}

async function runCase(page, name) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(`nothing came of it in ${CASE_SECONDS} s`), CASE_SECONDS * 1000);
  });
  const run = messageOf(page.evaluate((name) => window.cases[name]().then(() => undefined), name));
  const error = await Promise.race([run, late]);
  clearTimeout(timer);
  return error;
}
