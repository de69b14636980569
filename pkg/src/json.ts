/** Parameters as JSON. */

import { EngineError } from "./errors.js";

/** The JSON of parameters. What JSON would turn into something else without a word (NaN into null) is refused, by the name of its field. */
export function toJson(params: unknown): string {
  let root: unknown;
  let field = "";
  const refused = (problem: string, cause?: unknown) =>
    new EngineError("invalid_request", `${field === "" ? "the parameters" : `\`${field}\``} ${problem}`, { param: field || null, cause });
  function check(this: unknown, key: string, value: unknown): unknown {
    // The first call is for all of it, and what it holds has it as `this`.
    if (key === "" && root === undefined) root = value;
    else if (this === root) field = key;
    const isNumber = typeof value === "number" && Number.isFinite(value);
    if (!isNumber && ["number", "bigint", "function", "symbol"].includes(typeof value)) {
      throw refused(`must not be or hold ${typeof value === "number" ? value : `a ${typeof value}`}: JSON has no form for it`);
    }
    return value;
  }
  try {
    return JSON.stringify(params, check) ?? "null";
  } catch (error) {
    if (error instanceof EngineError) throw error;
    throw refused(`cannot be written as JSON: ${String(error).split("\n")[0]}`, error);
  }
}
