/** An answer as it comes, its tokens coloured by where they came from. */

import type { ChatCompletionChunk, ChatCompletionParams, Engine, TokenProvenance } from "foretoken";

import { make } from "./elements.js";

/** What is known of an answer that has ended, or was stopped. */
export interface Answer {
  text: string;
  tokens: number[];
  /** Of the first token to the last; undefined for fewer than two. */
  tokensPerSecond: number | undefined;
  chunks: ChatCompletionChunk[];
  /** The chunk with usage and metrics; undefined if it was stopped. */
  last: ChatCompletionChunk | undefined;
}

/** Streams an answer into an element. `onStep` is shown the provenance of each step's tokens. */
export async function stream(
  engine: Engine,
  params: ChatCompletionParams,
  into: HTMLElement,
  signal: AbortSignal,
  onStep: (tokens: TokenProvenance[]) => void = () => {},
): Promise<Answer> {
  const painter = new Painter(engine, into);
  const answer: Answer = { text: "", tokens: [], tokensPerSecond: undefined, chunks: [], last: undefined };
  let [first, latest] = [0, 0];
  const chunks = await engine.chat.completions.create(
    { ...params, stream: true, stream_options: { include_usage: true }, return_token_ids: true, return_token_provenance: true },
    { signal },
  );
  for await (const chunk of chunks) {
    answer.chunks.push(chunk);
    const choice = chunk.choices[0];
    if (choice === undefined) {
      answer.last = chunk;
      continue;
    }
    const ids = choice.token_ids ?? [];
    if (ids.length > 0) {
      latest = performance.now();
      first ||= latest;
      onStep(choice.token_provenance ?? []);
    }
    answer.tokens.push(...ids);
    answer.text += choice.delta.content;
    await painter.paint(choice.delta.content, ids, choice.token_provenance ?? []);
  }
  if (answer.tokens.length > 1) answer.tokensPerSecond = ((answer.tokens.length - 1) * 1000) / (latest - first);
  return answer;
}

/** Text may come later than its tokens: what may be the start of a stop string is held back. */
class Painter {
  private readonly waiting: { piece: string; from: TokenProvenance }[] = [];

  constructor(private readonly engine: Engine, private readonly into: HTMLElement) {}

  async paint(text: string, ids: number[], provenance: TokenProvenance[]): Promise<void> {
    const pieces = ids.length > 0 ? await this.engine.detokenize(ids) : [];
    pieces.forEach((piece, i) => this.waiting.push({ piece, from: provenance[i] ?? "plain" }));
    let rest = text;
    while (rest !== "") {
      const next = this.waiting.shift();
      // A character of several tokens is no piece of any of them: it and what follows in this chunk stay uncoloured.
      if (next === undefined || !rest.startsWith(next.piece)) {
        this.into.append(make("span", "plain", rest));
        this.waiting.length = 0;
        return;
      }
      if (next.piece !== "") this.into.append(make("span", next.from, next.piece));
      rest = rest.slice(next.piece.length);
    }
  }
}
