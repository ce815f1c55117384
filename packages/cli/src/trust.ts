// Folders whose own files may say what the agent runs and reads: only those that the user has named.

import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "./environment.ts";
import { userFolder } from "./user-folder.ts";

export function isTrusted(folder: string, env: Environment["env"]): boolean {
  return trustedFolders(env).includes(realpathSync(folder));
}

export function trust(folder: string, env: Environment["env"]): void {
  const folders = new Set(trustedFolders(env)).add(realpathSync(folder));
  mkdirSync(userFolder(env), { recursive: true });
  writeFileSync(fileOf(env), `${JSON.stringify({ folders: [...folders].sort() }, undefined, 2)}\n`);
}

function trustedFolders(env: Environment["env"]): readonly string[] {
  if (!existsSync(fileOf(env))) return [];
  try {
    const { folders } = JSON.parse(readFileSync(fileOf(env), "utf8")) as { folders?: unknown };
    return Array.isArray(folders) ? folders.filter((folder) => typeof folder === "string") : [];
  } catch {
    return []; // A file that cannot be read trusts nothing.
  }
}

function fileOf(env: Environment["env"]): string {
  return join(userFolder(env), "trusted.json");
}
