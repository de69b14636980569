// What a caller gets through the clients that others wrote, on `engine.fetch`: OpenAI's and Vercel's, whole and streamed.

import { createEngine } from "/pkg/dist/index.js";
import { aiModel, APICallError, generateText, OpenAI, openAiClient, streamText } from "/clients.js";
import { all, equal, failure, NGRAM, ok, TINY } from "./check.js";

const MESSAGES = [{ role: "user", content: "What is 7?" }];
const LONG = { max_tokens: 40, ignore_eos: true };

/** Runs with an engine that speculates and tells everything it can. */
async function withEngine(test) {
  const engine = await createEngine({
    model: TINY, tier: "base", speculativeConfig: NGRAM, perRequestSpecDecodeMetrics: "summary", enablePerRequestMetrics: true,
  });
  try {
    await test(engine);
  } finally {
    await engine.unload();
  }
}

/** What our own interface says to the same question: what a client must pass on. */
const ours = (engine, more) => engine.chat.completions.create({ messages: MESSAGES, temperature: 0, max_tokens: 12, ...more });

/** Acceptance of an answer: what does not depend on time. */
const acceptance = (metrics) => metrics?.speculative_decoding;

/** A limit that ends an answer, and a text at which it stops: both finish reasons. */
async function endings(engine) {
  const { choices } = await ours(engine, { ignore_eos: true });
  const words = choices[0].message.content;
  const stop = words.slice(3, 5);
  ok(stop.length === 2, `too short an answer to stop in: ${JSON.stringify(words)}`);
  const stopped = await ours(engine, { ignore_eos: true, stop });
  equal([choices[0].finish_reason, stopped.choices[0].finish_reason], ["length", "stop"], "our finish reasons");
  return [{ more: { ignore_eos: true } }, { more: { ignore_eos: true, stop } }];
}

/** The engine answers as before, and nothing runs. */
async function isFresh(engine, before) {
  equal((await ours(engine)).choices[0].message, before.choices[0].message, "the answer after");
  equal((await engine.metrics()).num_requests_running, 0, "what runs");
}

