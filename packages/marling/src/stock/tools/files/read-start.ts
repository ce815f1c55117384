// Reads the start of a file, and never more than was asked for.

import type { FileHandle } from "node:fs/promises";
import type { ConfinedFolder } from "./confined-folder.ts";

/** The first bytes of a file in a folder. Refuses what is no regular file below the root. */
export async function readStart(
  folder: ConfinedFolder,
  { name, bytes }: { readonly name: string; readonly bytes: number },
): Promise<Buffer<ArrayBuffer>> {
  const handle = await folder.openFile(name);
  try {
    return await readUpTo(handle, bytes);
  } finally {
    await handle.close();
  }
}

/** The first bytes of an open file: fewer when it is shorter. The memory belongs to the result alone. */
export async function readUpTo(handle: FileHandle, bytes: number): Promise<Buffer<ArrayBuffer>> {
  const { size } = await handle.stat();
  const buffer = Buffer.alloc(Math.min(size, bytes));
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(buffer, filled, buffer.length - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
