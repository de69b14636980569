// Runs the cases of page.html in a headless Chromium. Arguments: the browser, the folder of models, then parts of the names to run (all if
// none); `--all=FOLDER` anywhere runs the long cases too, which make files in that folder. Ends with `N passed, M failed`.

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";
import { runCases } from "./report.mjs";
import { openSite } from "./site.mjs";
import { longVisits, visits } from "./visits.mjs";

const ALL = "--all=";
const [executablePath, models, ...wanted] = process.argv.slice(2).filter((argument) => !argument.startsWith(ALL));
/** Where the long cases make files; without it they are skipped. */
const forged = process.argv.find((argument) => argument.startsWith(ALL))?.slice(ALL.length);
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
  // Not waitForFunction, which the policy forbids.
  while (!(await page.evaluate("window.cases !== undefined"))) await new Promise((resolve) => setTimeout(resolve, 50));
  const [names, long] = await page.evaluate("[window.cases, window.longCases].map((cases) => Object.keys(cases))");
  names.push(...Object.keys(visits));
  long.push(...Object.keys(longVisits));
  const call = (name) => {
    if (visits[name]) return visits[name](browser);
    if (longVisits[name]) return longVisits[name](browser, forged);
    return page.evaluate((name) => (window.cases[name] ?? window.longCases[name])(), name);
  };
  if (forged === undefined) await runCases(names, wanted, call, CASE_SECONDS, long);
  else await runCases([...names, ...long], wanted, call, CASE_SECONDS);
} finally {
  await browser.close();
  site.close();
}
