// Runs the cases of page.html in a headless Chromium. Arguments: the browser, the folder of models, then parts of the names to run (all if
// none); `--all` anywhere runs the long cases too. Ends with `N passed, M failed`.

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { runCases } from "./report.mjs";
import { openSite } from "./site.mjs";

const [executablePath, models, ...wanted] = process.argv.slice(2).filter((argument) => argument !== "--all");
const withLong = process.argv.includes("--all");
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
  const [names, long] = await page.evaluate("[window.cases, window.longCases].map((cases) => Object.keys(cases))");
  const call = (name) => page.evaluate((name) => (window.cases[name] ?? window.longCases[name])(), name);
  await runCases(withLong ? [...names, ...long] : names, wanted, call, CASE_SECONDS, withLong ? [] : long);
} finally {
  await browser.close();
  site.close();
}
