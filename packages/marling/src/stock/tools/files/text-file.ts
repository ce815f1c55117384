// A text file that is read whole in order to be changed, and put back only if nobody else changed it meanwhile.

import type { BigIntStats } from "node:fs";
import { type ConfinedFolder, checkRegular } from "./confined-folder.ts";
import { contentKind } from "./content-kind.ts";
import { FileRefusal } from "./file-refusal.ts";
import { readUpTo } from "./read-start.ts";

export interface TextFile {
  readonly text: string;
  readonly mode: number;
  readonly version: FileVersion;
}

/** What tells one state of a file from another. */
type FileVersion = Pick<BigIntStats, "ino" | "size" | "mtimeNs">;

/** Reads a file as text. Refuses one that is too large, binary, or not UTF-8: writing it back would damage it. */
export async function readTextFile(
  folder: ConfinedFolder,
  name: string,
  options: { readonly maxBytes: number },
): Promise<TextFile> {
  const path = folder.pathOf(name);
  const handle = await folder.openFile(name);
  try {
    const stats = await handle.stat({ bigint: true });
    if (stats.size > BigInt(options.maxBytes))
      throw new FileRefusal(
        "file_too_large",
        `${path}: expected at most ${options.maxBytes} bytes, found ${stats.size}.`,
      );
    const text = decodeText(await readUpTo(handle, options.maxBytes), path);
    return { text, mode: Number(stats.mode & 0o7777n), version: stats };
  } finally {
    await handle.close();
  }
}

function decodeText(bytes: Buffer, path: string): string {
  const content = contentKind(bytes);
  if (content.kind !== "text")
    throw new FileRefusal(
      "binary_file",
      `${path}: expected a text file, found ${content.kind === "image" ? "an image" : content.what}.`,
    );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (thrown) {
    throw new FileRefusal("binary_file", `${path}: expected text in UTF-8, found other bytes.`, {
      cause: thrown,
    });
  }
}

/** Refuses when the file is not the one that was read. */
export async function checkUnchanged(
  folder: ConfinedFolder,
  name: string,
  version: FileVersion,
): Promise<void> {
  const found = await folder.lookup(name);
  checkRegular(found, folder.pathOf(name));
  if (found?.ino === version.ino && found.size === version.size && found.mtimeNs === version.mtimeNs) return;
  throw new FileRefusal(
    "file_changed",
    `${folder.pathOf(name)}: the file was changed by somebody else meanwhile. Read it again.`,
  );
}
