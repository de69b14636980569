/** Language models in the page on WebGPU, with exact speculative decoding. See README.md. */

export { type CachedModel, clearCache, listCached } from "./cache.js";
export { checkKernels, type KernelCheck, type KernelCheckOptions } from "./check.js";
export { type Create, createEngine, Engine, type RequestOptions } from "./engine.js";
export { EngineError, type ErrorCode } from "./errors.js";
export type { EngineOptions, LoadProgress, ModelSource, RemoteModel, SpeculativeConfig } from "./options.js";
export type { CompletionStream } from "./stream.js";
export type * from "./types.js";
