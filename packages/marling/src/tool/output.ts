// From what a tool returned or threw to an output, and from an output to what the model is shown.
//   TO1  nothing a tool returns or throws escapes as an exception: it becomes an output.
//   TO2  the model reads the message of a thrown error, which is what tool authors write it for; it never reads a stack,
//        and the cause stays with the operator.
//   TO3  an attachment is shown where it stood: the text around it is split.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { AttachmentSource } from "../model/attachment.ts";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { ModelToolReturn, ModelToolReturnPart } from "../model/tool-call.ts";
import {
  isPendingResult,
  isToolOutput,
  type PendingResult,
  reviveToolOutput,
  type ToolFailure,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../model/tool-output.ts";
import {
  mapAttachments,
  readTagged,
  TOOL_VALUE_KEY,
  ToolAttachment,
  type ToolValue,
} from "../model/tool-value.ts";
import type { ToolValidator } from "./contract.ts";
import { mismatchText } from "./schema.ts";

const FAILED = "[tool failed]";
const CANCELLED = "[tool cancelled]";

/** What the model is shown of an output when no projector says otherwise. Keys are sorted, so equal values read equal. */
export function projectToolOutput(call: {
  readonly callId: string;
  readonly toolName: string;
  readonly output: ToolOutput;
}): ModelToolReturn {
  const { callId, toolName, output } = call;
  return { callId, toolName, parts: Object.freeze(partsOf(output)) };
}

/** Reads what `execute` returned: a marked result as it is, `undefined` as null, any other JSON value as success. */
export function toToolResult(returned: unknown, toolName: string): ToolOutput | PendingResult {
  if (isToolOutput(returned) || isPendingResult(returned)) return returned;
  try {
    return toolSuccess(returned);
  } catch (error) {
    const message = `The tool ${toolName} returned something that is not JSON: ${messageOf(error)}`;
    return toolFailure({ class: "internal", code: "invalid_tool_output", message, source: "tool" });
  }
}

/** Turns what a tool threw into a failed output. A thrown output is that output; a code of marling is kept. */
export function failureFromThrown(error: unknown, toolName: string): ToolOutput {
  if (isToolOutput(error)) return error;
  const message = textOfThrown(error).trim() || `The tool ${toolName} failed without saying why.`;
  const output = toolFailure({
    class: "execution",
    code: MarlingError.is(error) ? error.code : "tool_error",
    message,
  });
  THROWN.set(output, error);
  return output;
}

/** Thrown values by the outputs that were made of them. Outputs are plain data, which holds no errors. */
const THROWN = new WeakMap<ToolOutput, unknown>();

/** The value that was thrown, for an output of `failureFromThrown`; undefined for any other. */
export function thrownBehind(output: object): unknown {
  return THROWN.get(output as ToolOutput);
}

/** As `failureFromThrown`, but what a tool throws because it was told to stop is a cancellation. */
export function outputFromThrown(
  error: unknown,
  toolName: string,
  options: { readonly signal: AbortSignal },
): ToolOutput {
  const { signal } = options;
  const isAbort = error === signal.reason || (error instanceof Error && error.name === "AbortError");
  if (signal.aborted && isAbort) return toolCancelled(`The tool ${toolName} was cancelled.`);
  return failureFromThrown(error, toolName);
}

/** Checks the value of a success against the tool's output schema; anything else passes. */
export async function checkToolOutput(
  result: ToolOutput,
  toolName: string,
  options: { readonly validator: ToolValidator | undefined },
): Promise<ToolOutput> {
  const { validator } = options;
  if (validator === undefined || result.outcome.kind !== "success") return result;
  const verdict = await validator.validate(
    mapAttachments(result.outcome.value, (source) => new ToolAttachment(source).toJSON()),
  );
  if (verdict.ok) return result;
  const message = `The tool ${toolName} returned a value that its output schema refuses: ${mismatchText(verdict)}`;
  return toolFailure({ class: "internal", code: "invalid_tool_output", message, source: "tool" });
}

/** Whether anything in an output has to be stored, or asked about, first. */
export function hasAttachments(output: ToolOutput): boolean {
  const value = carriedValue(output);
  return value !== undefined && hasTags(value);
}

export type AttachmentPut = (
  source: AttachmentSource & { readonly kind: "inline" },
) => Promise<AttachmentSource | ToolFailure>;

/**
 * Replaces inline attachments by what `put` stored them as, one after another in reading order.
 * The first refusal, of `put` or of `allow`, becomes the outcome and nothing more is stored.
 */
export async function storeAttachments(
  output: ToolOutput,
  put: AttachmentPut,
  options: { readonly allow?: (source: AttachmentSource) => ToolFailure | undefined } = {},
): Promise<ToolOutput> {
  const value = carriedValue(output);
  const sources = value === undefined ? [] : attachmentsIn(value);
  if (value === undefined || sources.length === 0) return output;
  const stored: AttachmentSource[] = [];
  for (const source of sources) {
    const refused = options.allow?.(source);
    const kept = refused ?? (source.kind === "inline" ? await put(source) : source);
    if (kept.kind === "failure") return reviveToolOutput({ outcome: kept });
    stored.push(kept);
  }
  return withValue(output, replaceAttachments(value, stored));
}

function partsOf({ outcome }: ToolOutput): readonly ModelToolReturnPart[] {
  switch (outcome.kind) {
    case "success":
      return typeof outcome.value === "string" ? textPart(outcome.value) : piecesOf(outcome.value);
    case "failure":
      return [...textPart(headed(FAILED, outcome.message)), ...attachmentParts(outcome.raw)];
    case "cancelled":
      return [...textPart(headed(CANCELLED, outcome.message)), ...attachmentParts(outcome.raw)];
    default:
      return unreachable(outcome);
  }
}

function headed(header: string, message: string): string {
  return message === "" ? header : `${header}\n${message}`;
}

function textPart(text: string): readonly ModelToolReturnPart[] {
  return text === "" ? [] : [{ kind: "text", text }];
}

function attachmentParts(raw: ToolValue | undefined): readonly ModelToolReturnPart[] {
  return raw === undefined ? [] : attachmentsIn(raw).map((source) => ({ kind: "attachment", source }));
}

function piecesOf(value: ToolValue): readonly ModelToolReturnPart[] {
  if (!hasTags(value)) return textPart(canonicalJson(value));
  const parts: ModelToolReturnPart[] = [];
  let text = "";
  for (const piece of pieces(value)) {
    if (typeof piece === "string") {
      text += piece;
      continue;
    }
    parts.push(...textPart(text), { kind: "attachment", source: piece });
    text = "";
  }
  return [...parts, ...textPart(text)];
}

/** The text of a value with sorted keys, interrupted by its attachments. */
function* pieces(value: ToolValue): Generator<string | AttachmentSource> {
  if (Array.isArray(value)) {
    yield* joined(
      "[",
      value.map((item: Json) => ["", item] as const),
      "]",
    );
    return;
  }
  if (!isJsonObject(value)) {
    yield JSON.stringify(value);
    return;
  }
  const piece = readTagged(value);
  if (piece.kind === "attachment") {
    yield piece.source;
    return;
  }
  const members = isJsonObject(piece.value) ? Object.entries(piece.value).sort(byKey) : [];
  yield* joined(
    "{",
    members.map(([key, member]) => [`${JSON.stringify(key)}:`, member] as const),
    "}",
  );
}

function* joined(
  start: string,
  members: readonly (readonly [string, Json])[],
  end: string,
): Generator<string | AttachmentSource> {
  yield start;
  for (const [index, [label, member]] of members.entries()) {
    yield index === 0 ? label : `,${label}`;
    yield* pieces(member);
  }
  yield end;
}

function byKey([a]: readonly [string, Json], [b]: readonly [string, Json]): number {
  return a < b ? -1 : 1;
}

/** The sources in a value, in reading order. */
function attachmentsIn(value: ToolValue): readonly AttachmentSource[] {
  return hasTags(value) ? [...pieces(value)].filter((piece) => typeof piece !== "string") : [];
}

/** Whether anything in a value stands for something else; most values are what they are. */
function hasTags(value: ToolValue): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.some(hasTags);
  if (Object.hasOwn(value, TOOL_VALUE_KEY)) return true;
  for (const key in value) if (hasTags((value as JsonObject)[key] as Json)) return true;
  return false;
}

