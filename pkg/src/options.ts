/** What a caller chooses, and the form in which it goes to whoever loads. */

import { EngineError } from "./errors.js";
import { toJson } from "./json.js";

/** Where a model file comes from. A relative URL is the page's. */
export type ModelSource = string | URL | RemoteModel | Blob | FileSystemFileHandle;

/** A model file on a server. */
export interface RemoteModel {
  url: string | URL;
  /** The SHA-256 the file must have, in hexadecimal digits. */
  sha256?: string;
  /** The name it is served under; the file's, without `.gguf`, if absent. */
  name?: string;
  /** Sent with each request for it. */
  headers?: Record<string, string>;
}

/** vLLM's `speculative_config`. */
export interface SpeculativeConfig {
  method: "ngram";
  /** The most a step drafts, 1 to 15. */
  num_speculative_tokens: number;
  prompt_lookup_min?: number;
  prompt_lookup_max?: number;
  prompt_lookup_match?: "earliest" | "latest";
  /** Draft as many tokens as pay, up to `num_speculative_tokens` (true, the default), or always that many. */
  adaptive?: boolean;
}

/** Options of `createEngine`. */
export interface EngineOptions {
  /** The GGUF file. */
  model: ModelSource;
  /** Not supported yet: refused by name. */
  draftModel?: undefined;
  /** Who drafts; absent: nobody. */
  speculativeConfig?: SpeculativeConfig;
  /** What responses tell about acceptance; default "none". */
  perRequestSpecDecodeMetrics?: "none" | "summary" | "detailed";
  /** Whether responses have timing fields; default false. */
  enablePerRequestMetrics?: boolean;
  /** Whether every stream ends with its usage, asked for or not; default false. */
  enableForceIncludeUsage?: boolean;
  /** Positions of the context; default the smaller of the model's and 4096. */
  contextLength?: number;
  /** Where downloads are kept: "opfs" (default), the origin's private file system; or "none". */
  cache?: "opfs" | "none";
  /** Whether to run in a dedicated worker (default) or in this thread. */
  worker?: boolean;
  /** Where `dist/worker.js` is, for unusual hosting. */
  workerUrl?: string | URL;
  /** Where `wasm/foretoken_bg.wasm` is, for unusual hosting. */
  wasmUrl?: string | URL;
  /** Holds the device to fewer features than it has: "base" uses none. */
  tier?: "base" | "f16" | "subgroup" | "subgroup-f16";
  /** Called while loading. */
  onProgress?: (progress: LoadProgress) => void;
  /** Aborts loading. */
  signal?: AbortSignal;
}

/** How far loading has come. */
export interface LoadProgress {
  /** Fetching the file, hashing it, uploading weights, compiling kernels, timing them. */
  phase: "download" | "verify" | "upload" | "compile" | "tune";
  /** Bytes done. */
  loaded: number;
  /** Bytes there are; 0 where it is not known or not counted. */
  total: number;
  /** The file's name. */
  file: string;
}

/** A model file, in a form that crosses to a worker. */
export type FileConfig =
  | { kind: "url"; url: string; name: string; sha256: string | undefined; headers: Record<string, string> }
  | { kind: "blob"; blob: Blob; name: string }
  | { kind: "handle"; handle: FileSystemFileHandle; name: string };

/** All that loading needs, in a form that crosses to a worker. */
export interface LoadConfig {
  file: FileConfig;
  cache: "opfs" | "none";
  tier: string | undefined;
  wasmUrl: string | undefined;
  /** The JSON that Rust reads: `crates/wasm/src/device.rs`. */
  engine: string;
}

const KNOWN = [
  "model", "draftModel", "speculativeConfig", "perRequestSpecDecodeMetrics", "enablePerRequestMetrics",
  "enableForceIncludeUsage", "contextLength", "cache", "worker", "workerUrl", "wasmUrl", "tier", "onProgress", "signal",
];

/** Validates options as far as JavaScript does; the engine validates its own. */
export function toConfig(options: EngineOptions): LoadConfig {
  const unknown = Object.keys(options).find((key) => !KNOWN.includes(key));
  if (unknown !== undefined) throw refused(unknown, "is not an option: leave it out");
  if (options.draftModel != null) {
    throw refused("draftModel", "is not supported by this version: leave it out, and draft with speculativeConfig");
  }
  const { cache = "opfs" } = options;
  if (cache !== "opfs" && cache !== "none") throw refused("cache", 'must be "opfs" or "none"');
  const file = toFile(options.model);
  return {
    file,
    cache,
    tier: options.tier,
    wasmUrl: options.wasmUrl === undefined ? undefined : absolute(options.wasmUrl, "wasmUrl"),
    engine: toJson({
      modelName: file.name,
      contextLength: options.contextLength,
      speculativeConfig: options.speculativeConfig,
      perRequestSpecDecodeMetrics: options.perRequestSpecDecodeMetrics,
      enablePerRequestMetrics: options.enablePerRequestMetrics,
      enableForceIncludeUsage: options.enableForceIncludeUsage,
    }),
  };
}

function toFile(model: ModelSource): FileConfig {
  if (typeof Blob !== "undefined" && model instanceof Blob) {
    return { kind: "blob", blob: model, name: stem(model instanceof File ? model.name : "model") };
  }
  if (typeof FileSystemFileHandle !== "undefined" && model instanceof FileSystemFileHandle) {
    return { kind: "handle", handle: model, name: stem(model.name) };
  }
  const remote: RemoteModel = typeof model === "string" || model instanceof URL ? { url: model } : (model as RemoteModel);
  if (remote == null || typeof remote !== "object" || remote.url == null) {
    throw refused("model", "must be a URL, { url }, a File, a Blob or a FileSystemFileHandle");
  }
  const sha256 = remote.sha256?.toLowerCase();
  if (sha256 !== undefined && !/^[0-9a-f]{64}$/.test(sha256)) {
    throw refused("model.sha256", "must be 64 hexadecimal digits");
  }
  const url = absolute(remote.url, "model");
  const name = remote.name ?? stem(decoded(new URL(url).pathname));
  return { kind: "url", url, name, sha256, headers: { ...remote.headers } };
}

/** The last part of a path, without `.gguf`. */
function stem(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1).replace(/\.gguf$/i, "") || "model";
}

/** A path without its escapes; as it is where they are none. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** A worker's own address is not the page's: relative ones are resolved here. */
export function absolute(url: string | URL, option: string): string {
  try {
    return new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href).href;
  } catch (cause) {
    throw refused(option, `is no URL: ${JSON.stringify(String(url))}`, cause);
  }
}

function refused(option: string, problem: string, cause?: unknown): EngineError {
  return new EngineError("invalid_request", `\`${option}\` ${problem}`, { param: option, cause });
}
