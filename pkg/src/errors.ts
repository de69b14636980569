/** The one error class, and how errors cross between threads. */

/** What kind of failure it is. Stable. */
export type ErrorCode =
  | "webgpu_unavailable"
  | "device_lost"
  | "out_of_memory"
  | "model_not_found"
  | "worker_lost"
  | "unsupported_architecture"
  | "unsupported_quantization"
  | "corrupt_weights"
  | "network"
  | "quota_exceeded"
  | "integrity"
  | "invalid_request"
  | "context_length_exceeded"
  | "busy"
  | "disposed"
  | "internal";

/** Everything that goes wrong, but an abort: that rejects with the reason of its signal. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: ErrorCode;
  /** The field of the request or the option that is at fault. */
  readonly param?: string;

  constructor(code: ErrorCode, message: string, details: { param?: string | null; cause?: unknown } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    if (details.param != null) this.param = details.param;
  }
}

export function unloaded(): EngineError {
  return new EngineError("disposed", "the engine was unloaded");
}

/** An error as plain data: class and prototype do not survive `postMessage`. */
export interface ErrorData {
  code: ErrorCode;
  message: string;
  param?: string | null;
}

export function toData(error: unknown): ErrorData {
  const { code, message, param } = toError(error);
  return param === undefined ? { code, message } : { code, message, param };
}

export function fromData({ code, message, param }: ErrorData): EngineError {
  return new EngineError(code, message, { param: param ?? null });
}

/** What was thrown, as an EngineError: Rust throws plain `{ code, message, param }`. */
export function toError(thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  if (typeof thrown === "object" && thrown !== null && "code" in thrown && "message" in thrown) {
    const { code, message, param } = thrown as ErrorData;
    // A DOMException has a code too, which is a number.
    if (typeof code === "string") return new EngineError(code, message, { param: param ?? null, cause: thrown });
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new EngineError("internal", message, { cause: thrown });
}