export const cases = {
  "OpenAI's client: finish reasons, usage and metrics, whole and streamed": () => withEngine(async (engine) => {
    const client = openAiClient(engine.fetch);
    for (const { more } of await endings(engine)) {
      const request = { model: "tiny", messages: MESSAGES, temperature: 0, max_tokens: 12, ...more };
      const expected = await ours(engine, more);
      equal(acceptance(expected.metrics).num_spec_tokens, 4, "our metrics");
      const { text, finish } = { text: expected.choices[0].message.content, finish: expected.choices[0].finish_reason };
      const tokens = [expected.usage.prompt_tokens, expected.usage.completion_tokens, expected.usage.total_tokens];
      const counted = ({ prompt_tokens, completion_tokens, total_tokens }) => [prompt_tokens, completion_tokens, total_tokens];

      const whole = await client.chat.completions.create(request);
      equal([whole.choices[0].message.content, whole.choices[0].finish_reason], [text, finish], "whole");
      equal(counted(whole.usage), tokens, "usage of the whole");
      equal(acceptance(whole.metrics), acceptance(expected.metrics), "metrics of the whole");
      ok(whole.metrics.generation_time_ms >= 0, "times of the whole");

      const chunks = await all(await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }));
      equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), text, "streamed");
      equal(chunks.map((chunk) => chunk.choices[0]?.finish_reason ?? null).filter(Boolean), [finish], "the finish reason, once");
      const last = chunks.at(-1);
      equal(counted(last.usage), tokens, "usage of the stream");
      equal(acceptance(last.metrics), acceptance(expected.metrics), "metrics of the stream");
      ok(last.metrics.generation_time_ms >= 0, "times of the stream");

      const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
      const final = await stream.finalChatCompletion();
      equal([final.choices[0].message.content, final.choices[0].finish_reason], [text, finish], "their accumulated stream");
      equal(counted(await stream.totalUsage()), tokens, "their total usage");
    }
  }),

  "OpenAI's client: a 400 and a 404 reach the caller with param and code, whole and streamed": () => withEngine(async (engine) => {
    const client = openAiClient(engine.fetch);
    const request = { model: "tiny", messages: MESSAGES };
    for (const stream of [false, true]) {
      const refused = await failure(client.chat.completions.create({ ...request, stream, temperature: 9 }), "temperature 9");
      ok(refused instanceof OpenAI.BadRequestError, `a BadRequestError, not ${refused}`);
      equal([refused.status, refused.code, refused.param], [400, "invalid_request", "temperature"], "error");
      ok(refused.message.includes("temperature"), `the message: ${refused.message}`);
      const unknown = await failure(client.chat.completions.create({ ...request, stream, temprature: 1 }), "a misspelt field");
      equal([unknown.status, unknown.param], [400, "temprature"], "a misspelt field");
      const long = { role: "user", content: "7 ".repeat(500) };
      const context = await failure(client.chat.completions.create({ ...request, stream, messages: [long] }), "too long a prompt");
      equal([context.status, context.code, context.param], [400, "context_length_exceeded", "messages"], "too long a prompt");
      const other = await failure(client.chat.completions.create({ ...request, stream, model: "gpt" }), "another model");
      ok(other instanceof OpenAI.NotFoundError, `a NotFoundError, not ${other}`);
      equal([other.code, other.param], ["model_not_found", "model"], "another model");
    }
    const text = await failure(client.completions.create({ model: "tiny", prompt: "the", best_of: 3 }), "best_of");
    equal([text.status, text.param], [400, "best_of"], "a text completion");
  }),

  "OpenAI's client: an abort ends a whole answer and a stream, and the next is a fresh engine's": () => withEngine(async (engine) => {
    const client = openAiClient(engine.fetch);
    const request = { model: "tiny", messages: MESSAGES, temperature: 0, ...LONG };
    const before = await ours(engine);
    const whole = new AbortController();
    const flying = failure(client.chat.completions.create(request, { signal: whole.signal }), "aborted while it is answered");
    for (let i = 0; i < 500 && (await engine.metrics()).num_requests_running === 0; i++) await new Promise((resolve) => setTimeout(resolve));
    whole.abort();
    ok((await flying) instanceof OpenAI.APIUserAbortError, "an APIUserAbortError");
    await isFresh(engine, before);

    const stream = await client.chat.completions.create({ ...request, stream: true });
    let seen = 0;
    for await (const _ of stream) if (++seen === 2) stream.controller.abort();
    equal(seen, 2, "chunks before the abort");
    await isFresh(engine, before);
    for await (const _ of await client.chat.completions.create({ ...request, stream: true })) break;
    await isFresh(engine, before);
    equal((await engine.metrics()).requests.abort, 3, "aborted requests");
  }),

  "Vercel's SDK: finish reasons, usage and metrics, whole and streamed": () => withEngine(async (engine) => {
    // A field that OpenAI does not have goes under the provider's name.
    const asked = ({ stop, ...foretoken }) => ({
      model: aiModel(engine.fetch), messages: MESSAGES, temperature: 0, maxOutputTokens: 12, maxRetries: 0,
      providerOptions: { foretoken }, ...(stop === undefined ? {} : { stopSequences: [stop] }),
    });
    for (const { more } of await endings(engine)) {
      const expected = await ours(engine, more);
      equal(acceptance(expected.metrics).num_spec_tokens, 4, "our metrics");
      const { message, finish_reason } = expected.choices[0];
      const tokens = [expected.usage.prompt_tokens, expected.usage.completion_tokens, expected.usage.total_tokens];
      const counted = ({ inputTokens, outputTokens, totalTokens }) => [inputTokens, outputTokens, totalTokens];

      const whole = await generateText(asked(more));
      equal([whole.text, whole.finishReason], [message.content, finish_reason], "whole");
      equal(counted(whole.usage), tokens, "usage of the whole");
      equal(acceptance(whole.providerMetadata.foretoken.metrics), acceptance(expected.metrics), "metrics of the whole");

      const streamed = streamText(asked(more));
      let text = "";
      for await (const part of streamed.textStream) text += part;
      equal([text, await streamed.finishReason], [message.content, finish_reason], "streamed");
      equal(counted(await streamed.usage), tokens, "usage of the stream");
      equal(acceptance((await streamed.providerMetadata).foretoken.metrics), acceptance(expected.metrics), "metrics of the stream");
    }
  }),

  "Vercel's SDK: a 400 and a 404 reach the caller with param and code, whole and streamed": () => withEngine(async (engine) => {
    const request = { messages: MESSAGES, maxRetries: 0 };
    /** What a stream says went wrong. */
    const streamed = async (asked) => {
      const { fullStream } = streamText({ ...asked, onError: () => {} });
      for await (const part of fullStream) if (part.type === "error") return part.error;
      throw new Error("nothing failed");
    };
    const whole = (asked) => failure(generateText(asked), "refused");
    for (const ask of [whole, streamed]) {
      const refused = await ask({ ...request, model: aiModel(engine.fetch), temperature: 9 });
      ok(APICallError.isInstance(refused), `an APICallError, not ${refused}`);
      const { error } = refused.data;
      equal([refused.statusCode, refused.isRetryable, error.code, error.param], [400, false, "invalid_request", "temperature"], ask.name);
      ok(refused.message.includes("temperature"), `the message: ${refused.message}`);
      const other = await ask({ ...request, model: aiModel(engine.fetch, "gpt") });
      equal([other.statusCode, other.data.error.param], [404, "model"], ask.name);
    }
  }),

  "Vercel's SDK: an abort ends a whole answer and a stream, and the next is a fresh engine's": () => withEngine(async (engine) => {
    const before = await ours(engine);
    const asked = (abortSignal) => ({
      model: aiModel(engine.fetch), messages: MESSAGES, temperature: 0, maxOutputTokens: LONG.max_tokens, maxRetries: 0, abortSignal,
      providerOptions: { foretoken: { ignore_eos: true } },
    });
    const whole = new AbortController();
    const flying = failure(generateText(asked(whole.signal)), "aborted while it is answered");
    for (let i = 0; i < 500 && (await engine.metrics()).num_requests_running === 0; i++) await new Promise((resolve) => setTimeout(resolve));
    whole.abort();
    equal((await flying).name, "AbortError", "whole");
    await isFresh(engine, before);

    const controller = new AbortController();
    const kinds = [];
    for await (const part of streamText({ ...asked(controller.signal), onError: () => {} }).fullStream) {
      kinds.push(part.type);
      if (kinds.filter((kind) => kind === "text-delta").length === 2) controller.abort();
    }
    ok(kinds.includes("abort") && !kinds.includes("finish"), `the stream's parts: ${kinds}`);
    await isFresh(engine, before);
    equal((await engine.metrics()).requests.abort, 2, "aborted requests");
  }),
};
