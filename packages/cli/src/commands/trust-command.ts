// `marling trust`: this folder's own config and instructions may be used from now on.

import { EXIT } from "../exit-code.ts";
import { trust } from "../trust.ts";
import type { Command } from "./command.ts";

export const trustCommand: Command = {
  name: "trust",
  summary: "let this folder's config and instruction files be used",
  args: "",
  mostArgs: 0,
  flags: [],
  notes: `A folder that is not trusted sets no address, no MCP server, no instructions and no answer to what tools ask.`,
  run: async ({ cwd, env, stdout }) => {
    trust(cwd, env);
    stdout.write(`${cwd} is trusted\n`);
    return EXIT.finished;
  },
};
