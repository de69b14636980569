// Runs the cases of a page one by one and says what came of each. Ends with `N passed, M failed`, and the process with 1 if any failed.

/**
 * `names` of cases, `wanted` parts of the names to run (all if none), and `call`, which runs the case of a name in the page, and gives what
 * it returns: a note, or nothing. A case that gives nothing in `limit` seconds has failed.
 */
export async function runCases(names, wanted, call, limit) {
  let [passed, failed] = [0, 0];
  for (const name of names.filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))) {
    const start = performance.now();
    const { error, note } = await runCase(call(name), limit);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    if (error === undefined) passed++;
    else failed++;
    const said = error ?? note;
    console.log(`${error === undefined ? "ok    " : "FAILED"} ${seconds.padStart(6)} s  ${name}${said ? `: ${said}` : ""}`);
  }
  console.log(`${passed} passed, ${failed} failed`);
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
