// The state of a turn as stored JSON and back. Restoring trusts nothing: a state that this version would not have
// written is refused with the path of the culprit, before the turn goes on with it.

import { MarlingError, messageOf } from "../base/errors.ts";
import { callId, effectKey } from "../model/ids.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { decodeMessage } from "../model/message.ts";
import { isBudget } from "../model/policy.ts";
import type { PendingCall } from "../model/tool-call.ts";
import type { CheckpointKind, StopReason } from "../model/turn.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { MachineOutcome, TurnRecord } from "./effect.ts";
import type { AfterCheckpoint } from "./protocol.ts";
import { MACHINE_VERSION, type MachineState, type Phase } from "./state.ts";

const WHERE = "turn checkpoint";
const CHECKPOINTS: readonly CheckpointKind[] = ["after_work", "before_completion"];
const FINISHED_BY = ["message", "value", "tool"] as const;
const STOP_REASONS = Object.keys({
  cancelled: true,
  plugin_abort: true,
  max_turns: true,
  provider_error: true,
  incomplete: true,
  tool_error: true,
  runtime_error: true,
} satisfies Record<StopReason, true>);

/** The state as JSON to store; `restoreMachine` gives it back unchanged. */
export function checkpointMachine(state: MachineState): Json {
  return decodeJson(state, WHERE);
}

/** A stored state, checked. Another version throws `unsupported_version`, anything malformed `invalid_snapshot`. */
export function restoreMachine(raw: unknown): MachineState {
  try {
    return decodeMachine(raw);
  } catch (thrown) {
    if (
      MarlingError.is(thrown) &&
      (thrown.code === "unsupported_version" || thrown.code === "invalid_snapshot")
    )
      throw thrown;
    throw new MarlingError("invalid_snapshot", `${WHERE}: ${messageOf(thrown)}`, { cause: thrown });
  }
}

function decodeMachine(raw: unknown): MachineState {
  const json = objectAt(decodeJson(raw, WHERE), WHERE);
  const version = json.version;
  if (version !== MACHINE_VERSION) throw unsupported(version);
  const round = countAt(json, "round", WHERE);
  const phase = decodePhase(json.phase, `${WHERE}.phase`);
  if (phase.kind !== "done" && !phase.key.startsWith(`${round}.`)) {
    throw refuse(`${WHERE}.phase.key`, `a key of round ${round}`, phase.key);
  }
  return {
    version,
    turnId: textAt(json, "turnId", WHERE),
    phase,
    round,
    maxRounds: decodeBudget(json.maxRounds),
    syncsEnvironment: flagAt(json, "syncsEnvironment", WHERE),
    effects: countAt(json, "effects", WHERE),
    asked: decodeCounts(json.asked, `${WHERE}.asked`),
    mintedIds: countAt(json, "mintedIds", WHERE),
    usage: decodeUsage(json.usage, `${WHERE}.usage`),
    records: listAt(json, "records", WHERE).map((record, index) =>
      decodeRecord(record, `${WHERE}.records[${index}]`),
    ),
    ...(json.finalRound === undefined ? {} : { finalRound: countAt(json, "finalRound", WHERE) }),
    ...(json.contextWindow === undefined ? {} : { contextWindow: countAt(json, "contextWindow", WHERE) }),
    ...(json.before === undefined ? {} : { before: decodeMessage(json.before, `${WHERE}.before`) }),
    ...(json.driverState === undefined ? {} : { driverState: json.driverState }),
  };
}

function decodePhase(raw: Json | undefined, where: string): Phase {
  const json = objectAt(raw, where);
  const kind = json.kind;
  if (kind === "done") return { kind, outcome: decodeOutcome(json.outcome, `${where}.outcome`) };
  const key = effectKey(json.key);
  switch (kind) {
    case "awaiting_environment":
    case "awaiting_model":
      return { kind, key };
    case "awaiting_tools": {
      const calls = listAt(json, "calls", where).map((call, index) =>
        decodeCall(call, `${where}.calls[${index}]`),
      );
      return { kind, key, calls };
    }
    case "awaiting_code":
      return { kind, key, language: textAt(json, "language", where), code: textAt(json, "code", where) };
    case "awaiting_checkpoint": {
      const checkpoint = oneOf(CHECKPOINTS, json.checkpoint, `${where}.checkpoint`);
      return { kind, key, checkpoint, onEmpty: decodeAfter(json.onEmpty, `${where}.onEmpty`) };
    }
    default:
      throw refuse(`${where}.kind`, "the kind of a phase", kind);
  }
}

