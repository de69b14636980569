// What an application does with the package.

import { createEngine } from "foretoken";

async function answer() {
  const engine = await createEngine({ model: new URLSearchParams(location.search).get("model"), cache: "none" });
  const { choices } = await engine.completions.create({ prompt: "the cat", max_tokens: 5, temperature: 0 });
  await engine.unload();
  return choices[0].text;
}

window.answer = answer();
