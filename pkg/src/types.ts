/** Requests and answers, in OpenAI's shapes with vLLM's additions. */

export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool" | (string & {});
  /** Absent or null only beside `tool_calls`. Templates that want one string get the parts one a line. */
  content?: string | { type: "text"; text: string }[] | null;
  name?: string | null;
  /** Of an assistant. */
  tool_calls?: ToolCall[] | null;
  reasoning_content?: string | null;
  /** Of a tool: the call that it answers. */
  tool_call_id?: string | null;
  [more: string]: unknown;
}

/** A function that answers may call. */
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string | null;
    /** A JSON schema. */
    parameters?: Record<string, unknown> | null;
    strict?: false | null;
  };
}

export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is a JSON object, as text. */
  function: { name: string; arguments: string };
}

/** What both kinds of completion take. The engine refuses what it does not support by name. */
export interface CompletionParams {
  /** The served model's name, or absent. */
  model?: string;
  max_tokens?: number | null;
  n?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  repetition_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  seed?: number | null;
  stop?: string | string[] | null;
  stop_token_ids?: number[] | null;
  min_tokens?: number | null;
  ignore_eos?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  return_token_ids?: boolean | null;
  return_token_provenance?: boolean | null;
  /** Changes the engine's speculation for this request; null or false switches it off. */
  speculative_config?: Record<string, unknown> | false | null;
  [more: string]: unknown;
}

export interface ChatCompletionParams extends CompletionParams {
  messages: ChatMessage[];
  max_completion_tokens?: number | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  stream?: boolean | null;
  tools?: Tool[] | null;
  /** "none": the tools are in the prompt, but what looks like a call stays text. */
  tool_choice?: "none" | "auto" | null;
  parallel_tool_calls?: true | null;
  documents?: Record<string, unknown>[] | null;
  /** Variables of the model's chat template, such as `enable_thinking`. */
  chat_template_kwargs?: Record<string, unknown> | null;
  /** By default true, unless the final message is continued. */
  add_generation_prompt?: boolean | null;
  /** The answer goes on where the final message ends. */
  continue_final_message?: boolean | null;
}

export interface TextCompletionParams extends CompletionParams {
  prompt: string | string[] | number[];
  logprobs?: number | null;
  stream?: boolean | null;
}

/** Where a token came from. */
export type TokenProvenance = "prefill" | "plain" | "draft" | "recovered" | "bonus";

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /** Where the model marks its reasoning. */
  completion_tokens_details?: { reasoning_tokens: number };
}

/** How drafting went in one answer; vLLM's fields. */
export interface SpeculativeDecoding {
  mean_acceptance_length: number;
  draft_acceptance_rate: number;
  /** Index j: steps that accepted exactly j drafts. */
  acceptance_histogram: number[];
  acceptance_histogram_by_draft_length: Record<string, number[]>;
  num_spec_steps: number;
  num_accepted_draft_tokens: number;
  num_draft_tokens: number;
  num_spec_tokens: number;
  /** With "detailed". */
  per_step_accepted?: number[];
  per_step_drafted?: number[];
}

/** How an answer was made, as far as the engine was told to collect it. */
export interface Metrics {
  time_to_first_token_ms?: number | null;
  generation_time_ms?: number | null;
  queue_time_ms?: number | null;
  mean_itl_ms?: number | null;
  tokens_per_second?: number | null;
  speculative_decoding?: SpeculativeDecoding | null;
  /** With "detailed". */
  foretoken?: Record<string, unknown>;
}

interface Header {
  id: string;
  created: number;
  model: string;
  system_fingerprint: string;
}

interface TokenReports {
  /** With `return_token_ids`. */
  token_ids?: number[];
  /** With `return_token_provenance`; one a token. */
  token_provenance?: TokenProvenance[];
}

export interface ChatLogprobs {
  content: ChatTokenLogprob[];
  refusal: null;
}

export interface ChatTokenLogprob {
  token: string;
  logprob: number;
  bytes: number[] | null;
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[];
}

export interface ChatCompletion extends Header {
  object: "chat.completion";
  choices: ({
    index: number;
    message: {
      role: "assistant";
      content: string;
      reasoning_content?: string;
      tool_calls?: ToolCall[];
      refusal: null;
    };
    logprobs: ChatLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls";
  } & TokenReports)[];
  usage: Usage;
  metrics?: Metrics;
  prompt_token_ids?: number[];
}

export interface ChatCompletionChunk extends Header {
  object: "chat.completion.chunk";
  choices: ({
    index: number;
    delta: {
      role?: "assistant";
      content: string;
      reasoning_content?: string;
      /** Each whole. */
      tool_calls?: ({ index: number } & ToolCall)[];
    };
    logprobs: ChatLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls" | null;
  } & TokenReports)[];
  /** In the last chunk, with `stream_options.include_usage`. */
  usage?: Usage;
  metrics?: Metrics;
  prompt_token_ids?: number[];
}

export interface TextLogprobs {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: Record<string, number>[];
  text_offset: number[];
}

export interface TextCompletion extends Header {
  object: "text_completion";
  choices: ({
    index: number;
    text: string;
    logprobs: TextLogprobs | null;
    finish_reason: "stop" | "length";
  } & TokenReports)[];
  usage: Usage;
  metrics?: Metrics;
  prompt_token_ids?: number[];
}

export interface TextCompletionChunk extends Header {
  object: "text_completion";
  choices: ({
    index: number;
    text: string;
    logprobs: TextLogprobs | null;
    finish_reason: "stop" | "length" | null;
  } & TokenReports)[];
  usage?: Usage;
  metrics?: Metrics;
  prompt_token_ids?: number[];
}

export interface Model {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  max_model_len: number;
}

export interface ModelList {
  object: "list";
  data: Model[];
}

/** Totals over all requests of an engine. */
export interface EngineMetrics {
  num_requests_running: number;
  num_requests_waiting: number;
  prompt_tokens_total: number;
  cached_prompt_tokens_total: number;
  generation_tokens_total: number;
  requests: { stop: number; length: number; abort: number; error: number };
  spec_decode_num_drafts_total: number;
  spec_decode_num_draft_tokens_total: number;
  spec_decode_num_accepted_tokens_total: number;
  spec_decode_num_accepted_tokens_per_pos_total: number[];
}

/** What runs where. */
export interface EngineInfo {
  /** Of this package. */
  version: string;
  model: string;
  contextLength: number;
  adapter: {
    name: string;
    /** The features in use: "base", "f16", "subgroup", "subgroup-f16". */
    tier: string;
    /** Whether it computes on the CPU. */
    software: boolean;
    shaderF16: boolean;
    maxBindingBytes: number;
    maxBufferBytes: number;
  };
  /** Bytes of all buffers on the device after loading. */
  deviceBytes: number;
  /** Bytes of the wasm memory, which never shrinks. */
  wasmBytes: number;
  /** Whether the SHA-256 of the model's file was known and is right. (A draft model changes no answer.) */
  integrity: "verified" | "unverified";
  /**
   * `draft`: the draft model's name, where one was given, used or not. `draft_mapped_share`: where its vocabulary is another than the model's,
   * the part of a sample text that both write in the same tokens, 0 to 1.
   */
  speculation: {
    active: boolean; method: string | null; reason: string | null; draft?: string; draft_mapped_share?: number; draft_problem?: string;
  };
  /** Whether drafting can change no answer on this device, as the check at loading found it. */
  rowInvariance: "holds" | "holds_padded" | "broken" | "not_checked";
}
