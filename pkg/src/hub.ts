/** Hashes of files on the Hugging Face hub, from its listing. */

import type { Wanted } from "./download.js";

const FILE = /^(https:\/\/huggingface\.co)\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;
/** The listing is asked for a moment only: a file loads without its hash too. */
const LISTING_MS = 10_000;
/** The hub keeps no larger file in git itself. */
const GIT_BLOB_BYTES = 32 << 20;

/** What the hub says of a file: a large one has a SHA-256, a small one git's hash alone. */
interface Listed {
  path: string;
  size?: number;
  oid?: string;
  lfs?: { oid: string };
}

/** Gives files on the hub that have no SHA-256 the hashes that it lists; one request a repository and revision. Whatever fails leaves them as they are. */
export async function findHubHashes(files: Wanted[], signal: AbortSignal): Promise<void> {
  const groups = new Map<string, Map<string, Wanted>>();
  for (const file of files) {
    const [, hub, repository, revision, path] = FILE.exec(file.url.replace(/[?#].*/, "")) ?? [];
    if (!path || file.sha256) continue;
    // Who may read one file need not be who may read the other.
    const key = JSON.stringify([`${hub}/api/models/${repository}/paths-info/${revision}`, file.headers]);
    groups.set(key, (groups.get(key) ?? new Map<string, Wanted>()).set(path, file));
  }
  await Promise.all([...groups].map(([key, group]) => find(JSON.parse(key)[0], group, signal)));
}

/** Asks one listing for files by their encoded paths. */
async function find(listing: string, group: Map<string, Wanted>, signal: AbortSignal): Promise<void> {
  try {
    const files = new Map([...group].map(([path, file]) => [decodeURIComponent(path), file]));
    const response = await fetch(listing, {
      method: "POST",
      headers: [...files.values()][0]!.headers,
      body: new URLSearchParams([...files.keys()].map((path) => ["paths", path])),
      signal: AbortSignal.any([signal, AbortSignal.timeout(LISTING_MS)]),
    });
    for (const { path, size, oid, lfs } of (await response.json()) as Listed[]) {
      const file = files.get(path);
      if (!file) continue;
      if (/^[0-9a-f]{64}$/.test(lfs?.oid ?? "")) file.sha256 = lfs!.oid;
      else if (!lfs && /^[0-9a-f]{40}$/.test(oid ?? "") && size! <= GIT_BLOB_BYTES) file.gitBlob = oid!;
    }
  } catch {
    signal.throwIfAborted();
  }
}

/** Whether a file is the one of git's hash: the SHA-1 of its kind and length, and its bytes. What is larger than any such file is not read. */
export async function isGitBlob(file: Blob, hash: string): Promise<boolean> {
  if (file.size > GIT_BLOB_BYTES) return false;
  const bytes = await new Blob([`blob ${file.size}\0`, file]).arrayBuffer();
  const digits = [...new Uint8Array(await crypto.subtle.digest("SHA-1", bytes))].map((byte) => byte.toString(16).padStart(2, "0"));
  return digits.join("") === hash;
}
