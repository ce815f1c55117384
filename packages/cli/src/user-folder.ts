// Where the user's own config, and what is remembered of folders, are.

import { homedir } from "node:os";
import { join } from "node:path";
import type { Environment } from "./environment.ts";

export function userFolder(env: Environment["env"]): string {
  const base = env.XDG_CONFIG_HOME;
  return join(base === undefined || base === "" ? join(env.HOME ?? homedir(), ".config") : base, "marling");
}
