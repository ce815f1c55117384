// Tools with which a model reads, writes and searches the files below one folder.

import { MarlingError, type ToolDefinition } from "../../../index.ts";
import { confinedRoot } from "./confined-folder.ts";
import { editFileTool } from "./edit-file.ts";
import { type FileLimits, fileLimits } from "./file-limits.ts";
import { grepTool } from "./grep.ts";
import { type IgnoreRule, parseIgnoreRules } from "./ignore-rules.ts";
import { globTool, listFilesTool } from "./list-files.ts";
import { oneByOne } from "./one-by-one.ts";
import { readFileTool } from "./read-file.ts";
import type { FileToolSetup } from "./tool-setup.ts";
import { writeFileTool } from "./write-file.ts";

export interface FileToolsOptions {
  /** The folder that the tools see. Nothing outside it is read or written, whatever a path or a link says. */
  readonly root: string;
  /** Files and folders below the root that no tool reaches or shows, relative to it. */
  readonly denied?: readonly string[];
  /** Leaves `write_file` and `edit_file` out. */
  readonly readOnly?: boolean;
  readonly limits?: Partial<FileLimits>;
  /**
   * Patterns, written as in a .gitignore file, of what `list_files`, `glob` and `grep` leave out beside what .gitignore
   * files say; `false` turns the .gitignore files off. This spares tokens and protects nothing: the files can be read.
   */
  readonly ignore?: readonly string[] | false;
}

/** The tools `read_file`, `list_files`, `glob`, `grep` and, unless `readOnly`, `write_file` and `edit_file`. */
export function fileTools(options: FileToolsOptions): readonly ToolDefinition[] {
  const setup = fileToolSetup(options, "fileTools");
  const reading = [readFileTool(setup), listFilesTool(setup), globTool(setup), grepTool(setup)];
  return Object.freeze(options.readOnly ? reading : [...reading, writeFileTool(setup), editFileTool(setup)]);
}

function fileToolSetup({ root, denied, limits, ignore }: FileToolsOptions, where: string): FileToolSetup {
  return Object.freeze({
    root: confinedRoot(root, where, { denied }),
    limits: fileLimits(limits, where),
    ignore: hostRules(ignore, where),
    usesGitignore: ignore !== false,
    writing: oneByOne(),
  });
}

function hostRules(ignore: unknown, where: string): readonly IgnoreRule[] {
  if (ignore === undefined || ignore === false) return [];
  if (Array.isArray(ignore) && ignore.every((one) => typeof one === "string"))
    return parseIgnoreRules(ignore.join("\n"));
  throw new MarlingError("invalid_options", `${where}: ignore: expected a list of patterns or false`, {
    details: { where },
  });
}
