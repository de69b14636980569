/**
 * Model files in the origin's private file system, one folder for the package:
 * `<key>.gguf` is whole, `<key>.partial` is not yet, `<key>.json` says what it is. The key is the SHA-256 of the address.
 */

const FOLDER = "foretoken";

/** What is known of a cached file. */
export interface CachedModel {
  url: string;
  name: string;
  /** Bytes stored. */
  size: number;
  /** Whether all of it is there. */
  complete: boolean;
  /** Its SHA-256, where it was known and is right. */
  sha256?: string;
}

/** What `<key>.json` holds. */
export interface Entry {
  url: string;
  name: string;
  /** Of the whole file, where the server told. */
  total?: number | undefined;
  etag?: string | undefined;
  /** Checked, not only hoped for. */
  sha256?: string;
}

/** A handle that can be renamed: not in TypeScript's library. */
interface Movable {
  move(name: string): Promise<void>;
}

export class Cache {
  private constructor(private readonly folder: FileSystemDirectoryHandle) {}

  /** Undefined where the browser has none: an insecure page, some private windows. */
  static async open(): Promise<Cache | undefined> {
    try {
      const root = await navigator.storage.getDirectory();
      return new Cache(await root.getDirectoryHandle(FOLDER, { create: true }));
    } catch {
      return undefined;
    }
  }

  async entry(key: string): Promise<Entry | undefined> {
    try {
      const handle = await this.folder.getFileHandle(`${key}.json`);
      return JSON.parse(await (await handle.getFile()).text()) as Entry;
    } catch {
      return undefined;
    }
  }

  async writeEntry(key: string, entry: Entry): Promise<void> {
    const handle = await this.folder.getFileHandle(`${key}.json`, { create: true });
    const writable = await handle.createWritable();
    await writable.write(JSON.stringify(entry));
    await writable.close();
  }

  /** The whole file. */
  async file(key: string): Promise<File | undefined> {
    try {
      return await (await this.folder.getFileHandle(`${key}.gguf`)).getFile();
    } catch {
      return undefined;
    }
  }

  async partial(key: string): Promise<FileSystemFileHandle> {
    return this.folder.getFileHandle(`${key}.partial`, { create: true });
  }

  /** Bytes of a file that were downloaded before. */
  async partialSize(key: string): Promise<number> {
    return this.folder.getFileHandle(`${key}.partial`).then(async (handle) => (await handle.getFile()).size, () => 0);
  }

  /** Makes what was downloaded the whole file. Nobody may have it open. */
  async commit(key: string): Promise<void> {
    const handle = await this.partial(key);
    await (handle as unknown as Movable).move(`${key}.gguf`);
  }

  /** Removes a file that nobody downloads. */
  async discard(key: string): Promise<void> {
    await navigator.locks.request(lockOf(key), { ifAvailable: true }, async (lock) => {
      if (lock !== null) await this.remove(key);
    });
  }

  async remove(key: string): Promise<void> {
    for (const extension of ["gguf", "partial", "json"]) {
      await this.folder.removeEntry(`${key}.${extension}`).catch(() => {});
    }
  }

  async list(): Promise<[key: string, model: CachedModel][]> {
    const keys = new Map<string, { size: number; complete: boolean }>();
    for await (const [file, handle] of this.folder.entries()) {
      const [, key, extension] = /^([0-9a-f]{64})\.(gguf|partial)$/.exec(file) ?? [];
      if (key === undefined || handle.kind !== "file") continue;
      const { size } = await (handle as FileSystemFileHandle).getFile();
      const complete = extension === "gguf";
      if (complete || !keys.has(key)) keys.set(key, { size, complete });
    }
    const models: [string, CachedModel][] = [];
    for (const [key, found] of keys) {
      const { url = "", name = "", sha256 } = (await this.entry(key)) ?? {};
      models.push([key, { url, name, ...found, ...(found.complete && sha256 !== undefined ? { sha256 } : {}) }]);
    }
    return models;
  }
}

export async function keyOf(url: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The lock that whoever downloads a file holds meanwhile. */
export const lockOf = (key: string) => `foretoken:${key}`;

/** The model files that are stored for this origin, whole and partial. */
export async function listCached(): Promise<CachedModel[]> {
  const cache = await Cache.open();
  return cache === undefined ? [] : (await cache.list()).map(([, model]) => model);
}

/**
 * Removes the file of an address, or all files; of a split model, each part has its own. An engine that has loaded one keeps running,
 * and what is being downloaded at the moment, by whatever tab, stays.
 */
export async function clearCache(url?: string | URL): Promise<void> {
  const cache = await Cache.open();
  if (cache === undefined) return;
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  const keys = url === undefined
    ? (await cache.list()).map(([key]) => key)
    : [await keyOf(new URL(url, base).href)];
  for (const key of keys) await cache.discard(key);
}
