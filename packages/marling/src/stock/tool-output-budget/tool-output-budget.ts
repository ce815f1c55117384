// Tool output budget: the model is shown the beginning and the end of a large result; the whole is kept for reading on.
//   OB1  a result within its budget is shown as it is; of a larger one the text shown, with its notice, stays within it.
//   OB2  no character is cut in two, and attachments stay as they are.
//   OB3  a structured result stays JSON, in a `value` beside a notice; where that is not possible the notice says so.
//   OB4  the whole is kept under a reference made from its content; `read_output` reads it in pieces, after restarts too.

import {
  definePlugin,
  defineTool,
  type Json,
  type Plugin,
  type ToolDefinition,
  toolFailure,
} from "../../index.ts";
import type { RuntimeSessionHost, ToolResultProjection } from "../../plugin/index.ts";
import {
  aCount,
  aPositiveCount,
  aShare,
  aText,
  aToolName,
  checkOptions,
  recordOf,
} from "../check-options.ts";
import { headOf, isInsidePair, tailOf } from "../cut-text.ts";
import { type KeptOutputs, keptInFolder, keptInSession } from "./kept-outputs.ts";
import { shrinkJson } from "./shrink-json.ts";

export interface ToolOutputBudgetOptions {
  /** How many characters of a result the model is shown; 16384 by default. */
  readonly maxChars?: number;
  /** Other budgets, by tool name; 0 stands for no limit. */
  readonly perTool?: Readonly<Record<string, number>>;
  /** The share of the budget for the beginning; the rest is for the end. 0.7 by default. */
  readonly head?: number;
  /** Keeps whole results as files here; by default they are kept in the session's history. */
  readonly folder?: string;
  /** How many characters of one result are kept in the history; 1048576 by default. A folder keeps all. */
  readonly maxKeptChars?: number;
  /** The name of the tool that reads on; `read_output` by default. */
  readonly toolName?: string;
}

type Settings = Required<Omit<ToolOutputBudgetOptions, "folder">> & Pick<ToolOutputBudgetOptions, "folder">;

const ID = "tool_output_budget";
const SMALLEST = 400;

/** Keeps large tool results out of the context, and within reach. */
export function toolOutputBudget(options: ToolOutputBudgetOptions = {}): Plugin {
  const aBudget = (value: unknown): string | undefined =>
    Number.isSafeInteger(value) && (value as number) >= SMALLEST
      ? undefined
      : `a whole number from ${SMALLEST}`;
  checkOptions(ID, options, {
    maxChars: aBudget,
    perTool: recordOf((value) => (value === 0 ? aCount(value) : aBudget(value))),
    head: aShare,
    folder: aText,
    maxKeptChars: aPositiveCount,
    toolName: aToolName,
  });
  const settings: Settings = {
    maxChars: 16_384,
    perTool: {},
    head: 0.7,
    maxKeptChars: 1_048_576,
    toolName: "read_output",
    ...options,
  };
  return definePlugin({
    id: ID,
    build({ sessionId }) {
      let host: RuntimeSessionHost | undefined;
      const { folder } = settings;
      const kept =
        folder === undefined
          ? keptInSession(sessionId, () => host as RuntimeSessionHost)
          : keptInFolder(folder);
      return {
        ready: (ready) => {
          host = ready.host;
        },
        tools: [readTool(settings, kept)],
        toolResults: { projector: (result) => project(result, settings, kept) },
      };
    },
  })();
}

type Projected = ToolResultProjection["projected"];

