// Where whole outputs are kept: in the session's own history, or as files in a folder.
//   KO1  a reference is made from the content, so that the same output is kept once and a replay names the same one.
//   KO2  a file is opened without following links, and must be inside the folder as it really is.

import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { RuntimeSessionHost } from "../../plugin/index.ts";

export interface KeptOutputs {
  keep(text: string): Promise<string>;
  /** The whole text under a reference, if it is known. */
  read(ref: string): Promise<string | undefined>;
}

const NODE_TYPE = "tool_output_budget.output";
const REF = /^out_[0-9a-f]{24}$/;

export function outputRef(text: string): string {
  return `out_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`;
}

/** Keeps outputs as nodes of the session: they are there after a restart and in forks, and the model never sees them. */
export function keptInSession(sessionId: string, host: () => RuntimeSessionHost): KeptOutputs {
  const find = async (ref: string): Promise<string | undefined> => {
    const view = await host().snapshotCurrent();
    for (const node of view.history().toReversed()) {
      if (node.kind !== "plugin" || node.type !== NODE_TYPE) continue;
      const body = node.body as { readonly ref?: unknown; readonly text?: unknown };
      if (body.ref === ref && typeof body.text === "string") return body.text;
    }
    return undefined;
  };
  const known = new Set<string>();
  return {
    keep: async (text) => {
      const ref = outputRef(text);
      if (known.has(ref)) return ref;
      const node = { kind: "plugin", type: NODE_TYPE, body: { ref, text } } as const;
      await host().appendSessionNodes(sessionId, { nodes: [node] });
      known.add(ref);
      return ref;
    },
    read: find,
  };
}

/** Keeps outputs as files that only their owner may read. */
export function keptInFolder(folder: string): KeptOutputs {
  const fileOf = (ref: string): string => join(folder, `${ref}.txt`);
  return {
    keep: async (text) => {
      const ref = outputRef(text);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if (!(await isThere(fileOf(ref)))) await writeWhole(fileOf(ref), text);
      return ref;
    },
    read: async (ref) => (REF.test(ref) ? readInside(folder, fileOf(ref)) : undefined),
  };
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

/** Writes beside the file and renames: a file that is there is whole. */
async function writeWhole(path: string, text: string): Promise<void> {
  const part = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    const file = await open(part, "wx", 0o600);
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    await rename(part, path);
  } catch (thrown) {
    await rm(part, { force: true });
    throw thrown;
  }
}

async function readInside(folder: string, path: string): Promise<string | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      if (dirname(await realpath(path)) !== (await realpath(folder))) return undefined;
      return await file.readFile("utf8");
    } finally {
      await file.close();
    }
  } catch {
    return undefined; // Whatever the reason, the output is not to be had.
  }
}
