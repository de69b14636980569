/** Hashes of files on the Hugging Face hub, from its listing. */

import type { Wanted } from "./download.js";

const FILE = /^(https:\/\/huggingface\.co)\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;
/** The listing is asked for a moment only: a file loads without its hash too. */
const LISTING_MS = 10_000;

/** Gives files of one repository that have no SHA-256 the one that the hub lists. Whatever fails leaves them as they are. */
export async function findHubHashes(files: Wanted[], signal: AbortSignal): Promise<void> {
  const parsed = files.map(({ url }) => FILE.exec(url.replace(/[?#].*/, "")));
  const [, hub, repository, revision] = parsed[0] ?? [];
  if (!hub || files[0]!.sha256) return;
  try {
    const paths = parsed.map((file) => decodeURIComponent(file![4]!));
    const response = await fetch(`${hub}/api/models/${repository}/paths-info/${revision}`, {
      method: "POST",
      headers: files[0]!.headers,
      body: new URLSearchParams(paths.map((path) => ["paths", path])),
      signal: AbortSignal.any([signal, AbortSignal.timeout(LISTING_MS)]),
    });
    for (const { path, lfs } of (await response.json()) as { path: string; lfs?: { oid: string } }[]) {
      const file = files[paths.indexOf(path)];
      if (file && /^[0-9a-f]{64}$/.test(lfs?.oid ?? "")) file.sha256 = lfs!.oid;
    }
  } catch {
    signal.throwIfAborted();
  }
}
