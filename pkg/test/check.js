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
