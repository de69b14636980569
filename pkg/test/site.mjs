// The site that the tests of the package run on: pages, models and reference data, under a content security policy that allows what the
// package says it needs, and a second origin that serves the package alone.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { serve } from "./serve.mjs";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Opens both, with the folder of models; `url` gives the address of a page of this folder. */
export async function openSite(models) {
  const clients = await build({ entryPoints: [folder("clients.js")], bundle: true, format: "esm", write: false, logLevel: "warning" });
  const roots = {
    pkg: folder(".."), data: folder("../../tests/data"), golden: folder("../../tests/golden"), bench: folder("../../tests/bench"), models,
  };
  const cdn = await serve({ pkg: folder("..") });
  const policy = [
    "default-src 'self'", `script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${cdn.origin}`, `worker-src 'self' blob: ${cdn.origin}`,
    `connect-src 'self' ${cdn.origin}`, "img-src data:",
  ].join("; ");
  const server = await serve(roots, { "/clients.js": clients.outputFiles[0].contents }, policy);
  return {
    url: (page) => `${server.origin}/pkg/test/${page}?cdn=${encodeURIComponent(cdn.origin)}`,
    close() {
      server.close();
      cdn.close();
    },
  };
}