function decodeCall(raw: Json, where: string): PendingCall {
  const json = objectAt(raw, where);
  const { args, malformed } = json;
  if (args === undefined) throw refuse(`${where}.args`, "a JSON value", args);
  const call = { callId: callId(json.callId), name: textAt(json, "name", where), args };
  return malformed === undefined ? call : { ...call, malformed: textAt(json, "malformed", where) };
}

function decodeAfter(raw: Json | undefined, where: string): AfterCheckpoint {
  const json = objectAt(raw, where);
  if (json.kind === "next_round") return { kind: "next_round" };
  if (json.kind !== "finish") throw refuse(`${where}.kind`, "next_round or finish", json.kind);
  return { kind: "finish", outcome: decodeOutcome(json.outcome, `${where}.outcome`) };
}

function decodeOutcome(raw: Json | undefined, where: string): MachineOutcome {
  const json = objectAt(raw, where);
  const kind = json.kind;
  switch (kind) {
    case "finished": {
      const by = oneOf(FINISHED_BY, json.by, `${where}.by`);
      const value = json.value;
      return { kind, by, text: textAt(json, "text", where), ...(value === undefined ? {} : { value }) };
    }
    case "stopped": {
      // The list holds the reasons and nothing else, so what is found in it is one.
      const reason = oneOf(STOP_REASONS, json.reason, `${where}.reason`) as StopReason;
      const code = json.code === undefined ? {} : { code: textAt(json, "code", where) };
      const message = json.message === undefined ? {} : { message: textAt(json, "message", where) };
      return { kind, reason, ...code, ...message };
    }
    case "switch_frame":
      return {
        kind,
        key: textAt(json, "key", where),
        task: textAt(json, "task", where),
        nodes: listAt(json, "nodes", where),
      };
    default:
      throw refuse(`${where}.kind`, "finished, stopped or switch_frame", kind);
  }
}

function decodeRecord(raw: Json, where: string): TurnRecord {
  const json = objectAt(raw, where);
  const { kind, payload } = json;
  if (kind === "message") return { kind, message: decodeMessage(json.message, `${where}.message`) };
  if (kind !== "protocol_event") throw refuse(`${where}.kind`, "message or protocol_event", kind);
  if (payload === undefined) throw refuse(`${where}.payload`, "a JSON value", payload);
  return { kind, pluginId: textAt(json, "pluginId", where), payload };
}

function decodeBudget(raw: Json | undefined): number | "unbounded" {
  if (isBudget(raw)) return raw;
  throw refuse(`${WHERE}.maxRounds`, 'a positive whole number or "unbounded"', raw);
}

function decodeCounts(raw: Json | undefined, where: string): Readonly<Record<string, number>> {
  const json = objectAt(raw, where);
  return Object.fromEntries(Object.keys(json).map((name) => [name, countAt(json, name, where)]));
}

function decodeUsage(raw: Json | undefined, where: string): TokenUsage {
  const json = objectAt(raw, where);
  return {
    input: countAt(json, "input", where),
    output: countAt(json, "output", where),
    cacheRead: countAt(json, "cacheRead", where),
    cacheWrite: countAt(json, "cacheWrite", where),
    reasoning: countAt(json, "reasoning", where),
  };
}

function oneOf<T extends string>(options: readonly T[], raw: Json | undefined, where: string): T {
  const option = options.find((candidate) => candidate === raw);
  if (option === undefined) throw refuse(where, `one of ${options.join(", ")}`, raw);
  return option;
}

function objectAt(raw: Json | undefined, where: string): JsonObject {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  return raw;
}

function listAt(json: JsonObject, name: string, where: string): readonly Json[] {
  const value = json[name];
  if (!Array.isArray(value)) throw refuse(`${where}.${name}`, "an array", value);
  return value;
}

function textAt(json: JsonObject, name: string, where: string): string {
  const value = json[name];
  if (typeof value !== "string") throw refuse(`${where}.${name}`, "a string", value);
  return value;
}

function flagAt(json: JsonObject, name: string, where: string): boolean {
  const value = json[name];
  if (typeof value !== "boolean") throw refuse(`${where}.${name}`, "a boolean", value);
  return value;
}

function countAt(json: JsonObject, name: string, where: string): number {
  const value = json[name];
  if (typeof value !== "number" || value < 0)
    throw refuse(`${where}.${name}`, "a number that is not negative", value);
  return value;
}

function unsupported(found: Json | undefined): MarlingError {
  const message = `${WHERE}: expected version ${MACHINE_VERSION}, found ${JSON.stringify(found)}`;
  return new MarlingError("unsupported_version", message, { details: { where: WHERE } });
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const text = found === undefined ? "nothing" : JSON.stringify(found).slice(0, 80);
  return new MarlingError("invalid_snapshot", `${where}: expected ${expected}, found ${text}`, {
    details: { where },
  });
}
