// Assertions that say what they saw.

export function equal(found, expected, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: ${a} where ${b} is due`);
}

export function ok(condition, what) {
  if (!condition) throw new Error(what);
}

/** The error that a promise rejects with. */
export async function failure(promise, what) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`${what}: nothing failed`);
}

export async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/** The model file of the tests, made for them; and a drafter that finds something in nearly any text of it. */
export const TINY = "/data/tiny.gguf";
export const NGRAM = { method: "ngram", num_speculative_tokens: 4, prompt_lookup_min: 1, prompt_lookup_max: 3, adaptive: false };
