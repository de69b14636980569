// Draft models: loaded beside the model, or left out with the reason told.

import { createEngine, listCached } from "/pkg/dist/index.js";
import { equal, failure, ok, TINY } from "./check.js";
import { build, withEntry } from "./gguf.js";
import { answers, expected, fetched, HEADER, kept, model, played, status, tiny, URL_OF_TINY } from "./loading.js";

const DRAFT = "/played/draft.gguf";
const speculativeConfig = { method: "draft_model", num_speculative_tokens: 3, adaptive: false };
const both = { model: URL_OF_TINY, draftModel: DRAFT, speculativeConfig };

/** Loads, and holds the answer against that of the model alone, and the reason against `words`; none: the draft is in use. */
async function drafting(options, words) {
  const { tokens, info } = await answers({ speculativeConfig, ...options });
  equal(tokens, await expected(), "answer");
  const { active, method, reason, draft } = info.speculation;
  equal([active, method, draft], [words === undefined, "draft_model", "draft"], `speculation (${reason})`);
  for (const word of ["draft", ...(words ?? [])]) ok(!words || reason.includes(word), `"${word}" is not in: ${reason}`);
}

export const cases = {
  "a draft model is fetched after the model, and both count as one load": () =>
    played({ [URL_OF_TINY]: tiny, [DRAFT]: tiny }, [], async (asked) => {
      const [downloads, uploads] = [new Set(), []];
      const onProgress = ({ phase, file, loaded, total }) => {
        if (phase === "download") downloads.add(file);
        if (phase === "upload") uploads.push([loaded, total]);
      };
      await drafting({ ...both, onProgress });
      equal([[...downloads], asked], [["tiny", "draft"], [HEADER, HEADER, "all", "all"]], "downloads and requests");
      const weights = model.tensors.reduce((sum, { data }) => sum + data.length, 0);
      const [loaded, total] = uploads.at(-1);
      equal([loaded, uploads.every((upload) => upload[1] === total)], [total, true], "uploads");
      ok(total > 1.9 * weights && total <= 2 * weights, `${total} bytes of two times ${weights}`);
      equal((await listCached()).map(({ name }) => name).sort(), ["draft", "tiny"], "stored");

      // Named by the configuration, and from the cache.
      asked.length = 0;
      await drafting({ model: URL_OF_TINY, speculativeConfig: { ...speculativeConfig, model: DRAFT } });
      equal(asked, [], "requests of a second load");
      await drafting({ model: new Blob([tiny]), draftModel: new File([tiny], "draft.gguf") });
    }),

  "a draft model that no header can make one costs no download": async () => {
    const without = { entries: model.entries, tensors: model.tensors.filter(({ name }) => name !== "blk.1.ffn_up.weight") };
    const architecture = new TextEncoder().encode("lhama");
    const unknown = withEntry(model, ["general.architecture", Uint8Array.from([8, 0, 0, 0, architecture.length, 0, 0, 0, 0, 0, 0, 0, ...architecture])]);
    for (const [changed, word] of [[without, "blk.1.ffn_up.weight"], [unknown, "lhama"]]) {
      await played({ [URL_OF_TINY]: tiny, [DRAFT]: build(changed) }, [], async (asked) => {
        await drafting(both, [word]);
        equal(asked, [HEADER, HEADER, "all"], "requests");
        equal((await listCached()).map(({ name }) => name), ["tiny"], "stored");
      });
    }
  },

  "what befalls a draft model on its way keeps nobody": async () => {
    const wrong = { url: DRAFT, sha256: "0".repeat(64) };
    await played({ [URL_OF_TINY]: tiny, [DRAFT]: tiny }, [], () => drafting({ ...both, draftModel: wrong }, ["SHA-256"]));
    await played({ [URL_OF_TINY]: tiny, [DRAFT]: tiny }, [undefined, ...Array(4).fill(status(503))], () => drafting(both, ["503"]));
    // No server of ranges, so that nobody saw what it is; then it is not kept.
    const damaged = tiny.slice(0, tiny.length - 5000);
    const whole = () => new Response(damaged.slice(), { headers: { "content-length": `${damaged.length}` } });
    await played({ [URL_OF_TINY]: tiny, [DRAFT]: whole }, [], async () => {
      await drafting(both, ["draft"]);
      equal((await listCached()).map(({ name }) => name), ["tiny"], "stored");
    });
    const { estimate } = navigator.storage;
    navigator.storage.estimate = async () => ({ quota: 1.5 * tiny.length, usage: 0 });
    try {
      await played({ [URL_OF_TINY]: tiny, [DRAFT]: tiny }, [], async (asked) => {
        await drafting(both, [`${2 * tiny.length} bytes are needed`]);
        equal(asked, [HEADER, HEADER, "all"], "requests");
      });
    } finally {
      navigator.storage.estimate = estimate;
    }
    // A name that nothing goes by is the caller's to mend.
    await played({ [URL_OF_TINY]: tiny }, [], async () => {
      const missing = await failure(fetched(both), "no draft there");
      equal([missing.code, missing.message.includes(DRAFT), await kept()], ["model_not_found", true, []], missing.message);
    });
  },

  "an abort ends the loading of a draft model too": () =>
    played({ [URL_OF_TINY]: tiny, [DRAFT]: tiny }, [], async () => {
      const controller = new AbortController();
      const onProgress = ({ phase, file }) => phase === "download" && file === "draft" && controller.abort(new Error("mine"));
      const aborted = await failure(createEngine({ worker: false, ...both, onProgress, signal: controller.signal }), "aborted");
      equal(aborted.message, "mine", "reason");
      // While its weights are uploaded, which in wasm is a failure like any other.
      const late = new AbortController();
      const onUpload = ({ phase, loaded, total }) => phase === "upload" && loaded > total / 2 && late.abort(new Error("late"));
      const ended = await failure(createEngine({
        worker: false, tier: "base", model: new Blob([tiny]), draftModel: new Blob([tiny]), speculativeConfig, onProgress: onUpload, signal: late.signal,
      }), "aborted in its midst");
      equal(ended.message, "late", "reason");
    }),

  "a draft model and what it is for belong together": async () => {
    for (const [options, param] of [
      [{ draftModel: TINY }, "speculative_config"],
      [{ speculativeConfig }, "speculative_config.method"],
      [{ draftModel: TINY, speculativeConfig: { ...speculativeConfig, model: TINY } }, "draftModel"],
      [{ draftModel: 5, speculativeConfig }, "draftModel"],
      [{ draftModel: { url: TINY, sha256: "0" }, speculativeConfig }, "draftModel.sha256"],
      [{ speculativeConfig: { ...speculativeConfig, model: 5 } }, "speculative_config.model"],
      [{ speculativeConfig: { ...speculativeConfig, method: "ngram", model: TINY } }, "speculative_config.model"],
    ]) {
      const refused = await failure(createEngine({ model: "/data/absent.gguf", ...options }), param);
      equal([refused.code, refused.param], ["invalid_request", param], refused.message);
    }
  },
};
