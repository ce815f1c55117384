// Directives: what a hook wants done, as plain data. They are applied in one place, kernel/directive.ts.
//   DI1  a directive is checked where it is made, and again where a hook returns it: both ways, plain data is enough.
//   DI2  a session cannot be handed off by a directive, in any phase.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, decodeJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { decodeMessageInput, type MessageInput } from "../model/message.ts";
import type { PendingResult, ToolOutput } from "../model/tool-output.ts";
import type { PluginEvent } from "../model/turn.ts";
import { decodePluginEvents } from "./plugin-event.ts";
import { reviveOutput } from "./revive-output.ts";
import { decodeSessionCreateRequest, type SessionCreateRequest } from "./session-create.ts";

export type Directive =
  | { readonly kind: "abort_turn"; readonly code: string; readonly message: string }
  | { readonly kind: "enqueue_messages"; readonly messages: readonly MessageInput[] }
  | { readonly kind: "create_session"; readonly request: SessionCreateRequest }
  | { readonly kind: "replace_tool_args"; readonly args: Json }
  | { readonly kind: "short_circuit_tool"; readonly output: ToolOutput }
  | { readonly kind: "emit_events"; readonly events: readonly PluginEvent[] }
  | {
      readonly kind: "emit_trace";
      readonly name: string;
      readonly payload: Json;
      readonly context: JsonObject;
    };

export type DirectiveKind = Directive["kind"];

/** A trace as a plugin writes it; it appears as `plugin.<plugin id>.<name>`. */
export interface TraceInput {
  readonly name: string;
  readonly payload?: unknown;
  readonly context?: { readonly [key: string]: unknown };
}

/** Makes directives. Each throws where its payload is not what it must be. */
export const directive: {
  /** Ends the turn before it begins or at a checkpoint; around a tool call it fails the call only. */
  abortTurn(abort: { readonly code: string; readonly message: string }): Directive;
  /** Adds messages to the turn; only those of the roles user and system are taken. */
  enqueueMessages(messages: readonly MessageInput[]): Directive;
  createSession(request: SessionCreateRequest): Directive;
  replaceToolArgs(args: unknown): Directive;
  /** Settles a tool call with this output. A pending result cannot settle a call and becomes a failure. */
  shortCircuitTool(output: ToolOutput | PendingResult): Directive;
  emitEvents(events: readonly PluginEvent[]): Directive;
  emitTrace(trace: TraceInput): Directive;
} = Object.freeze({
  abortTurn: (abort: { readonly code: string; readonly message: string }) =>
    decodeDirective({ kind: "abort_turn", ...abort }, "abortTurn"),
  enqueueMessages: (messages: readonly MessageInput[]) =>
    decodeDirective({ kind: "enqueue_messages", messages }, "enqueueMessages"),
  createSession: (request: SessionCreateRequest) =>
    decodeDirective({ kind: "create_session", request }, "createSession"),
  replaceToolArgs: (args: unknown) => decodeDirective({ kind: "replace_tool_args", args }, "replaceToolArgs"),
  shortCircuitTool: (output: ToolOutput | PendingResult) =>
    decodeDirective({ kind: "short_circuit_tool", output }, "shortCircuitTool"),
  emitEvents: (events: readonly PluginEvent[]) =>
    decodeDirective({ kind: "emit_events", events }, "emitEvents"),
  emitTrace: (trace: TraceInput) => decodeDirective({ ...trace, kind: "emit_trace" }, "emitTrace"),
});

type Raw = { readonly [member: string]: unknown };

const DECODERS: {
  readonly [K in DirectiveKind]: (raw: Raw, where: string) => Extract<Directive, { kind: K }>;
} = {
  abort_turn: (raw, where) => ({
    kind: "abort_turn",
    code: text(raw, "code", where),
    message: text(raw, "message", where),
  }),
  enqueue_messages: (raw, where) => ({
    kind: "enqueue_messages",
    messages: messagesOf(raw.messages, `${where}.messages`),
  }),
  create_session: (raw, where) => ({
    kind: "create_session",
    request: decodeSessionCreateRequest(raw.request, `${where}.request`),
  }),
  replace_tool_args: (raw, where) => ({
    kind: "replace_tool_args",
    args: decodeJson(raw.args, `${where}.args`),
  }),
  short_circuit_tool: (raw, where) => ({
    kind: "short_circuit_tool",
    output: reviveOutput(raw.output, `${where}.output`),
  }),
  emit_events: (raw, where) => ({
    kind: "emit_events",
    events: decodePluginEvents(raw.events, `${where}.events`),
  }),
  emit_trace: (raw, where) => ({
    kind: "emit_trace",
    name: text(raw, "name", where),
    payload: decodeJson(raw.payload ?? null, `${where}.payload`),
    context: decodeJsonObject(raw.context ?? {}, `${where}.context`),
  }),
};

/** Reads one directive, whether it was made by `directive` or written by hand. */
export function decodeDirective(raw: unknown, where: string): Directive {
  const kind = typeof raw === "object" && raw !== null ? (raw as Raw).kind : undefined;
  if (kind === "handoff_session") {
    const message = `${where}: expected no handoff_session: a session is never handed off by a directive; return switchFrame from a tool`;
    throw new MarlingError("directive_not_allowed", message, { details: { directive: kind } });
  }
  if (typeof kind !== "string" || !Object.hasOwn(DECODERS, kind)) {
    throw refuse(where, `a directive of kind ${Object.keys(DECODERS).join(", ")}, found ${describe(raw)}`);
  }
  return Object.freeze(DECODERS[kind as DirectiveKind](raw as Raw, where));
}

function text(raw: Raw, member: string, where: string): string {
  const value = raw[member];
  if (typeof value !== "string" || value.trim() === "")
    throw refuse(`${where}.${member}`, `a non-blank string, found ${describe(value)}`);
  return value;
}

function messagesOf(raw: unknown, where: string): readonly MessageInput[] {
  if (!Array.isArray(raw)) throw refuse(where, `an array of messages, found ${describe(raw)}`);
  return Object.freeze(
    raw.map((message: unknown, index) => decodeMessageInput(message, `${where}[${index}]`)),
  );
}

function describe(value: unknown): string {
  if (typeof value !== "object" || value === null)
    return value === undefined ? "undefined" : (JSON.stringify(value) ?? typeof value);
  return Array.isArray(value)
    ? "an array"
    : `an object with ${Object.keys(value).join(", ") || "no members"}`;
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_directive", `${where}: expected ${expected}`, { details: { where } });
}
