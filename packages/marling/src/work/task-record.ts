// Records of tasks: made from a spec, read back from the store, moved on as new values. Nothing enters unchecked.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import {
  CANCEL_POLICIES,
  CLOSE_POLICIES,
  isTerminal,
  LIVE_TASK_STATES,
  TASK_KINDS,
  TASK_RECOVERIES,
  type TaskCompletion,
  type TaskDurability,
  type TaskFailure,
  type TaskRecord,
  type TaskSpec,
  TERMINAL_TASK_STATES,
} from "./task.ts";

interface Beginning {
  readonly sessionId: string;
  /** Default: `running`, and `pending` for a durable task, which is stored first. */
  readonly state?: "pending" | "running";
  readonly now: number;
}

/** The record of a task that begins now. A malformed spec throws `invalid_task` naming the member. */
export function newRecord(spec: TaskSpec, { sessionId, state, now }: Beginning): TaskRecord {
  const json = objectOf(decodeMember(spec, "task"), "task");
  refuseUnknown(json, SPEC_MEMBERS, "task");
  const checked = decodeSpec(json, "task");
  if (isJsonObject(json.durable)) refuseUnknown(json.durable, DURABLE_MEMBERS, "task.durable");
  const first = state ?? (checked.durable === undefined ? "running" : "pending");
  return Object.freeze({ ...checked, sessionId, state: first, attempt: 1, createdAt: now, updatedAt: now });
}

/** A record that was stored as JSON without its session. A malformed one throws `invalid_task`. */
export function decodeRecord(raw: Json, sessionId: string, where: string): TaskRecord {
  const json = objectOf(raw, where);
  const state = oneOf(json.state, [...LIVE_TASK_STATES, ...TERMINAL_TASK_STATES], `${where}.state`);
  return Object.freeze({
    ...decodeSpec(json, where),
    sessionId,
    state,
    attempt: countOf(json.attempt, `${where}.attempt`),
    ...(json.progress === undefined ? {} : { progress: json.progress }),
    ...(json.steps === undefined ? {} : { steps: objectOf(json.steps, `${where}.steps`) }),
    ...(json.result === undefined ? {} : { result: json.result }),
    ...(json.failure === undefined ? {} : { failure: decodeFailure(json.failure, `${where}.failure`) }),
    ...optionalText(json, "cancelReason", where),
    createdAt: timeOf(json.createdAt, `${where}.createdAt`),
    updatedAt: timeOf(json.updatedAt, `${where}.updatedAt`),
    ...(isTerminal(state) ? { completedAt: timeOf(json.completedAt, `${where}.completedAt`) } : {}),
  });
}

export function changedRecord(record: TaskRecord, change: Partial<TaskRecord>, now: number): TaskRecord {
  return Object.freeze({ ...record, ...change, updatedAt: now });
}

/** The record of a task that ended. A failure that nobody described has a code all the same. */
export function endedRecord(
  { steps: _, ...record }: TaskRecord,
  completion: TaskCompletion,
  now: number,
): TaskRecord {
  const { state } = completion;
  const ended = { state, completedAt: now };
  if (state !== "failed") return changedRecord(record, { ...ended, ...resultOf(record, completion) }, now);
  const failure = completion.failure ?? { code: "task_failed", message: `task ${record.id} failed` };
  return changedRecord(
    record,
    { ...ended, failure: decodeFailure(decodeMember(failure, "failure"), "failure") },
    now,
  );
}

/** What a record says of something that was thrown. */
export function failureOf(thrown: unknown): TaskFailure {
  return { code: MarlingError.is(thrown) ? thrown.code : "task_failed", message: messageOf(thrown) };
}

const SPEC_MEMBERS: { readonly [M in keyof Required<TaskSpec>]: true } = {
  id: true,
  kind: true,
  producer: true,
  childSessionId: true,
  parentTaskId: true,
  label: true,
  cancelPolicy: true,
  closePolicy: true,
  maxAttempts: true,
  idempotencyKey: true,
  durable: true,
};
const DURABLE_MEMBERS: { readonly [M in keyof Required<TaskDurability>]: true } = {
  recovery: true,
  input: true,
};

