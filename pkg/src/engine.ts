/** `Engine`: what a page holds. */

import { never, orAborted } from "./abort.js";
import { type EngineError, type ErrorData, fromData, toError, unloaded } from "./errors.js";
import type { Host, RouteReply, RouteRequest } from "./host.js";
import { toJson } from "./json.js";
import { localHost } from "./local.js";
import { absolute, type EngineOptions, type LoadConfig, type LoadProgress, toConfig } from "./options.js";
import { remoteHost } from "./remote.js";
import { CompletionStream, Events } from "./stream.js";
import type {
  ChatCompletion, ChatCompletionChunk, ChatCompletionParams, EngineInfo, EngineMetrics, Model, ModelList, TextCompletion,
  TextCompletionChunk, TextCompletionParams,
} from "./types.js";

/** Options of one request. */
export interface RequestOptions {
  /** Ends the request; it rejects with the signal's reason. */
  signal?: AbortSignal | null | undefined;
}

/** A completion endpoint: whole, or a stream where `stream` is true. */
export interface Create<Params, Whole, Chunk> {
  (params: Params & { stream: true }, options?: RequestOptions): Promise<CompletionStream<Chunk>>;
  (params: Params & { stream?: false | null }, options?: RequestOptions): Promise<Whole>;
  (params: Params, options?: RequestOptions): Promise<Whole | CompletionStream<Chunk>>;
}

/** A reply, and its events where it is a stream. */
interface Answer {
  reply: RouteReply;
  events: Events | undefined;
}

/** A request that was handed to a host. */
interface Handed {
  host: Host;
  replying: Promise<RouteReply>;
}

/** What made requests fail that were not to blame; the next one starts anew. */
const FATAL = ["device_lost", "out_of_memory", "worker_lost", "internal"];

