// The demo page in a headless Chromium, as a person would use it. Arguments: the browser, the page's address, a folder for screenshots.
// Ends with `N passed, M failed`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";

const [executablePath, url, screenshots] = process.argv.slice(2);
const LOAD_MS = 300_000;
const ANSWER_MS = 120_000;

mkdirSync(screenshots, { recursive: true });
const browser = await chromium.launch({ executablePath, args: CHROMIUM_ARGS });
const page = await browser.newPage({ viewport: { width: 1000, height: 900 }, colorScheme: "light" });
let [passed, failed] = [0, 0];
const faults = [];
page.on("pageerror", (error) => faults.push(String(error)));
page.on("console", (message) => message.type() === "error" && faults.push(message.text()));

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

function equal(found, expected) {
  if (found !== expected) throw new Error(`${JSON.stringify(found)} where ${JSON.stringify(expected)} is due`);
}

const idle = (timeout) => page.locator("#send:not([disabled])").waitFor({ timeout });
const text = (selector) => page.locator(selector).innerText();
const shoot = (name) => page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });

await step("the model of the server loads", async () => {
  await page.goto(url);
  await page.click("#load");
  await idle(LOAD_MS);
  if (!(await text("#model-status")).startsWith("smollm2-135m on ")) throw new Error(await text("#model-status"));
});

await step("a question typed and sent is answered, every token coloured", async () => {
  await page.fill("#max-tokens", "24");
  await page.fill("#question", "What is the capital of France?");
  await page.press("#question", "Enter");
  await page.locator("#stop:not([disabled])").waitFor();
  await idle(ANSWER_MS);
  // As transformers answers: tests/golden/smollm2-135m.json.
  equal(await text(".message.assistant .text"), "The capital of France is Paris.");
  equal(await page.locator(".message.assistant .text span").count(), 7);
  equal(await page.locator(".message.assistant .text .prefill").count(), 1);
});

await step("Escape stops an answer, and the next one comes", async () => {
  await page.fill("#max-tokens", "200");
  await page.fill("#question", "Tell me a long story.");
  await page.press("#question", "Enter");
  await page.locator(".message.assistant:last-child .text span").nth(1).waitFor({ timeout: ANSWER_MS });
  await page.keyboard.press("Escape");
  await idle(ANSWER_MS);
  equal(await text(".message.assistant:last-child .note"), "stopped");
});

await step("a new chat during an answer begins without it", async () => {
  await page.fill("#question", "Tell me a long story.");
  await page.press("#question", "Enter");
  await page.locator(".message.assistant:last-child .text span").nth(1).waitFor({ timeout: ANSWER_MS });
  await page.click("#reset");
  await idle(ANSWER_MS);
  await page.fill("#max-tokens", "24");
  await page.fill("#question", "What is the capital of France?");
  await page.press("#question", "Enter");
  await page.locator("#stop:not([disabled])").waitFor();
  await idle(ANSWER_MS);
  equal(await page.locator(".message").count(), 2);
  equal(await text(".message.assistant .text"), "The capital of France is Paris.");
});

await step("a race ends with the same tokens", async () => {
  await page.click("#reset");
  await page.fill("#max-tokens", "24");
  await page.fill("#question", "Repeat after me: one two three one two three one two three");
  await page.click("#race");
  await page.locator("#stop:not([disabled])").waitFor();
  await idle(2 * ANSWER_MS);
  const status = await text("#race-status");
  if (!/^The same \d+ tokens/.test(status)) throw new Error(status);
  if (!(await text("#acceptance-status")).includes("drafts accepted")) throw new Error(await text("#acceptance-status"));
});

await step("what a model says is text, never HTML", async () => {
  await page.fill("#question", "<img src=x onerror=\"document.title='owned'\">");
  await page.press("#question", "Enter");
  await idle(ANSWER_MS);
  equal(await page.locator("#log img").count(), 0);
  equal(await page.title(), "Foretoken");
});

await step("the page fits 360 px, light and dark, and its browser check fills in", async () => {
  await page.click("#browser-details summary");
  await page.locator("#browser dt", { hasText: "Rows are invariant" }).waitFor();
  await shoot("light");
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot("dark");
  await page.setViewportSize({ width: 360, height: 740 });
  await shoot("narrow");
  const overflow = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  equal(overflow, 0);
});

await step("nothing was reported to the console", async () => equal(faults.join("; "), ""));

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
