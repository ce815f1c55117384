// The tools `list_files` and `glob`.

import { defineTool, type ToolDefinition } from "../../../index.ts";
import { type ConfinedFolder, shownPath } from "./confined-folder.ts";
import { answering } from "./file-refusal.ts";
import { type FolderWalk, folderWalk, walkRemarks, withFolder } from "./folder-walk.ts";
import { parsePathPattern } from "./path-pattern.ts";
import {
  argumentsOf,
  countArgument,
  type FileToolSetup,
  flagArgument,
  setupFor,
  textArgument,
} from "./tool-setup.ts";
import type { WalkEntry } from "./walk-files.ts";

const MAX_DEPTH = 20;
const FOLDER = textArgument("A folder relative to the root; by default the root.");
const INCLUDE_IGNORED = flagArgument("Also what .gitignore files leave out.");
const MARK: Readonly<Record<WalkEntry["kind"], string>> = { file: "", folder: "/", link: "@" };

interface ListArgs {
  readonly path?: string;
  readonly depth?: number;
  readonly includeIgnored?: boolean;
}

export function listFilesTool(setup: FileToolSetup): ToolDefinition {
  return defineTool({
    name: "list_files",
    description:
      "Lists a folder, one path per line, sorted; folders end in / and links in @. What .gitignore leaves out is not " +
      `listed. At most ${setup.limits.results} paths.`,
    input: argumentsOf(
      {
        path: FOLDER,
        depth: countArgument("How many levels to list; by default 1.", { from: 1, to: MAX_DEPTH }),
        includeIgnored: INCLUDE_IGNORED,
      },
      [],
    ),
    replay: "safe",
    pathArgs: ["path"],
    execute: (raw, context) => {
      const { signal } = context;
      const { path = ".", depth = 1, includeIgnored = false } = raw as unknown as ListArgs; // The schema was checked.
      const list = (folder: ConfinedFolder): Promise<string> => {
        const walk = folderWalk(folder, setup, {
          signal,
          includeIgnored,
          enters: (below) => below.length < depth,
        });
        return namesOf(walk, { most: setup.limits.results, wants: () => true });
      };
      return answering(() => withFolder(setupFor(setup, context), path, list));
    },
  });
}

interface GlobArgs {
  readonly pattern: string;
  readonly path?: string;
  readonly includeIgnored?: boolean;
}

export function globTool(setup: FileToolSetup): ToolDefinition {
  return defineTool({
    name: "glob",
    description:
      "Finds files by a pattern of their paths: * and ? within a name, ** for any folders, [a-z], {a,b}; for example " +
      "src/**/*.{ts,tsx}. One path per line, sorted. What .gitignore leaves out is not found. At most " +
      `${setup.limits.results} paths.`,
    input: argumentsOf(
      {
        pattern: textArgument(
          "The pattern, relative to path. *.ts is in that folder only, **/*.ts also below it.",
        ),
        path: FOLDER,
        includeIgnored: INCLUDE_IGNORED,
      },
      ["pattern"],
    ),
    replay: "safe",
    pathArgs: ["path"],
    execute: (raw, context) => {
      const { signal } = context;
      const { pattern, path = ".", includeIgnored = false } = raw as unknown as GlobArgs; // The schema was checked.
      return answering(async () => {
        const wanted = parsePathPattern(pattern);
        return withFolder(setupFor(setup, context), path, (folder) => {
          const walk = folderWalk(folder, setup, { signal, includeIgnored, enters: wanted.reaches });
          const wants = (entry: WalkEntry): boolean =>
            entry.kind !== "folder" && wanted.matches(walk.below(entry));
          return namesOf(walk, { most: setup.limits.results, wants });
        });
      });
    },
  });
}

interface Wanted {
  readonly most: number;
  wants(entry: WalkEntry): boolean;
}

async function namesOf(walk: FolderWalk, { most, wants }: Wanted): Promise<string> {
  const names: string[] = [];
  const remarks: string[] = [];
  for await (const entry of walk.entries) {
    if (!wants(entry)) continue;
    if (names.length === most) {
      remarks.push(`(The first ${most} paths; there are more. Use a narrower pattern or folder.)`);
      break;
    }
    names.push(shownPath(entry.segments) + MARK[entry.kind]);
  }
  if (names.length === 0)
    remarks.push(`(Nothing found below ${walk.path === "." ? "the root" : walk.path}.)`);
  return [...names, ...remarks, ...walkRemarks(walk.report)].join("\n");
}