/** A loaded model. Calls queue, in order. */
export class Engine {
  /** Undefined while there is none: it was lost, and nobody has asked for anything since. */
  private host: Host | undefined;
  private reviving: Promise<Host> | undefined;
  private unloading: Promise<void> | undefined;
  /** Raised by `unload`. */
  private readonly disposal = new AbortController();
  /** Settles when the call before has been handed to its host. */
  private turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly config: LoadConfig,
    private readonly startHost: (onLost: () => void) => Host,
  ) {}

  /** Loads a model. */
  static async create(options: EngineOptions): Promise<Engine> {
    const config = toConfig(options);
    const workerUrl = options.workerUrl === undefined ? undefined : absolute(options.workerUrl, "workerUrl");
    const engine = new Engine(config, (onLost) =>
      options.worker === false ? localHost(onLost) : remoteHost(workerUrl, onLost));
    await engine.start(options.onProgress ?? (() => {}), options.signal ?? never);
    return engine;
  }

  readonly chat = {
    completions: {
      /** A chat completion. */
      create: this.creator("/v1/chat/completions") as Create<ChatCompletionParams, ChatCompletion, ChatCompletionChunk>,
    },
  };

  readonly completions = {
    /** A text completion. */
    create: this.creator("/v1/completions") as Create<TextCompletionParams, TextCompletion, TextCompletionChunk>,
  };

  readonly models = {
    /** The one model. */
    list: (options: RequestOptions = {}) => this.json<ModelList>("GET", "/v1/models", "", options.signal ?? never),
    /** The model, by its name. */
    retrieve: (name: string, options: RequestOptions = {}) =>
      this.json<Model>("GET", `/v1/models/${encodeURIComponent(name)}`, "", options.signal ?? never),
  };

  /**
   * A WHATWG fetch over the routes of an OpenAI server, whatever the host in the address; it never touches the network. It is bound: pass it
   * to a client as it is.
   */
  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const signal = init?.signal ?? request.signal;
    signal.throwIfAborted();
    const { pathname: path } = new URL(request.url);
    const route = request.text().then((body) => ({ method: request.method, path, body }));
    let answer;
    try {
      answer = await this.request(route, signal);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // A body that cannot be read rejects, as it does with any fetch.
      if (!this.disposal.signal.aborted) await route;
      return unavailable(toError(error));
    }
    const { status, contentType, allow } = answer.reply;
    const headers = new Headers({ "content-type": contentType });
    if (allow !== undefined) headers.set("allow", allow);
    return new Response(answer.events?.toReadable() ?? answer.reply.body ?? "", { status, headers });
  };

  /** The tokens of a text, as a prompt of it has them. */
  async tokenize(text: string): Promise<number[]> {
    return (await this.live()).tokenize(text);
  }

  /** The text of each token by itself; bytes that are no character alone become U+FFFD. */
  async detokenize(tokens: number[]): Promise<string[]> {
    return (await this.live()).detokenize(tokens);
  }

  /** Totals over all requests. */
  async metrics(): Promise<EngineMetrics> {
    return (await this.live()).metrics();
  }

  /**
   * Milliseconds of passes of 1, 2, 4, 8 and 16 rows, as many as fit the context. Divided by that of one row: what verifying drafts costs
   * against a plain step. Takes some seconds on a slow device, in its turn between requests.
   */
  async passTimes(): Promise<[rows: number, ms: number][]> {
    return (await this.live()).passTimes();
  }

  /** What runs where. */
  async info(): Promise<EngineInfo> {
    return (await this.live()).info();
  }

  /** Gives everything back. What is in flight rejects with the code `disposed`, as does all that follows. */
  unload(): Promise<void> {
    this.disposal.abort(unloaded());
    this.unloading ??= this.host?.unload() ?? Promise.resolve();
    this.host = undefined;
    return this.unloading;
  }

  private creator(path: string) {
    return async (params: { stream?: boolean | null }, options: RequestOptions = {}): Promise<unknown> => {
      const signal = options.signal ?? never;
      const body = toJson(params);
      if (params?.stream !== true) return this.json("POST", path, body, signal);
      const { events } = await this.checked({ method: "POST", path, body }, signal);
      return new CompletionStream(events!);
    };
  }

  private async json<T>(method: string, path: string, body: string, signal: AbortSignal): Promise<T> {
    const { reply } = await this.checked({ method, path, body }, signal);
    return JSON.parse(reply.body ?? "null") as T;
  }

  /** An answer; one that tells of a fault is thrown. */
  private async checked(route: RouteRequest, signal: AbortSignal): Promise<Answer> {
    const answer = await this.request(route, signal);
    if (answer.reply.status < 400) return answer;
    throw fromData(errorIn(answer.reply.body ?? ""));
  }

  private async request(route: RouteRequest | Promise<RouteRequest>, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { host, replying } = await orAborted(this.handOn(route, signal), signal, ({ host, replying }) => {
      replying.then((reply) => closeStream(host, reply), () => {});
    });
    const reply = await orAborted(replying, signal, (late) => closeStream(host, late));
    if (reply.status >= 500) this.abandonAfter(errorIn(reply.body ?? ""), host);
    const { stream } = reply;
    if (stream === undefined) return { reply, events: undefined };
    return { reply, events: new Events(host, stream, signal, (event) => this.abandonAfter(errorIn(event), host)) };
  }

  /** Hands a request to the host in the order of the calls, however long its body takes to be read. */
  private handOn(route: RouteRequest | Promise<RouteRequest>, signal: AbortSignal): Promise<Handed> {
    const ready = Promise.all([route, this.live()]);
    // It is looked at in its turn; until then nobody is.
    ready.catch(() => {});
    const handed = this.turn.then(async () => {
      const [request, host] = await orAborted(orAborted(ready, signal), this.disposal.signal);
      return { host, replying: host.request(request, signal) };
    });
    this.turn = handed.catch(() => {});
    return handed;
  }

  /** After a fault that will not pass, the next request gets a fresh host; what this one has in flight fails for the same reason. */
  private abandonAfter(fault: ErrorData, host: Host): void {
    if (!FATAL.includes(fault.code) || this.host !== host) return;
    this.host = undefined;
    host.unload(fromData(fault)).catch(() => {});
  }

  /** The host; a new one, loaded from the cache, where the last one was lost. */
  private live(): Promise<Host> {
    const { signal } = this.disposal;
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.host !== undefined) return Promise.resolve(this.host);
    this.reviving ??= this.start(() => {}, signal).finally(() => (this.reviving = undefined));
    return this.reviving;
  }

  private async start(onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<Host> {
    signal.throwIfAborted();
    const host = this.startHost(() => {
      if (this.host === host) this.host = undefined;
    });
    try {
      await orAborted(host.load(this.config, onProgress, signal), signal);
      signal.throwIfAborted();
    } catch (error) {
      host.unload().catch(() => {});
      throw signal.aborted ? signal.reason : toError(error);
    }
    this.host = host;
    return host;
  }
}

function closeStream(host: Host, { stream }: RouteReply): void {
  if (stream !== undefined) host.close(stream).catch(() => {});
}

/** What a client makes of a server that is not there now. */
function unavailable({ code, message, param }: EngineError): Response {
  const error = { message, type: "server_error", code, param: param ?? null };
  return Response.json({ error }, { status: 503 });
}

function errorIn(json: string): ErrorData {
  return (JSON.parse(json) as { error: ErrorData }).error;
}

export interface Engine {
  /** `unload`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

// Not everywhere yet.
if (Symbol.asyncDispose !== undefined) {
  Engine.prototype[Symbol.asyncDispose] = Engine.prototype.unload;
}

/** Loads a model and returns an engine for it. */
export function createEngine(options: EngineOptions): Promise<Engine> {
  return Engine.create(options);
}
