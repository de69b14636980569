/** The demo page: a chat, a race, and what happened in them. */

import type { ChatMessage, Engine } from "foretoken";

import { clearSteps, showHistogram, showStep } from "./acceptance.js";
import { type Answer, stream } from "./answer.js";
import { initCheck } from "./browser.js";
import { button, div, element, make } from "./elements.js";
import { initModel, reason } from "./model.js";
import { race } from "./race.js";
import { settings } from "./settings.js";

const question = element("question", HTMLTextAreaElement);
const log = div("log");
let engine: Engine | undefined;
let messages: ChatMessage[] = [];
/** Of the answer that is being made. */
let running: AbortController | undefined;

initModel((loaded) => {
  engine = loaded;
  running?.abort();
  refresh();
  if (loaded !== undefined) question.focus();
});

/** What can be pressed. */
function refresh(): void {
  const idle = engine !== undefined && running === undefined;
  button("send").disabled = button("race").disabled = !idle;
  button("stop").disabled = running === undefined;
}

/** Runs one thing at a time; a stop ends it without an error. */
async function run(work: (engine: Engine, signal: AbortSignal) => Promise<void>, note: (text: string) => void): Promise<void> {
  if (engine === undefined || running !== undefined) return;
  running = new AbortController();
  refresh();
  try {
    await work(engine, running.signal);
  } catch (error) {
    note(running.signal.aborted ? "stopped" : reason(error));
  } finally {
    running = undefined;
    refresh();
  }
}

function add(role: "user" | "assistant", text: string): { text: HTMLElement; note: HTMLElement } {
  const message = make("div", `message ${role}`);
  const parts = { text: make("span", "text", text), note: make("span", "note") };
  message.append(make("span", "who", role === "user" ? "You" : "Model"), parts.text, parts.note);
  log.append(message);
  log.scrollTop = log.scrollHeight;
  return parts;
}

function showRaw({ chunks, last }: Answer): void {
  element("raw", HTMLPreElement).textContent = JSON.stringify(last ?? null, null, 2);
  element("chunks", HTMLPreElement).textContent = chunks.map((chunk) => JSON.stringify(chunk)).join("\n");
}

async function send(): Promise<void> {
  const text = question.value.trim();
  if (text === "" || engine === undefined || running !== undefined) return;
  question.value = "";
  add("user", text);
  const { text: into, note } = add("assistant", "");
  clearSteps();
  // Read out when it is whole, not token by token.
  log.ariaBusy = "true";
  // "New chat" begins another one meanwhile.
  const conversation = messages;
  conversation.push({ role: "user", content: text });
  await run(
    async (engine, signal) => {
      const answer = await stream(engine, { messages: conversation, ...settings() }, into, signal, (tokens) => {
        showStep(tokens);
        log.scrollTop = log.scrollHeight;
      });
      const rate = answer.tokensPerSecond === undefined ? "" : `, ${answer.tokensPerSecond.toFixed(1)} tokens/s`;
      note.textContent = `${answer.tokens.length} tokens${rate}`;
      showHistogram(answer.last?.metrics?.speculative_decoding);
      showRaw(answer);
    },
    (why) => (note.textContent = why),
  );
  log.ariaBusy = "false";
  // As far as it came: a stopped answer is part of the conversation; a question without any answer is not.
  if (into.textContent === "") conversation.pop();
  else conversation.push({ role: "assistant", content: into.textContent ?? "" });
}

element("chat-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  void send();
});
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
button("stop").addEventListener("click", () => running?.abort());
button("reset").addEventListener("click", () => {
  running?.abort();
  messages = [];
  log.replaceChildren();
  question.focus();
});
button("race").addEventListener("click", () => {
  const text = question.value.trim() || "Repeat after me: one two three, one two three, one two three.";
  const note = (why: string) => (element("race-status", HTMLParagraphElement).textContent = why);
  void run(async (engine, signal) => showRaw(await race(engine, [{ role: "user", content: text }], signal)), note);
});
initCheck(() => engine);
