// Clients that others wrote, on `engine.fetch`. run.mjs bundles them for the page.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";
import OpenAI from "openai";

const BASE = "http://foretoken.local/v1";

export function openAiClient(fetch) {
  return new OpenAI({ baseURL: BASE, apiKey: "-", fetch, maxRetries: 0, dangerouslyAllowBrowser: true });
}

export { APICallError, generateText, OpenAI, streamText };

/** Our model for Vercel's SDK; `metrics` of an answer become `providerMetadata.foretoken.metrics`, as its documentation has it done. */
export function aiModel(fetch, name = "tiny") {
  const found = (metrics) => (metrics === undefined ? undefined : { foretoken: { metrics } });
  const metadataExtractor = {
    extractMetadata: async ({ parsedBody }) => found(parsedBody.metrics),
    createStreamExtractor: () => {
      let metrics;
      return { processChunk: (chunk) => void (metrics = chunk.metrics ?? metrics), buildMetadata: () => found(metrics) };
    },
  };
  return createOpenAICompatible({ name: "foretoken", baseURL: BASE, fetch, includeUsage: true, metadataExtractor })(name);
}

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
