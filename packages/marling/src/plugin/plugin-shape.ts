// What `build` may return: every member by name, and what it must be. Unknown members are refused, so that a typo is an
// error and not a hook that never runs.

import { isPromise } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import type { HookName } from "./hooks.ts";
import type { PluginParts } from "./plugin.ts";

/** Where each hook is written in the parts of a plugin. */
export const HOOK_MEMBERS: { readonly [K in HookName]: readonly [keyof PluginParts, string?] } = {
  "prompt.contribute": ["prompt"],
  "tool_catalog.contribute": ["toolCatalog"],
  "turn.before": ["turn", "before"],
  "turn.after": ["turn", "after"],
  "turn.checkpoint": ["turn", "checkpoint"],
  "tool_calls.before": ["toolCalls", "before"],
  "tool_calls.after": ["toolCalls", "after"],
  "approval.request": ["approval", "request"],
  "input.before": ["input", "before"],
  "model.request": ["model", "request"],
  "model.error": ["model", "error"],
  "output.stream": ["output", "stream"],
  "output.response": ["output", "response"],
  "output.stream_finished": ["output", "streamFinished"],
  "session.on_event": ["session", "onEvent"],
  "session.mutate_config": ["session", "mutateConfig"],
  "context.prepare_turn": ["context", "prepareTurn"],
  "context.compact": ["context", "compact"],
  "recovery.decide": ["recovery", "decide"],
};

type Check = (value: unknown) => string | undefined;
type Shape = Check | { readonly [member: string]: Check };

const aBoolean: Check = (value) => (typeof value === "boolean" ? undefined : "a boolean");
const aFunction: Check = (value) => (typeof value === "function" ? undefined : "a function");
const handlers: Check = (value) => {
  if (typeof value === "function") return undefined;
  return Array.isArray(value) && value.every((item) => typeof item === "function")
    ? undefined
    : "a function or an array of functions";
};
const anObject: Check = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "an object";
const anArray: Check = (value) => (Array.isArray(value) ? undefined : "an array");
const tools: Check = (value) =>
  typeof value === "object" && value !== null ? undefined : "an array of tools or a tool provider";

function withPriority(method: string): Check {
  const expected = `{ priority?, ${method} } or an array of them`;
  const isOne = (value: unknown): boolean => {
    if (typeof value !== "object" || value === null) return false;
    const { priority = 0, [method]: call } = value as { readonly [member: string]: unknown };
    return typeof call === "function" && Number.isFinite(priority);
  };
  return (value) => ((Array.isArray(value) ? value.every(isOne) : isOne(value)) ? undefined : expected);
}

/** One row per member of the parts; a member of `PluginParts` without a row does not compile. */
const SHAPE: { readonly [M in keyof PluginParts]-?: Shape } = {
  tools,
  triggers: anArray,
  monitors: anArray,
  background: anObject,
  prompt: handlers,
  toolCatalog: handlers,
  turn: { before: handlers, after: handlers, checkpoint: handlers },
  toolCalls: { before: handlers, after: handlers },
  toolResults: { projector: aFunction },
  input: { before: handlers },
  model: { request: handlers, error: handlers },
  approval: { request: handlers },
  recovery: { decide: handlers },
  output: {
    stream: handlers,
    response: handlers,
    streamFinished: handlers,
    proseProjector: aFunction,
    recordsRaw: aBoolean,
  },
  session: { onEvent: handlers, mutateConfig: handlers },
  context: { prepareTurn: withPriority("transform"), compact: withPriority("compact") },
  operations: { queries: anObject, commands: anObject, tasks: anObject, actions: anObject },
  protocol: { session: anObject, driver: anObject },
  execution: { codeExecutor: anObject },
  snapshot: aFunction,
  restore: aFunction,
  revision: aFunction,
  ready: aFunction,
  dispose: aFunction,
};

/** Checks what `build` returned. Throws `invalid_plugin` naming the plugin and the member. */
export function checkParts(parts: unknown, pluginId: string): PluginParts {
  if (isPromise(parts)) {
    parts.then(undefined, () => {});
    throw invalidPlugin(pluginId, "build", "parts, found a promise: build is synchronous");
  }
  if (anObject(parts) !== undefined)
    throw invalidPlugin(pluginId, "build", `an object of parts, found ${nameOf(parts)}`);
  checkMembers(parts as object, { shape: SHAPE, pluginId, at: "" });
  return parts as PluginParts;
}

export function invalidPlugin(pluginId: string, member: string, expected: string): MarlingError {
  return new MarlingError("invalid_plugin", `plugin ${pluginId}: ${member}: expected ${expected}`, {
    details: { pluginId, member },
  });
}

function checkMembers(
  value: object,
  {
    shape,
    pluginId,
    at,
  }: { readonly shape: { readonly [member: string]: Shape }; readonly pluginId: string; readonly at: string },
): void {
  for (const [name, member] of Object.entries(value)) {
    const row = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (row === undefined)
      throw invalidPlugin(pluginId, `${at}${name}`, `one of ${Object.keys(shape).join(", ")}`);
    if (member === undefined) continue;
    const expected = typeof row === "function" ? row(member) : anObject(member);
    if (expected !== undefined)
      throw invalidPlugin(pluginId, `${at}${name}`, `${expected}, found ${nameOf(member)}`);
    if (typeof row !== "function")
      checkMembers(member as object, { shape: row, pluginId, at: `${at}${name}.` });
  }
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : typeof value;
}
