/** What a caller chooses, and the form in which it goes to whoever loads. */

import { EngineError } from "./errors.js";
import { toJson } from "./json.js";

/**
 * Where a model comes from. A relative URL is the page's. Of a model that is split into several files, the URL of the first
 * (`…-00001-of-0000N.gguf`): the others are beside it. Or all its files: Files and handles in any order, nameless Blobs in theirs.
 * Of a folder with safetensors files, an array of its files in any order, `config.json` among them: Files, handles and URLs.
 */
export type ModelSource = ModelFile | ModelFile[];

/** One file of a model. */
export type ModelFile = string | URL | RemoteModel | Blob | FileSystemFileHandle;

/** A model file on a server. */
export interface RemoteModel {
  url: string | URL;
  /** The SHA-256 the file must have, in hexadecimal digits; of a split model, one for each part. */
  sha256?: string | string[];
  /** The name it is served under; the file's, without `.gguf`, if absent. Of a folder, any of its files may say it. */
  name?: string;
  /** Sent with each request for it. */
  headers?: Record<string, string>;
}

/** vLLM's `speculative_config`. */
export interface SpeculativeConfig {
  method: "ngram" | "suffix" | "draft_model" | "auto";
  /** The most a step drafts, 1 to 15. */
  num_speculative_tokens: number;
  prompt_lookup_min?: number;
  prompt_lookup_max?: number;
  prompt_lookup_match?: "earliest" | "latest";
  /** The most tokens of a match and its drafts together, 1 to 256; default 24. This and the next three: "suffix" and "auto". */
  suffix_decoding_max_tree_depth?: number;
  /** The most answers that later ones draft from; default 10000, 0: none. Their tokens are bounded besides. */
  suffix_decoding_max_cached_requests?: number;
  /** A match of m tokens drafts at most this times m; default 1. */
  suffix_decoding_max_spec_factor?: number;
  /** The least probability of a draft, estimated from counts; default 0.1. */
  suffix_decoding_min_token_prob?: number;
  /** Of "draft_model" and "auto": the draft's URL, where `draftModel` is not given. */
  model?: string;
  /** Draft as many tokens as pay, up to `num_speculative_tokens` (true, the default), or always that many. */
  adaptive?: boolean;
}

/** Options of `createEngine`. */
export interface EngineOptions {
  /** The GGUF file, or the files of a folder. */
  model: ModelSource;
  /**
   * Quantises matrices of f32, f16 and bf16 while loading; "q4_0" the embedding and the head to "q8_0". Default: as the file has them.
   */
  quantize?: "q8_0" | "q4_0";
  /**
   * A small model, best of the same vocabulary, which drafts for the methods "draft_model" and "auto". What is wrong with it alone fails nothing:
   * the engine is loaded without it, and `engine.info().speculation` says why.
   */
  draftModel?: ModelSource;
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
  /** The file's name, without `.gguf`: while downloading and verifying, of the part of a split model, or of the draft model. */
  file: string;
}

/** A model file, in a form that crosses to a worker. */
export type FileConfig =
  | { kind: "url"; url: string; name: string; sha256: string | undefined; headers: Record<string, string> }
  | { kind: "blob"; blob: Blob; name: string }
  | { kind: "handle"; handle: FileSystemFileHandle; name: string };

/** A model, in a form that crosses to a worker. */
export interface ModelConfig {
  /** The model's name. */
  name: string;
  /** One, or the parts of a split model in order, or a folder's files. */
  files: FileConfig[];
  isFolder: boolean;
}

/** All that loading needs, in a form that crosses to a worker. */
export interface LoadConfig extends ModelConfig {
  draft: ModelConfig | undefined;
  cache: "opfs" | "none";
  tier: string | undefined;
  wasmUrl: string | undefined;
  /** The JSON that Rust reads: `crates/wasm/src/device.rs`. */
  engine: string;
}

const KNOWN = [
  "model", "draftModel", "speculativeConfig", "perRequestSpecDecodeMetrics", "enablePerRequestMetrics",
  "enableForceIncludeUsage", "contextLength", "quantize", "cache", "worker", "workerUrl", "wasmUrl", "tier", "onProgress", "signal",
];

