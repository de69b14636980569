// Runs cases.js in a headless Chromium. Arguments: the browser, the folder of models, then parts of the names to run (all if none).
// Ends with `N passed, M failed`.

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { runCases } from "./report.mjs";
import { openSite } from "./site.mjs";

const [executablePath, models, ...wanted] = process.argv.slice(2);
const CASE_SECONDS = 300;

const site = await openSite(models);
const browser = await chromium.launch({ executablePath, args: CHROMIUM_ARGS });
try {
  const page = await browser.newPage();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") console.log(`    ${message.text()}`);
  });
  page.on("pageerror", (error) => console.log(`    ${error}`));
  await page.goto(site.url("page.html"));
  const names = await page.evaluate("Object.keys(window.cases)");
  await runCases(names, wanted, (name) => page.evaluate((name) => window.cases[name](), name), CASE_SECONDS);
} finally {
  await browser.close();
  site.close();
}
