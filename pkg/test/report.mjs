// Runs the cases of a page one by one and says what came of each. Ends with `N passed, M failed` (and `K skipped`, if any were), and the process
// with 1 if any failed.

/**
 * `names` of cases, `wanted` parts of the names to run (all if none), and `call`, which runs the case of a name in the page, and gives what
 * it returns: a note, or nothing. A case that gives nothing in `limit` seconds has failed. The cases in `skipped` are named and not run.
 */
export async function runCases(names, wanted, call, limit, skipped = []) {
  let [passed, failed] = [0, 0];
  const isWanted = (name) => wanted.length === 0 || wanted.some((part) => name.includes(part));
  for (const name of names.filter(isWanted)) {
    const start = performance.now();
    const { error, note } = await runCase(call(name), limit);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    if (error === undefined) passed++;
    else failed++;
    const said = error ?? note;
    console.log(`${error === undefined ? "ok    " : "FAILED"} ${seconds.padStart(6)} s  ${name}${said ? `: ${said}` : ""}`);
  }
  const left = skipped.filter(isWanted);
  for (const name of left) console.log(`SKIPPED         ${name}: only with --all`);
  console.log(`${passed} passed, ${failed} failed${left.length > 0 ? `, ${left.length} skipped` : ""}`);
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
}

async function runCase(running, limit) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ error: `nothing came of it in ${limit} s` }), limit * 1000);
  });
  const run = running.then(
    (note) => ({ note }),
    (error) => ({ error: String(error.message).split("\n").slice(0, 3).join(" | ") }),
  );
  const outcome = await Promise.race([run, late]);
  clearTimeout(timer);
  return outcome;
}
