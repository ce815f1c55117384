// The tool `apply_patch`: several files changed at once, all or none.

import { defineTool, type ToolDefinition } from "../../../index.ts";
import { type ConfinedRoot, confinedRoot, within } from "../files/confined-folder.ts";
import { type FileLimits, fileLimits } from "../files/file-limits.ts";
import { answering, FileRefusal } from "../files/file-refusal.ts";
import { oneByOne } from "../files/one-by-one.ts";
import { argumentsOf, textArgument } from "../files/tool-setup.ts";
import { type DiffBounds, diffBounds, unifiedDiff } from "../files/unified-diff.ts";
import { parsePatch } from "./parse-patch.ts";
import { type PlannedFile, planPatch } from "./patch-plan.ts";
import { writePlan } from "./write-plan.ts";

export interface ApplyPatchOptions {
  /** The folder that the tool sees. Nothing outside it is read or written, whatever a path or a link says. */
  readonly root: string;
  /** Files and folders below the root that the tool does not reach, relative to it. */
  readonly denied?: readonly string[];
  readonly limits?: Partial<FileLimits>;
}

const DESCRIPTION = `Changes several files at once; if one change does not fit, nothing is written. The patch is a unified diff, or:
*** Begin Patch
*** Add File: path
+every line of the new file
*** Update File: path
*** Move to: new path (optional)
@@ a line above the change, where needed to find it (optional)
 a line that stays
-a line that goes
+a line that comes
*** Delete File: path
*** End Patch
Paths are relative to the root. Give about three unchanged lines around each change.`;

/** The tool `apply_patch`. */
export function applyPatchTool(options: ApplyPatchOptions): ToolDefinition {
  const root = confinedRoot(options.root, "applyPatchTool", { denied: options.denied });
  const limits = fileLimits(options.limits, "applyPatchTool");
  const writing = oneByOne();
  return defineTool({
    name: "apply_patch",
    description: DESCRIPTION,
    input: argumentsOf({ patch: textArgument("The patch.") }, ["patch"]),
    replay: "unsafe",
    execution: "serial",
    execute: (raw, { signal, paths }) => {
      const { patch } = raw as unknown as { readonly patch: string }; // The schema above was checked.
      const reached = within(root, paths);
      return answering(() => writing(signal, () => patchFiles(patch, { root: reached, limits })));
    },
  });
}

async function patchFiles(
  patch: string,
  { root, limits }: { readonly root: ConfinedRoot; readonly limits: FileLimits },
): Promise<string> {
  checkSize(patch, limits);
  const files = await planPatch(parsePatch(patch), { root, limits });
  if (files.length === 0)
    throw new FileRefusal("no_change", "patch: expected a change, found that the files are so already.");
  await writePlan(root, files);
  return answer(files, limits);
}

function checkSize(patch: string, { writeBytes }: FileLimits): void {
  const bytes = Buffer.byteLength(patch);
  if (bytes > writeBytes)
    throw new FileRefusal("file_too_large", `patch: expected at most ${writeBytes} bytes, found ${bytes}.`);
}

function answer(files: readonly PlannedFile[], limits: FileLimits): string {
  const moved = new Map(
    files.flatMap(({ path, movedFrom }) => (movedFrom === undefined ? [] : [[movedFrom, path]])),
  );
  const shown = files.filter(({ path, after }) => after !== undefined || !moved.has(path));
  let room = diffBounds(limits);
  const diffs = shown.map((file) => {
    const diff = diffOf(file, { files, bounds: room });
    const lines = Math.max(1, room.lines - diff.split("\n").length);
    room = { ...room, lines, bytes: Math.max(1, room.bytes - Buffer.byteLength(diff)) };
    return diff;
  });
  return [`Applied the patch: ${shown.map(summary).join(", ")}.`, ...diffs].join("\n");
}

function summary({ path, before, after, movedFrom }: PlannedFile): string {
  if (movedFrom !== undefined) return `moved ${movedFrom} to ${path}`;
  if (before === undefined) return `added ${path}`;
  return after === undefined ? `deleted ${path}` : `updated ${path}`;
}

function diffOf(
  { path, before, after, movedFrom }: PlannedFile,
  { files, bounds }: { readonly files: readonly PlannedFile[]; readonly bounds: DiffBounds },
): string {
  const source = files.find((file) => file.path === movedFrom);
  const texts = { before: (before ?? source?.before)?.text, after };
  return unifiedDiff(texts, { path, bounds, ...(movedFrom === undefined ? {} : { from: movedFrom }) });
}
