// What every file tool is made with.

import type { JsonObject, ToolContext } from "../../../index.ts";
import { type ConfinedRoot, within } from "./confined-folder.ts";
import type { FileLimits } from "./file-limits.ts";
import type { IgnoreRule } from "./ignore-rules.ts";
import type { OneByOne } from "./one-by-one.ts";

export interface FileToolSetup {
  readonly root: ConfinedRoot;
  readonly limits: FileLimits;
  /** Rules of the host, beside those of .gitignore files. */
  readonly ignore: readonly IgnoreRule[];
  readonly usesGitignore: boolean;
  /** What every write goes through. */
  readonly writing: OneByOne;
}

/** The setup for a call of a session that may reach some paths only. */
export function setupFor(setup: FileToolSetup, { paths }: Pick<ToolContext, "paths">): FileToolSetup {
  return paths === undefined ? setup : { ...setup, root: within(setup.root, paths) };
}

/** The schema of the arguments of a tool: an object of these members and no others. */
export function argumentsOf(properties: JsonObject, required: readonly string[]): JsonObject {
  return { type: "object", properties, required: [...required], additionalProperties: false };
}

export function textArgument(description: string): JsonObject {
  return { type: "string", description };
}

export function countArgument(
  description: string,
  range: { readonly from: number; readonly to?: number },
): JsonObject {
  const { from, to } = range;
  return { type: "integer", description, minimum: from, ...(to === undefined ? {} : { maximum: to }) };
}

export function flagArgument(description: string): JsonObject {
  return { type: "boolean", description };
}

export const PATH: JsonObject = textArgument("A path relative to the root.");
