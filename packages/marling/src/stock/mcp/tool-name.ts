// The names under which models call the tools of servers.
//   MC1  a tool is called mcp__<server>__<tool>; servers and tools whose names hold __ are refused, so that nobody can pass
//        for another.
//   MC2  a name that providers of models refuse is replaced by one that they take, made from the name and its digest: the same
//        name always gives the same replacement.

import { createHash } from "node:crypto";

const LONGEST_NAME = 64;
const DIGEST_LETTERS = 8;
const LONGEST_TOOL_NAME = 256;

export type ToolNaming = { readonly name: string } | { readonly refused: string };

export function toolNameFor(server: string, tool: string): ToolNaming {
  if (tool.trim() === "") return { refused: "its name is blank" };
  if (tool.length > LONGEST_TOOL_NAME) return { refused: `its name is longer than ${LONGEST_TOOL_NAME}` };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(tool)) return { refused: "its name holds control characters" };
  if (tool.includes("__")) return { refused: "its name holds __, which separates servers from tools" };
  const prefix = `mcp__${server}__`;
  const plain = tool.replaceAll(/[^a-zA-Z0-9_-]/g, "-");
  if (plain === tool && prefix.length + tool.length <= LONGEST_NAME) return { name: prefix + tool };
  const digest = createHash("sha256").update(tool).digest("hex").slice(0, DIGEST_LETTERS);
  const room = LONGEST_NAME - prefix.length - DIGEST_LETTERS - 1;
  return { name: `${prefix}${plain.slice(0, room)}-${digest}` };
}
