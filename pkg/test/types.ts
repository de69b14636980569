// Compiled, never run: our answers are assignable to the types of OpenAI's client, whose requests our calls take.

import type OpenAI from "openai";

import type { ChatCompletion, ChatCompletionChunk, Engine, Model, TextCompletion } from "../src/index.js";

declare const answer: ChatCompletion;
declare const chunk: ChatCompletionChunk;
declare const text: TextCompletion;
declare const model: Model;
declare const engine: Engine;

export const theirAnswer: OpenAI.ChatCompletion = answer;
export const theirChunk: OpenAI.ChatCompletionChunk = chunk;
export const theirText: OpenAI.Completion = text;
export const theirModel: OpenAI.Model = model;
export const theirFetch: typeof globalThis.fetch = engine.fetch;

export async function kinds(): Promise<void> {
  const messages = [{ role: "user", content: "Hello" }];
  const whole = await engine.chat.completions.create({ messages });
  whole.choices[0]?.message.content satisfies string | undefined;
  for await (const part of await engine.chat.completions.create({ messages, stream: true })) {
    part.choices[0]?.delta.content satisfies string | undefined;
  }
  // An answer can be sent back as it came, with the results of what it called.
  const call = whole.choices[0]?.message.tool_calls?.[0];
  const result = { role: "tool", tool_call_id: call?.id ?? null, content: "3" };
  const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: { type: "object" } } }];
  if (whole.choices[0]) await engine.chat.completions.create({ messages: [...messages, whole.choices[0].message, result], tools });
  // @ts-expect-error: a request needs its messages.
  await engine.chat.completions.create({ stream: true });
}
