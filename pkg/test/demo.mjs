// The demo page in a headless Chromium, as a person would use it. Arguments: the browser, the page's address, a folder for screenshots.
// Ends with `N passed, M failed`.

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { CHROMIUM_ARGS } from "./chromium.mjs";

const [executablePath, url, screenshots] = process.argv.slice(2);
const LOAD_MS = 300_000;
const ANSWER_MS = 120_000;
const TINY = fileURLToPath(new URL("../../tests/data/tiny.gguf", import.meta.url));

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
  const status = await text("#model-status");
  if (!/^smollm2-135m on .*its SHA-256 is right\.$/.test(status)) throw new Error(status);
  if (!(await text("#about")).includes("Licence: Apache-2.0")) throw new Error(await text("#about"));
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

await step("the response is shown as it came", async () => {
  const chunks = (await page.locator("#chunks").textContent()).split("\n").map((line) => JSON.parse(line));
  const said = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  equal(await text(".message.assistant:last-child .text"), said.trim());
  const last = JSON.parse(await page.locator("#raw").textContent());
  equal(last.usage.completion_tokens, chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? []).length);
});

await step("settings reach the request, and a wrong one is said", async () => {
  await page.fill("#top-p", "7");
  await page.fill("#question", "Hello");
  await page.press("#question", "Enter");
  await page.locator(".message.assistant:last-child .note", { hasText: "top_p" }).waitFor({ timeout: ANSWER_MS });
  await page.fill("#top-p", "1");
});

await step("checking the browser runs every kernel and times passes, and the report can be copied", async () => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.click("#check");
  await page.locator("#copy:not([disabled])").waitFor({ timeout: LOAD_MS });
  const report = await page.locator("#report").textContent();
  for (const line of [/^adapter .*\w/m, /^kernels +(\d+) of \1 agree/m, /^of m rows +v\(2\) = [\d.]+ +v\(4\) = [\d.]+ +v\(8\) = /m, /^rows of a pass +holds/m]) {
    if (!line.test(report)) throw new Error(`the report has no ${line}: ${report}`);
  }
  await page.click("#copy");
  equal(await page.evaluate("navigator.clipboard.readText()"), report);
});

await step("every control has a name, and the keyboard reaches each", async () => {
  const controls = page.locator("button, input, select, textarea, summary, [tabindex='0']");
  const unnamed = await controls.evaluateAll((found) => found.filter((control) => {
    const labels = [...(control.labels ?? [])].map((label) => label.textContent).join("");
    const by = document.getElementById(control.getAttribute("aria-labelledby"))?.textContent;
    return !(labels || by || control.ariaLabel || control.textContent.trim());
  }).map((control) => control.outerHTML));
  equal(unnamed.join(" "), "");
  await page.evaluate("document.activeElement.blur()");
  const reached = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate("document.activeElement.id || document.activeElement.tagName"));
  }
  for (const id of ["picker", "load", "temperature", "lookup-match", "question", "send", "race", "reset", "raw", "check", "copy"]) {
    if (!reached.has(id) && (await page.locator(`#${id}`).isVisible()) && (await page.locator(`#${id}`).isEnabled())) throw new Error(`Tab does not reach #${id}`);
  }
});

await step("a file of one's own is dropped or chosen, and a bad address is said", async () => {
  await page.selectOption("#picker", "address");
  await page.fill("#address", "models/absent.gguf");
  await page.click("#load");
  await page.locator("#model-status", { hasText: "model_not_found" }).waitFor({ timeout: LOAD_MS });
  // The browser reports that itself.
  faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes("404")));
  await page.selectOption("#picker", "file");
  await page.setInputFiles("#file", TINY);
  await page.locator("#model-status", { hasText: /^tiny on / }).waitFor({ timeout: LOAD_MS });
  const bytes = [...readFileSync(TINY)];
  const transfer = await page.evaluateHandle((bytes) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], "dropped.gguf"));
    return transfer;
  }, bytes);
  await page.dispatchEvent("main", "drop", { dataTransfer: transfer });
  await page.locator("#model-status", { hasText: /^dropped on / }).waitFor({ timeout: LOAD_MS });
});

await step("a second model drafts; one that cannot is left out, and said", async () => {
  equal(await page.locator("#method-draft-model").isDisabled(), true);
  await page.selectOption("#draft-picker", "file");
  // Nothing loads before the second is chosen too.
  await page.setInputFiles("#file", TINY);
  equal(await text("#load"), "Load");
  await page.setInputFiles("#draft-file", TINY);
  await page.click("#load");
  await page.locator("#model-status", { hasText: /^tiny, with tiny to draft on / }).waitFor({ timeout: LOAD_MS });
  equal(await page.inputValue("#method"), "auto");
  await page.selectOption("#method", "draft_model");
  await page.click("#reset");
  await page.fill("#question", "the cat");
  await page.press("#question", "Enter");
  await page.locator("#stop:not([disabled])").waitFor();
  await idle(ANSWER_MS);
  const accepted = /^(\d+) of \1 drafts accepted/;
  const status = await text("#acceptance-status");
  if (!accepted.test(status)) throw new Error(`the model is its own draft: ${status}`);
  await page.setInputFiles("#draft-file", { name: "broken.gguf", mimeType: "", buffer: Buffer.from("GGUF") });
  await page.click("#load");
  await page.locator("#model-status", { hasText: /^tiny on .* It drafts without a model: .*broken/ }).waitFor({ timeout: LOAD_MS });
  equal(await page.inputValue("#method"), "ngram");
});

await step("the page fits 360 px, light and dark", async () => {
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
