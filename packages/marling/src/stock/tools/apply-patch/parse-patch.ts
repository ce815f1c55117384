// Reads a patch in either of its two forms. What is not understood is refused with its line: nothing is guessed.

import { FileRefusal } from "../files/file-refusal.ts";
import { parseEnvelope } from "./parse-envelope.ts";
import { parseUnified } from "./parse-unified.ts";
import type { PatchChange } from "./patch-change.ts";

/** The changes of a patch, in order. */
export function parsePatch(text: string): readonly PatchChange[] {
  const lines = text.replace(/\r\n/g, "\n").split("\n");
  const begin = lines.findIndex((line) => line.trim() === "*** Begin Patch");
  if (begin !== -1) return checkSome(parseEnvelope(lines, begin));
  if (lines.some((line) => line.startsWith("--- ") || line.startsWith("diff --git ")))
    return checkSome(parseUnified(lines));
  throw new FileRefusal(
    "invalid_patch",
    "patch: expected a text that begins with *** Begin Patch, or a unified diff with --- and +++ lines, found neither.",
  );
}

function checkSome(changes: readonly PatchChange[]): readonly PatchChange[] {
  if (changes.length > 0) return changes;
  throw new FileRefusal("invalid_patch", "patch: expected at least one file, found none.");
}