async function project(
  { toolName, projected }: ToolResultProjection,
  settings: Settings,
  kept: KeptOutputs,
): Promise<Projected> {
  const { perTool, maxChars } = settings;
  const limit = Object.hasOwn(perTool, toolName) ? (perTool[toolName] ?? maxChars) : maxChars;
  const whole = projected.parts.map((part) => (part.kind === "text" ? part.text : "[attachment]")).join("");
  if (limit === 0 || toolName === settings.toolName || textLength(projected) <= limit) return projected;
  const isBounded = settings.folder === undefined && whole.length > settings.maxKeptChars;
  const stored = isBounded ? headOf(whole, settings.maxKeptChars) : whole;
  const ref = await kept.keep(stored);
  const shown = shownOf({ whole, ref, stored: stored.length }, projected, { ...settings, limit });
  const attachments = projected.parts.filter((part) => part.kind === "attachment");
  return { ...projected, parts: [{ kind: "text", text: shown }, ...attachments] };
}

function textLength({ parts }: Projected): number {
  return parts.reduce((sum, part) => sum + (part.kind === "text" ? part.text.length : 0), 0);
}

interface KeptWhole {
  readonly whole: string;
  readonly ref: string;
  readonly stored: number;
}

function shownOf(
  { whole, ref, stored }: KeptWhole,
  { parts }: Projected,
  { limit, head, toolName }: Settings & { readonly limit: number },
): string {
  const value = parts.length === 1 ? structured(whole) : undefined;
  const size = `${whole.length} characters`;
  const partly = stored < whole.length ? `; the first ${stored} of them are kept` : "";
  const how = `read more with ${toolName} { "ref": "${ref}", "offset": 0 }`;
  if (value !== undefined) {
    const notice = `The result was cut: it has ${size}${partly}; ${how}.`;
    const wrapped = (json: string): string => `{"notice":${JSON.stringify(notice)},"value":${json}}`;
    const json = shrinkJson(value, limit - wrapped("").length);
    if (json !== undefined) return wrapped(json);
  }
  const kind = value === undefined ? "" : "; what is shown is no longer JSON";
  const mark = (cut: number): string => `\n[${cut} of ${size} are cut here${kind}${partly}; ${how}]\n`;
  const room = limit - mark(whole.length).length;
  const begin = headOf(whole, Math.floor(room * head));
  const end = tailOf(whole, room - Math.floor(room * head));
  return `${begin}${mark(whole.length - begin.length - end.length)}${end}`;
}

/** The value, where the text is that of a list or an object. */
function structured(text: string): Json | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // Text that begins like JSON is still text.
  }
}

interface ReadArgs {
  readonly ref: string;
  readonly offset?: number;
  readonly limit?: number;
}

function readTool({ toolName, maxChars }: Settings, kept: KeptOutputs): ToolDefinition {
  return defineTool({
    name: toolName,
    description: "Reads a part of a tool result that was cut. The reference is in the notice of the cut.",
    replay: "safe",
    input: {
      type: "object",
      required: ["ref"],
      additionalProperties: false,
      properties: {
        ref: { type: "string", description: "The reference in the notice." },
        offset: { type: "integer", minimum: 0, description: "Where to begin, in characters; 0 by default." },
        limit: { type: "integer", minimum: 1, maximum: maxChars, description: "How many characters." },
      },
    },
    execute: async (raw) => {
      const { ref, offset = 0, limit = maxChars } = raw as unknown as ReadArgs;
      const text = await kept.read(ref);
      if (text === undefined) return toolFailure(unknownRef(ref));
      return pieceOf(text, offset, limit);
    },
  }) as ToolDefinition;
}

function pieceOf(text: string, offset: number, limit: number): Json {
  const start = isInsidePair(text, offset) ? offset - 1 : Math.min(offset, text.length);
  const piece = headOf(text.slice(start), Math.max(2, limit));
  const next = start + piece.length;
  return { text: piece, offset: start, total: text.length, ...(next < text.length ? { next } : {}) };
}

function unknownRef(ref: string): Parameters<typeof toolFailure>[0] {
  return {
    code: "unknown_output",
    class: "invalid_request",
    message: `Expected the reference of a result that was cut, found ${JSON.stringify(ref)}. Use the reference in the notice of the cut, or call the tool again.`,
  };
}
