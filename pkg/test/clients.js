// Clients that others wrote, on `engine.fetch`. run.mjs bundles them for the page.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const BASE = "http://foretoken.local/v1";

export function openAiClient(fetch) {
  return new OpenAI({ baseURL: BASE, apiKey: "-", fetch, maxRetries: 0, dangerouslyAllowBrowser: true });
}

export { OpenAI };

/** The text and the finish reason of an answer, by Vercel's SDK, whole and streamed. */
export async function withAiSdk(fetch, prompt, maxOutputTokens) {
  const provider = createOpenAICompatible({ name: "foretoken", baseURL: BASE, fetch, includeUsage: true });
  const request = { model: provider("tiny"), prompt, maxOutputTokens, temperature: 0, maxRetries: 0 };
  const whole = await generateText(request);
  const streamed = streamText(request);
  let text = "";
  for await (const part of streamed.textStream) text += part;
  return {
    whole: { text: whole.text, finish: whole.finishReason, tokens: whole.usage.outputTokens },
    streamed: { text, finish: await streamed.finishReason, tokens: (await streamed.usage).outputTokens },
  };
}