/** Validates options as far as JavaScript does; the engine validates its own. */
export function toConfig(options: EngineOptions): LoadConfig {
  const unknown = Object.keys(options).find((key) => !KNOWN.includes(key));
  if (unknown !== undefined) throw refused(unknown, "is not an option: leave it out");
  const { cache = "opfs" } = options;
  if (cache !== "opfs" && cache !== "none") throw refused("cache", 'must be "opfs" or "none"');
  const model = toModel(options.model, "model");
  const named = options.speculativeConfig?.model;
  if (options.draftModel != null && named != null) {
    throw refused("draftModel", "is given, and so is speculativeConfig.model: pass one of them");
  }
  // What is no string Rust refuses by its name.
  const drafts = options.draftModel ?? (typeof named === "string" ? named : undefined);
  const draft = drafts == null ? undefined : toModel(drafts, options.draftModel == null ? "speculative_config.model" : "draftModel");
  return {
    ...model,
    draft,
    cache,
    tier: options.tier,
    wasmUrl: options.wasmUrl === undefined ? undefined : absolute(options.wasmUrl, "wasmUrl"),
    engine: toJson({
      modelName: model.name,
      draftModelName: draft?.name,
      contextLength: options.contextLength,
      quantize: options.quantize,
      speculativeConfig: options.speculativeConfig,
      perRequestSpecDecodeMetrics: options.perRequestSpecDecodeMetrics,
      enablePerRequestMetrics: options.enablePerRequestMetrics,
      enableForceIncludeUsage: options.enableForceIncludeUsage,
    }),
  };
}

/** The end of a part's name, without `.gguf`. */
const PART = /-(\d{5})-of-(\d{5})$/;
/** As many as the engine reads. */
const MOST_PARTS = 1024;

/** `option`: what names it. */
function toModel(source: ModelSource, option: string): ModelConfig {
  const files = toFiles(source, option);
  const isFolder = files.some(({ name }) => name === "config.json");
  const stated = [source].flat().find((model) => (model as RemoteModel).url && (model as RemoteModel).name) as RemoteModel;
  return { name: stated?.name ?? (isFolder ? "model" : files[0]!.name.replace(PART, "")), files, isFolder };
}

/** `isOne` of several: a stated name is the model's, not the file's. */
function toFiles(model: ModelSource, option: string, isOne = false): FileConfig[] {
  if (Array.isArray(model) && model.length > 0) {
    return model.flatMap((file) => toFiles(file, option, true)).sort((a, b) => a.name.localeCompare(b.name, "en"));
  }
  if (model instanceof Blob) {
    return [{ kind: "blob", blob: model, name: stem(model instanceof File ? model.name : "model") }];
  }
  if (typeof FileSystemFileHandle !== "undefined" && model instanceof FileSystemFileHandle) {
    return [{ kind: "handle", handle: model, name: stem(model.name) }];
  }
  const remote: RemoteModel = typeof model === "string" || model instanceof URL ? { url: model } : (model as RemoteModel);
  if (remote?.url == null) {
    throw refused(option, "must be a URL, { url }, a File, Blob or FileSystemFileHandle, or an array of a split model's or a folder's files");
  }
  const url = new URL(absolute(remote.url, option));
  const { pathname } = url;
  const [, number, count] = /-(\d{5})-of-(\d{5})\.gguf$/.exec(pathname) ?? [];
  const parts = Number(count ?? 1);
  if (Number(number ?? 1) !== 1 || parts < 1 || parts > MOST_PARTS) {
    throw refused(option, `is part ${number} of ${count}: give the first, of 1 to ${MOST_PARTS}`);
  }
  const hashes = [remote.sha256 ?? []].flat();
  if ((hashes.length > 0 && hashes.length !== parts) || !hashes.every((hash) => /^[0-9a-f]{64}$/i.test(hash))) {
    throw refused(`${option}.sha256`, `must be 64 hexadecimal digits, ${parts} times`);
  }
  return Array.from({ length: parts }, (_, part) => {
    if (count) url.pathname = pathname.replace(/\d{5}(-of-\d{5}\.gguf)$/, `${String(part + 1).padStart(5, "0")}$1`);
    const name = (!count && !isOne && remote.name) || stem(decoded(url.pathname));
    return { kind: "url", url: url.href, name, sha256: hashes[part]?.toLowerCase(), headers: { ...remote.headers } };
  });
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
