// A static server for the tests of the package: files with ranges, and the ways in which servers go wrong.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json" };

/**
 * Serves `roots`, from the first part of a path to a folder, and `scripts`, from whole paths to JavaScript. `policy` is the content security
 * policy of pages and scripts, `more` are headers that every file gets. Query parameters make it misbehave: `?cut=N` ends the connection after N
 * bytes, once per file; `?html` gives a page with status 200, `?html=206` with that one; `?noranges` ignores ranges; `?short=N` does too, and gives
 * the first N bytes as if they were all.
 */
export function serve(roots, scripts = {}, policy = "", more = {}) {
  const cuts = new Set();
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const [, root, ...rest] = normalize(decodeURIComponent(url.pathname)).split("/");
    const range = request.headers.range;
    if (url.searchParams.has("html")) {
      const page = "<!doctype html><title>Log in</title>";
      const status = Number(url.searchParams.get("html")) || 200;
      response.writeHead(status, { "content-type": "text/html", "content-range": `bytes 0-${page.length - 1}/${page.length}` });
      return response.end(page);
    }
    const script = scripts[url.pathname];
    if (script !== undefined) {
      response.writeHead(200, { "content-type": "text/javascript", "content-security-policy": policy });
      return response.end(script);
    }
    const file = roots[root] === undefined ? undefined : join(roots[root], ...rest);
    if (file === undefined || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404, { "content-type": "text/plain" });
      return response.end("not here");
    }
    const { size: stored, mtimeMs } = statSync(file);
    const size = Number(url.searchParams.get("short") ?? stored);
    const headers = {
      ...more,
      "access-control-allow-origin": "*",
      "accept-ranges": "bytes",
      "content-type": TYPES[extname(file)] ?? "application/octet-stream",
      "cache-control": "no-store",
      "content-security-policy": policy,
      etag: `"${size}-${mtimeMs}"`,
    };
    let [from, to] = [0, size - 1];
    const ignored = url.searchParams.has("noranges") || url.searchParams.has("short");
    const asked = ignored ? null : /^bytes=(\d+)-(\d*)$/.exec(range ?? "");
    if (asked !== null) {
      from = Number(asked[1]);
      to = Math.min(asked[2] === "" ? to : Number(asked[2]), to);
      if (from > to) {
        response.writeHead(416, { ...headers, "content-range": `bytes */${size}` });
        return response.end();
      }
      headers["content-range"] = `bytes ${from}-${to}/${size}`;
    }
    response.writeHead(asked === null ? 200 : 206, { ...headers, "content-length": to - from + 1 });
    const cut = Number(url.searchParams.get("cut") ?? 0);
    const whole = asked === null || asked[2] === "";
    if (cut > 0 && whole && !cuts.has(request.url)) {
      cuts.add(request.url);
      const part = createReadStream(file, { start: from, end: from + cut - 1 });
      part.on("end", () => setTimeout(() => response.destroy(), 50));
      return part.pipe(response, { end: false });
    }
    if (to < from) return response.end();
    createReadStream(file, { start: from, end: to }).pipe(response);
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      resolve({ origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() });
    });
  });
}
