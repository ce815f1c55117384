// What handlers return, read once: one decoder per hook, so that nonsense is named where it came from.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, decodeJsonObject, type JsonObject } from "../model/json.ts";
import type { ModelResponse } from "../model/model-response.ts";
import { decodePolicy } from "../model/policy.ts";
import type { TurnInput } from "../model/turn.ts";
import { decodeAppendNodes } from "../session/append-node.ts";
import { decodeDirective } from "./directive.ts";
import type { ModelErrorDecision, ModelRequestPatch, RecoveryDecision } from "./hook-context.ts";
import { type HookSite, hookReturnedNonsense } from "./hook-error.ts";
import type { HookItem, HookName, HookNameOf } from "./hooks.ts";
import { decodePluginEvents } from "./plugin-event.ts";
import { decodePreparedContext } from "./prepared-context.ts";
import { decodePromptContribution } from "./prompt-contribution.ts";
import { reviveOutput } from "./revive-output.ts";

type AnsweringHook = Exclude<HookName, HookNameOf<"notify">>;
type Raw = { readonly [member: string]: unknown };

/** What a collecting handler returned: nothing, one item or a list of them. */
export function readItems<K extends HookNameOf<"collect">>(
  hook: K,
  raw: unknown,
  site: HookSite,
): readonly HookItem<K>[] {
  if (raw === undefined) return [];
  if (!Array.isArray(raw)) return [decodeItem(hook, raw, site)];
  return raw.map((item: unknown, index) => decodeItem(hook, item, site, `[${index}]`));
}

/** What any other handler returned: nothing, or one item. */
export function readItem<K extends Exclude<AnsweringHook, HookNameOf<"collect">>>(
  hook: K,
  raw: unknown,
  site: HookSite,
): HookItem<K> | undefined {
  return raw === undefined ? undefined : decodeItem(hook, raw, site);
}

/** Reads directives that a hook returned; `undefined` is none. Nonsense names plugin and hook. */
export function decodeDirectives(raw: unknown, site: HookSite): readonly HookItem<"turn.before">[] {
  return readItems("turn.before", raw, site);
}

function decodeItem<K extends AnsweringHook>(hook: K, raw: unknown, site: HookSite, at = ""): HookItem<K> {
  const decode: (raw: unknown, where: string) => HookItem<K> = DECODERS[hook];
  try {
    return decode(raw, `the answer${at}`);
  } catch (thrown) {
    throw explained(thrown, site);
  }
}

/** A directive that exists nowhere keeps its own code: the mistake is not its shape. */
function explained(thrown: unknown, site: HookSite): MarlingError {
  if (MarlingError.is(thrown) && thrown.code === "directive_not_allowed") {
    const message = `plugin ${site.pluginId}: hook ${site.hook}: ${thrown.message}`;
    return new MarlingError("directive_not_allowed", message, {
      cause: thrown,
      details: { ...thrown.details, ...site },
    });
  }
  return hookReturnedNonsense(site, messageOf(thrown), thrown);
}

const DECODERS: { readonly [K in AnsweringHook]: (raw: unknown, where: string) => HookItem<K> } = {
  "prompt.contribute": decodePromptContribution,
  "tool_catalog.contribute": (raw, where) => ({
    remove: texts(object(raw, where).remove, `${where}.remove`),
  }),
  "turn.before": decodeDirective,
  "turn.after": decodeDirective,
  "turn.checkpoint": decodeDirective,
  "tool_calls.before": decodeDirective,
  "tool_calls.after": decodeDirective,
  "approval.request": (raw, where) => {
    const { decision, reason, expiresMs } = object(raw, where);
    const known = oneOf(decision, ["allow", "ask", "deny"], `${where}.decision`);
    if (expiresMs !== undefined && !(typeof expiresMs === "number" && expiresMs > 0))
      throw refuse(`${where}.expiresMs`, "a positive number of milliseconds");
    return {
      decision: known,
      ...(reason === undefined ? {} : { reason: text(reason, `${where}.reason`) }),
      ...(expiresMs === undefined ? {} : { expiresMs }),
    };
  },
  "input.before": (raw, where) => {
    const { input, reject } = object(raw, where);
    if (reject === undefined) return { input: turnInput(input, `${where}.input`) };
    const { code, message } = object(reject, `${where}.reject`);
    return {
      reject: { code: text(code, `${where}.reject.code`), message: text(message, `${where}.reject.message`) },
    };
  },
  "model.request": requestPatch,
  "output.stream": (raw, where) => {
    const { chunk, reasoningDeltas, events, abortStream } = object(raw, where);
    const isPlain = reasoningDeltas === undefined && events === undefined && abortStream === undefined;
    if (isPlain && typeof chunk === "string") return { chunk }; // Asked for every chunk of every stream.
    if (abortStream !== undefined && typeof abortStream !== "boolean")
      throw refuse(`${where}.abortStream`, "a boolean");
    return {
      chunk: text(chunk, `${where}.chunk`),
      ...(reasoningDeltas === undefined
        ? {}
        : { reasoningDeltas: texts(reasoningDeltas, `${where}.reasoningDeltas`) }),
      ...(events === undefined ? {} : { events: decodePluginEvents(events, `${where}.events`) }),
      ...(abortStream === undefined ? {} : { abortStream }),
    };
  },
  "output.response": (raw, where) => {
    const { response, events } = object(raw, where);
    const decoded = modelResponse(response, `${where}.response`);
    return {
      response: decoded,
      ...(events === undefined ? {} : { events: decodePluginEvents(events, `${where}.events`) }),
    };
  },
  "session.mutate_config": (raw, where) => decodePolicy(raw, where),
  "context.prepare_turn": decodePreparedContext,
  "context.compact": (raw, where) => ({
    initialNodes: decodeAppendNodes(
      object(raw, where).initialNodes as readonly unknown[],
      `${where}.initialNodes`,
    ),
  }),
  "model.error": errorDecision,
  "recovery.decide": recoveryDecision,
};

