/** A file that is being written: through a handle that writes in place in a dedicated worker, through a swap file elsewhere. */

/** `FileSystemSyncAccessHandle`, which TypeScript's library for pages does not have. */
interface SyncHandle {
  getSize(): number;
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

interface WithSyncHandles {
  createSyncAccessHandle?(): Promise<SyncHandle>;
}

export interface PartialFile {
  /** Bytes that an earlier download left. */
  readonly stored: number;
  /** Reads what is stored. */
  read(offset: number, length: number): Uint8Array;
  /** Throws away what is stored. */
  restart(): Promise<void>;
  /** Writes after what was written last. */
  append(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Closes the file, its bytes on the disk. */
  close(): Promise<void>;
}

/** How much may be lost when the browser is closed. */
const FLUSH_EVERY = 16 << 20;

export async function openPartial(handle: FileSystemFileHandle): Promise<PartialFile> {
  const { createSyncAccessHandle } = handle as WithSyncHandles;
  return createSyncAccessHandle === undefined
    ? new SwapFile(await handle.createWritable())
    : new InPlace(await createSyncAccessHandle.call(handle));
}

class InPlace implements PartialFile {
  readonly stored: number;
  private at: number;
  private flushed: number;

  constructor(private readonly handle: SyncHandle) {
    this.stored = this.at = this.flushed = handle.getSize();
  }

  read(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, this.handle.read(bytes, { at: offset }));
  }

  async restart(): Promise<void> {
    this.handle.truncate(0);
    this.at = this.flushed = 0;
  }

  async append(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const written = this.handle.write(bytes, { at: this.at });
    if (written !== bytes.length) throw new DOMException(`${written} of ${bytes.length} bytes were written`, "QuotaExceededError");
    this.at += written;
    if (this.at - this.flushed >= FLUSH_EVERY) {
      this.handle.flush();
      this.flushed = this.at;
    }
  }

  async close(): Promise<void> {
    try {
      this.handle.flush();
    } finally {
      this.handle.close();
    }
  }
}

/** Nothing of it is kept unless it is closed, so there is nothing to resume from. */
class SwapFile implements PartialFile {
  readonly stored = 0;

  constructor(private readonly writable: FileSystemWritableFileStream) {}

  read(): Uint8Array {
    return new Uint8Array(0);
  }

  async restart(): Promise<void> {
    await this.writable.truncate(0);
    await this.writable.seek(0);
  }

  async append(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.writable.write(bytes);
  }

  async close(): Promise<void> {
    await this.writable.close();
  }
}
