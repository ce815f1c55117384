// The demo agent's plugin: real tools, a memory that commits with the turn, and a hook that guards the files.

import { appendFile, mkdir, open, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  definePlugin,
  defineTool,
  directive,
  type JsonObject,
  type Plugin,
  type ToolDefinition,
  toolFailure,
} from "marling";
import { calculate } from "./calculate.ts";

export interface DemoPluginOptions {
  readonly root: string;
  /** Where notes go. */
  readonly notes: string;
  /** How long one step of slow work takes. */
  readonly stepMs?: number;
}

const MOST_BYTES = 64 * 1024;
const MOST_LINES = 12;
const MOST_FILES = 30;

export function demoPlugin(options: DemoPluginOptions): Plugin {
  return definePlugin({
    id: "demo",
    build(ctx) {
      const memory = ctx.durable<{ readonly facts: readonly string[] }>({
        version: 1,
        initial: () => ({ facts: [] }),
      });
      const remember = textTool({
        name: "remember",
        description: "Keeps something in mind, in this session.",
        fields: ["fact"],
        execute: ({ fact }) => {
          memory.update(({ facts }) => ({ facts: [...facts, fact] }));
          return `I will remember: ${fact}`;
        },
      });
      const recall = textTool({
        name: "recall",
        description: "Says what was kept in mind.",
        fields: [],
        execute: () => {
          const { facts } = memory.get();
          return facts.length === 0 ? "Nothing so far." : facts.map((fact) => `- ${fact}`).join("\n");
        },
      });
      return {
        tools: [remember, recall, ...fileTools(options), slowWork(options), sums()],
        prompt: () => ({ slot: "guidance", content: "You are the scripted demo agent of marling." }),
        toolCalls: { before: ({ args }) => guard(args) },
      };
    },
  })();
}

/** Files with secrets are nobody's business here, whichever tool asks. */
function guard(args: unknown): ReturnType<typeof directive.shortCircuitTool> | undefined {
  const { path } = args as { readonly path?: unknown };
  if (typeof path !== "string" || !basename(path).startsWith(".env")) return undefined;
  return directive.shortCircuitTool(
    toolFailure({
      code: "guarded",
      class: "permission_denied",
      message: `${path} may hold secrets; the demo's hook refuses it. Ask for another file.`,
    }),
  );
}

function fileTools({ root, notes }: DemoPluginOptions): readonly ToolDefinition[] {
  return [
    textTool({
      name: "list_files",
      description: "Lists a folder.",
      fields: ["path"],
      isOptional: true,
      execute: ({ path = "." }) => listFolder(root, path),
    }),
    textTool({
      name: "read_file",
      description: "Reads the beginning of a file.",
      fields: ["path"],
      execute: async ({ path }) => {
        const text = await readText(root, path);
        return text === undefined ? outside(path) : text.split("\n").slice(0, MOST_LINES).join("\n");
      },
    }),
    textTool({
      name: "count_words",
      description: "Counts the words of a file.",
      fields: ["path"],
      execute: async ({ path }) => {
        const text = await readText(root, path);
        if (text === undefined) return outside(path);
        return `${path} has ${(text.match(/\S+/g) ?? []).length.toLocaleString("en")} words.`;
      },
    }),
    textTool({
      name: "write_note",
      description: "Adds a line to the notes.",
      fields: ["text"],
      replay: "unsafe",
      execute: async ({ text }) => {
        await mkdir(dirname(notes), { recursive: true });
        await appendFile(notes, `${text}\n`);
        return `Noted in ${relative(root, notes)}.`;
      },
    }),
  ];
}

async function listFolder(root: string, path: string): Promise<unknown> {
  const folder = await inside(root, path);
  if (folder === undefined) return outside(path);
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).sort();
  const more = names.length > MOST_FILES ? [`and ${names.length - MOST_FILES} more`] : [];
  return [...names.slice(0, MOST_FILES), ...more].join("\n") || "(empty)";
}

function slowWork({ stepMs = 1_500 }: DemoPluginOptions): ToolDefinition {
  return defineTool({
    name: "slow_work",
    description: "Takes its time.",
    input: {
      type: "object",
      properties: { step: { type: "integer" }, of: { type: "integer" } },
      required: ["step", "of"],
      additionalProperties: false,
    },
    replay: "safe",
    execute: async ({ step, of }, { progress, signal }) => {
      for (let part = 1; part <= 3; part += 1) {
        progress(`step ${String(step)} of ${String(of)}, part ${part} of 3`);
        await sleep(stepMs / 3, undefined, { signal });
      }
      return `step ${String(step)} of ${String(of)} is done`;
    },
  });
}

function sums(): ToolDefinition {
  return textTool({
    name: "calculate",
    description: "Calculates a sum.",
    fields: ["expression"],
    execute: ({ expression }) => {
      const value = calculate(expression);
      if (value !== undefined) return `${expression} is ${value}.`;
      const message = `expected a sum of numbers with + - * / and parentheses, found ${expression}`;
      return toolFailure({ code: "not_a_sum", class: "invalid_request", message });
    },
  });
}

interface TextTool<F extends string> {
  readonly name: string;
  readonly description: string;
  /** Its arguments, all of them texts. */
  readonly fields: readonly F[];
  readonly isOptional?: boolean;
  readonly replay?: "unsafe";
  execute(args: Readonly<Record<F, string>>): unknown;
}

/** Safe to run again after a crash, unless it says otherwise. */
function textTool<F extends string>(tool: TextTool<F>): ToolDefinition {
  const { name, description, fields, isOptional = false, replay = "safe", execute } = tool;
  const input: JsonObject = {
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field, { type: "string" }])),
    required: isOptional ? [] : fields,
    additionalProperties: false,
  };
  return defineTool({
    name,
    description,
    input,
    replay,
    execute: (args) => execute(args as Readonly<Record<F, string>>), // as the schema has checked
  });
}

async function readText(root: string, path: string): Promise<string | undefined> {
  const file = await inside(root, path);
  if (file === undefined) return undefined;
  const handle = await open(file, "r");
  try {
    if (!(await handle.stat()).isFile()) return undefined;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MOST_BYTES), 0, MOST_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** The real path of something in the root; nothing when it is not there or elsewhere. */
async function inside(root: string, path: string): Promise<string | undefined> {
  try {
    const base = await realpath(root);
    const found = await realpath(join(base, path));
    return found === base || found.startsWith(base + sep) ? found : undefined;
  } catch {
    return undefined; // What is not there cannot be read, wherever it would be.
  }
}

function outside(path: string): ReturnType<typeof toolFailure> {
  return toolFailure({
    code: "no_such_file",
    class: "invalid_request",
    message: `${path}: expected a file of this folder, found none. Say "list files" to see what is there.`,
  });
}
