// Runs cases.js and smollm2.js in a headless Firefox, over WebDriver BiDi. Arguments: the browser, the folder of models, then parts of the
// names to run (all if none). Ends with `N passed, M failed`. Where this Firefox has no adapter it skips, or fails if FORETOKEN_REQUIRE_GPU
// is 1.

import puppeteer from "puppeteer-core";

import { runCases } from "./report.mjs";
import { openSite } from "./site.mjs";

const [executablePath, models, ...wanted] = process.argv.slice(2);
const CASE_SECONDS = 600;

/** WebGPU, on a software driver too, and in a process that may load it. */
const PREFERENCES = {
  "dom.webgpu.enabled": true,
  "dom.webgpu.workers.enabled": true,
  "gfx.webgpu.ignore-blocklist": true,
  "gfx.webgpu.force-enabled": true,
  "security.sandbox.gpu.level": 0,
  "security.sandbox.content.level": 0,
};

const site = await openSite(models);
const browser = await puppeteer.launch({
  browser: "firefox", executablePath, headless: true, extraPrefsFirefox: PREFERENCES, protocolTimeout: 2 * CASE_SECONDS * 1000,
});
try {
  console.log(await browser.version());
  const page = await browser.newPage();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") console.log(`    ${message.text()}`);
  });
  page.on("pageerror", (error) => console.log(`    ${error}`));
  await page.goto(site.url("firefox.html"));
  if (await page.evaluate(async () => ((await navigator.gpu?.requestAdapter()) ?? null) !== null)) {
    const names = await page.evaluate("Object.keys(window.cases)");
    await runCases(names, wanted, (name) => page.evaluate((name) => window.cases[name](), name), CASE_SECONDS);
  } else {
    const isRequired = process.env.FORETOKEN_REQUIRE_GPU === "1";
    console.log(`${isRequired ? "FAILED" : "SKIPPED"}: this Firefox offers no WebGPU adapter`);
    console.log(isRequired ? "0 passed, 1 failed" : "0 passed, 0 failed, 1 skipped");
    process.exitCode = isRequired ? 1 : 0;
  }
} finally {
  await browser.close();
  site.close();
}
