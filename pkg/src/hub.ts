/** Hashes of files on the Hugging Face hub, from its listing. */

import type { Wanted } from "./download.js";

const FILE = /^(https:\/\/huggingface\.co)\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;
/** The listing is asked for a moment only: a file loads without its hash too. */
const LISTING_MS = 10_000;

/** The files, with the SHA-256 that the hub lists for those of one repository that have none. Whatever fails leaves them as they are. */
export async function withHubHashes(files: Wanted[], signal: AbortSignal): Promise<Wanted[]> {
  const parsed = files.map(({ url }) => FILE.exec(url.replace(/[?#].*/, "")));
  const [, hub, repository, revision] = parsed[0] ?? [];
  if (hub === undefined || files.every(({ sha256 }) => sha256 !== undefined)) return files;
  const found = new Map<string, string>();
  try {
    const paths = parsed.map((file) => decodeURIComponent(file![4]!));
    const response = await fetch(`${hub}/api/models/${repository}/paths-info/${revision}`, {
      method: "POST",
      headers: files[0]!.headers,
      body: new URLSearchParams(paths.map((path) => ["paths", path])),
      signal: AbortSignal.any([signal, AbortSignal.timeout(LISTING_MS)]),
    });
    for (const { path, lfs } of (await response.json()) as { path: string; lfs?: { oid: string } }[]) {
      if (/^[0-9a-f]{64}$/.test(lfs?.oid ?? "")) found.set(path, lfs!.oid);
    }
    return files.map((file, i) => ({ ...file, sha256: file.sha256 ?? found.get(paths[i]!) }));
  } catch {
    signal.throwIfAborted();
    return files;
  }
}