/** A misspelt policy would be none. */
function refuseUnknown(json: JsonObject, members: object, where: string): void {
  const unknown = Object.keys(json).find((name) => !Object.hasOwn(members, name));
  if (unknown === undefined) return;
  const expected = `no other member than ${Object.keys(members).join(", ")}`;
  throw refuse(`${where}.${unknown}`, expected, json[unknown]);
}

type CheckedSpec = TaskSpec & Required<Pick<TaskSpec, "cancelPolicy" | "closePolicy">>;

function decodeSpec(raw: Json, where: string): CheckedSpec {
  const json = objectOf(raw, where);
  const durable = json.durable === undefined ? undefined : decodeDurability(json.durable, `${where}.durable`);
  const closePolicy = json.closePolicy ?? (durable === undefined ? "cancel" : "keep");
  return {
    id: requiredText(json, "id", where),
    kind: oneOf(json.kind, TASK_KINDS, `${where}.kind`),
    producer: requiredText(json, "producer", where),
    ...optionalText(json, "childSessionId", where),
    ...optionalText(json, "parentTaskId", where),
    ...optionalText(json, "label", where),
    cancelPolicy: oneOf(json.cancelPolicy ?? "cooperative", CANCEL_POLICIES, `${where}.cancelPolicy`),
    closePolicy: oneOf(closePolicy, CLOSE_POLICIES, `${where}.closePolicy`),
    ...(json.maxAttempts === undefined
      ? {}
      : { maxAttempts: countOf(json.maxAttempts, `${where}.maxAttempts`) }),
    ...optionalText(json, "idempotencyKey", where),
    ...(durable === undefined ? {} : { durable }),
  };
}

function decodeDurability(raw: Json, where: string): TaskDurability {
  const { recovery, input } = objectOf(raw, where);
  return Object.freeze({
    recovery: oneOf(recovery, TASK_RECOVERIES, `${where}.recovery`),
    ...(input === undefined ? {} : { input }),
  });
}

function decodeFailure(raw: Json, where: string): TaskFailure {
  const json = objectOf(raw, where);
  if (typeof json.message !== "string") throw refuse(`${where}.message`, "a text", json.message);
  return Object.freeze({ code: requiredText(json, "code", where), message: json.message });
}

function resultOf(record: TaskRecord, { result }: TaskCompletion): Pick<TaskRecord, "result"> {
  return result === undefined ? {} : { result: decodeJson(result, `task ${record.id}: result`) };
}

function decodeMember(raw: unknown, where: string): Json {
  try {
    return decodeJson(raw, where);
  } catch (cause) {
    throw new MarlingError("invalid_task", messageOf(cause), { cause });
  }
}

function objectOf(raw: Json | undefined, where: string): JsonObject {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  return raw;
}

function requiredText(json: JsonObject, name: string, where: string): string {
  const text = json[name];
  if (typeof text !== "string" || text.trim() === "") throw refuse(`${where}.${name}`, "a text", text);
  return text;
}

function optionalText<Name extends string>(
  json: JsonObject,
  name: Name,
  where: string,
): { readonly [Key in Name]?: string } {
  if (json[name] === undefined) return {};
  // A computed key widens to string; the only member is the one named.
  return { [name]: requiredText(json, name, where) } as { readonly [Key in Name]?: string };
}

function oneOf<T extends string>(raw: Json | undefined, values: readonly T[], where: string): T {
  const value = values.find((known) => known === raw);
  if (value === undefined) throw refuse(where, `one of ${values.join(", ")}`, raw);
  return value;
}

function countOf(raw: Json | undefined, where: string): number {
  if (typeof raw === "number" && Number.isSafeInteger(raw) && raw >= 1) return raw;
  throw refuse(where, "a whole number from 1 on", raw);
}

function timeOf(raw: Json | undefined, where: string): number {
  if (typeof raw === "number") return raw;
  throw refuse(where, "a time in milliseconds", raw);
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const shown = found === undefined ? "nothing" : JSON.stringify(found).slice(0, 80);
  return new MarlingError("invalid_task", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}