function turnInput(raw: unknown, where: string): TurnInput | string {
  if (typeof raw === "string") return raw;
  const input = decodeJsonObject(raw, where);
  if (input.text === undefined && input.attachments === undefined)
    throw refuse(where, "a text or an input with `text` or `attachments`");
  if (input.text !== undefined) text(input.text, `${where}.text`);
  return input as TurnInput;
}

function requestPatch(raw: unknown, where: string): ModelRequestPatch {
  const patch = object(raw, where);
  const unknown = Object.keys(patch).find((key) => !PATCHABLE.includes(key));
  if (unknown !== undefined)
    throw refuse(
      `${where}.${unknown}`,
      `only ${PATCHABLE.join(", ")}: the rest of a request is not for changing here`,
    );
  const { parameters, providerOptions, headers, toolChoice } = patch;
  const json = (value: unknown, member: string): JsonObject => decodeJsonObject(value, `${where}.${member}`);
  if (headers !== undefined)
    for (const [name, value] of Object.entries(json(headers, "headers")))
      text(value, `${where}.headers.${name}`);
  return {
    ...(parameters === undefined ? {} : { parameters: json(parameters, "parameters") }),
    ...(providerOptions === undefined ? {} : { providerOptions: json(providerOptions, "providerOptions") }),
    ...(headers === undefined
      ? {}
      : { headers: json(headers, "headers") as Readonly<Record<string, string>> }),
    ...(toolChoice === undefined
      ? {}
      : { toolChoice: oneOf(toolChoice, ["auto", "none", "required"], `${where}.toolChoice`) }),
  };
}

const PATCHABLE: readonly string[] = ["parameters", "providerOptions", "headers", "toolChoice"];

function modelResponse(raw: unknown, where: string): ModelResponse {
  const response = decodeJsonObject(raw, where);
  const { parts, usage, finish } = response;
  if (!Array.isArray(parts)) throw refuse(`${where}.parts`, "an array of parts");
  for (const [index, part] of parts.entries()) {
    oneOf((part as Raw | null)?.kind, ["text", "reasoning", "tool_call"], `${where}.parts[${index}].kind`);
  }
  object(usage, `${where}.usage`);
  text(finish, `${where}.finish`);
  return response as unknown as ModelResponse;
}

function errorDecision(raw: unknown, where: string): ModelErrorDecision {
  const { kind, afterMs, model, instructions } = object(raw, where);
  const known = oneOf(kind, ["retry", "fall_back", "compact_and_retry", "fail"], `${where}.kind`);
  switch (known) {
    case "retry":
      if (afterMs !== undefined && !(typeof afterMs === "number" && afterMs >= 0))
        throw refuse(`${where}.afterMs`, "milliseconds");
      return { kind: known, ...(afterMs === undefined ? {} : { afterMs }) };
    case "fall_back":
      return { kind: known, model: text(model, `${where}.model`) };
    case "compact_and_retry":
      return {
        kind: known,
        ...(instructions === undefined ? {} : { instructions: text(instructions, `${where}.instructions`) }),
      };
    case "fail":
      return { kind: known };
  }
}

function recoveryDecision(raw: unknown, where: string): RecoveryDecision {
  const { kind, output } = object(raw, where);
  const known = oneOf(kind, ["run_again", "unknown_outcome", "use"], `${where}.kind`);
  return known === "use" ? { kind: known, output: reviveOutput(output, `${where}.output`) } : { kind: known };
}

function object(raw: unknown, where: string): Raw {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw))
    throw refuse(where, `an object, found ${raw === null ? "null" : typeof raw}`);
  return raw as Raw;
}

function text(raw: unknown, where: string): string {
  if (typeof raw !== "string") throw refuse(where, `a string, found ${typeof raw}`);
  return raw;
}

function texts(raw: unknown, where: string): readonly string[] {
  if (!Array.isArray(raw)) throw refuse(where, `an array of strings, found ${typeof raw}`);
  return decodeJson(raw.map((item: unknown, index) => text(item, `${where}[${index}]`))) as readonly string[];
}

function oneOf<T extends string>(raw: unknown, known: readonly T[], where: string): T {
  const found = known.find((candidate) => candidate === raw);
  if (found === undefined) throw refuse(where, `one of ${known.join(", ")}, found ${JSON.stringify(raw)}`);
  return found;
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_output", `${where}: expected ${expected}`, { details: { where } });
}
