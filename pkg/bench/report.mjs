// Figures of all turns, and the table that is printed.

/** The first in ENGINES: what the others are held against. */
const OURS = "foretoken-webgpu";

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

/** Median, least and most; null of nothing. */
function spread(values) {
  return values.length === 0 ? null : { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

const RATES = {
  prefill: (run) => (1000 * run.prompt_tokens) / run.first_ms,
  // Nothing where all tokens came at once.
  decode: (run) => (run.decode_ms > 0 ? (1000 * (run.tokens.length - run.first_tokens)) / run.decode_ms : undefined),
};

/** One entry an engine. `golden` are cases with `id` and `output_ids`; rates are tokens a second. */
export function summarise(engines, turns, golden) {
  return engines.map(({ name, tokens, model }) => {
    const own = turns.filter((turn) => turn.engine === name);
    const runs = own.flatMap((turn) => turn.runs);
    const rates = (rate) => runs.map(RATES[rate]).filter((value) => value !== undefined);
    return {
      name, tokens, model,
      ...about(own),
      load_s: spread(own.filter((turn) => turn.load_ms !== undefined).map((turn) => turn.load_ms / 1000)),
      prefill: spread(rates("prefill")),
      decode: spread(rates("decode")),
      equal: equalTokens(runs, golden),
      ratio: Object.fromEntries(Object.keys(RATES).map((rate) => [rate, ratio(rate, own, turns)])),
      failures: own.filter((turn) => turn.failure !== undefined).map((turn) => `round ${turn.round + 1}: ${turn.failure}`),
    };
  });
}

function about(own) {
  const { version, backend, fell_back } = own.find((turn) => turn.load_ms !== undefined) ?? {};
  return { version, backend, fell_back };
}

/** Tokens that equal the golden ones, from the first one to the first that differs, of those that were made, a prompt; least over the rounds. */
function equalTokens(runs, golden) {
  const found = {};
  for (const { id, tokens } of runs) {
    const due = golden.find((entry) => entry.id === id).output_ids;
    const differs = tokens.findIndex((token, i) => token !== due[i]);
    const equal = differs === -1 ? tokens.length : differs;
    found[id] = { equal: Math.min(equal, found[id]?.equal ?? equal), of: tokens.length };
  }
  return found;
}

/** The median of ours over theirs in the same round and on the same prompt: above 1 we were faster. */
function ratio(rate, own, turns) {
  const ratios = [];
  for (const { round, runs } of own) {
    const ours = turns.find((turn) => turn.engine === OURS && turn.round === round)?.runs ?? [];
    for (const run of runs) {
      const other = ours.find(({ id }) => id === run.id);
      const value = other === undefined ? undefined : RATES[rate](other) / RATES[rate](run);
      if (Number.isFinite(value)) ratios.push(value);
    }
  }
  return ratios.length === 0 ? null : median(ratios);
}

const digits = (value) => value.toPrecision(3);
const range = (value) => (value === null ? "–" : `${digits(value.median)} (${digits(value.min)}–${digits(value.max)})`);

/** The report as text. */
export function table(report) {
  const head = ["engine", "load s", "prefill tok/s", "decode tok/s", "equal to golden", "prefill ratio", "decode ratio"];
  const rows = report.engines.map((engine) => [
    engine.name, range(engine.load_s), range(engine.prefill), range(engine.decode),
    Object.values(engine.equal).map(({ equal, of }) => `${equal}/${of}`).join(" ") || "–",
    ...["prefill", "decode"].map((rate) => (engine.ratio[rate] === null ? "–" : digits(engine.ratio[rate]))),
  ]);
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column].length)));
  const lines = [head, ...rows].map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
  const features = [report.shader_f16 ? "shader-f16" : "no shader-f16", report.subgroups ? "subgroups" : "no subgroups"];
  return [
    `${report.browser}, adapter ${report.adapter} (${features.join(", ")}), ${report.cores} cores; load average ` +
      `${report.load_average.map((value) => value.toFixed(1)).join(" before, ")} after; ${report.minutes.toFixed(1)} minutes`,
    `prompts: ${report.prompts.map(({ id, tokens }) => `${id} (${tokens} tokens)`).join(", ")}; rounds: ${report.rounds}`,
    "median (least–most) over rounds and prompts; ratios: ours over theirs, the median of pairs of the same round and prompt",
    "",
    ...lines,
    "",
    ...report.engines.flatMap(remarks),
  ].join("\n");
}

function remarks({ name, tokens, model, version, backend, fell_back, failures }) {
  const what = [version, backend, model, `${tokens} tokens a prompt`].filter((part) => part !== undefined).join(", ");
  return [
    `${name}: ${what}`,
    ...(fell_back === undefined ? [] : [`  NOT WHAT WAS ASKED FOR: ${fell_back}`]),
    ...failures.map((failure) => `  FAILED in ${failure}`),
  ];
}
