// Runs cases.js in a headless Chromium. Arguments: the browser, the folder of models, then parts of the names to run (all if none).
// Ends with `N passed, M failed`.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { serve } from "./serve.mjs";

const [executablePath, models, ...wanted] = process.argv.slice(2);
const CASE_SECONDS = 300;

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
  const names = await page.evaluate("Object.keys(window.cases)");
  for (const name of names.filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))) {
    const start = performance.now();
    const error = await runCase(page, name);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    if (error === undefined) passed++;
    else failed++;
    console.log(`${error === undefined ? "ok    " : "FAILED"} ${seconds.padStart(6)} s  ${name}${error === undefined ? "" : `: ${error}`}`);
  }
} finally {
  await browser.close();
  server.close();
  cdn.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

async function runCase(page, name) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(`nothing came of it in ${CASE_SECONDS} s`), CASE_SECONDS * 1000);
  });
  const run = page.evaluate((name) => window.cases[name]().then(() => undefined), name).then(
    () => undefined,
    (error) => String(error.message).split("\n").slice(0, 3).join(" | "),
  );
  const error = await Promise.race([run, late]);
  clearTimeout(timer);
  return error;
}