/** Puts sources in the place of those that stand in a value, in reading order. */
function replaceAttachments(value: ToolValue, sources: readonly AttachmentSource[]): ToolValue {
  const left = sources.values();
  const members = (part: JsonObject): JsonObject => {
    const entries = Object.entries(part).sort(byKey);
    return Object.freeze(Object.fromEntries(entries.map(([key, member]) => [key, replace(member)])));
  };
  const replace = (part: Json): Json => {
    if (Array.isArray(part)) return Object.freeze(part.map(replace));
    if (!isJsonObject(part)) return part;
    const { [TOOL_VALUE_KEY]: tag, entries } = part;
    if (tag === "attachment") return tagged(left.next().value, part);
    if (tag === "object" && isJsonObject(entries))
      return Object.freeze({ ...part, entries: members(entries) });
    return members(part);
  };
  return replace(value);
}

function tagged(source: AttachmentSource | undefined, otherwise: JsonObject): JsonObject {
  if (source === undefined) return otherwise;
  return Object.freeze(new ToolAttachment(source).toJSON());
}

function carriedValue({ outcome }: ToolOutput): ToolValue | undefined {
  return outcome.kind === "success" ? outcome.value : outcome.raw;
}

function withValue(output: ToolOutput, value: ToolValue): ToolOutput {
  const { outcome } = output;
  const next = outcome.kind === "success" ? { ...outcome, value } : { ...outcome, raw: value };
  return reviveToolOutput({ ...output, outcome: next });
}

function textOfThrown(error: unknown): string {
  if (typeof error !== "object" || error === null || error instanceof Error) return messageOf(error);
  const message: unknown = Reflect.get(error, "message");
  if (typeof message === "string") return message;
  try {
    return JSON.stringify(error) ?? "";
  } catch {
    return ""; // Not even JSON: the caller says that nothing was said.
  }
}
