// Tasks that outlive the process: how they are stored, and what becomes of one that a restart finds live.
//   DT1  what is stored has a version; another one is `unsupported_version`, anything malformed `invalid_snapshot`.
//   DT2  a record says itself what recovery may do with it; a cancel that was asked for before the restart holds.
//   DT3  nothing here runs anything: the answer is the next record, and whether it is to be run.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { isTerminal, type TaskRecord } from "./task.ts";
import { changedRecord, decodeRecord, endedRecord } from "./task-record.ts";

export const DURABLE_TASKS_VERSION = 1;

const WHERE = "durable tasks";

/** The durable ones among the tasks of a session as one value to store; nothing when there are none. */
export function encodeDurableTasks(records: readonly TaskRecord[]): JsonObject | undefined {
  const tasks = records.filter(({ durable }) => durable !== undefined).map(encodeRecord);
  return tasks.length === 0 ? undefined : Object.freeze({ version: DURABLE_TASKS_VERSION, tasks });
}

/** What was stored of a session, oldest first. */
export function decodeDurableTasks(raw: unknown, sessionId: string): readonly TaskRecord[] {
  try {
    return decodeTasks(decodeJson(raw, WHERE), sessionId);
  } catch (thrown) {
    if (MarlingError.is(thrown) && thrown.code === "unsupported_version") throw thrown;
    throw new MarlingError("invalid_snapshot", `session ${sessionId}: ${messageOf(thrown)}`, {
      cause: thrown,
      details: { sessionId },
    });
  }
}

/** A stored task as it is from now on. */
export interface RecoveredTask {
  readonly record: TaskRecord;
  /** Whether its work is to begin again, once the record is stored. */
  readonly isRerun: boolean;
}

export interface RecoveryConditions {
  readonly now: number;
  /** Whether somebody here can run the task. */
  readonly isRunnable: boolean;
}

/** What becomes of a task that the store had. The very record when nothing changes. */
export function recoverTask(record: TaskRecord, { now, isRunnable }: RecoveryConditions): RecoveredTask {
  if (isTerminal(record.state) || record.durable === undefined) return { record, isRerun: false };
  const { recovery } = record.durable;
  if (recovery !== "external" && record.state === "cancel_requested")
    return { record: endedRecord(record, { state: "cancelled" }, now), isRerun: false };
  switch (recovery) {
    case "external":
      return { record: waitingRecord(record, now), isRerun: false };
    case "report":
      return { record: interruptedRecord(record, now), isRerun: false };
    case "rerun":
      return rerunTask(record, { now, isRunnable });
    default:
      return unreachable(recovery);
  }
}

/** Whoever runs it elsewhere says when it goes on. */
function waitingRecord(record: TaskRecord, now: number): TaskRecord {
  if (record.state === "waiting" || record.state === "cancel_requested") return record;
  return changedRecord(record, { state: "waiting" }, now);
}

function interruptedRecord(record: TaskRecord, now: number): TaskRecord {
  const message = `task ${record.id} of ${record.producer}: the runtime ended during attempt ${record.attempt}`;
  return endedRecord(record, { state: "failed", failure: { code: "task_interrupted", message } }, now);
}

/** A task that nobody here can run waits for an opening in which somebody can. */
function rerunTask(record: TaskRecord, { now, isRunnable }: RecoveryConditions): RecoveredTask {
  if (record.maxAttempts !== undefined && record.attempt >= record.maxAttempts)
    return { record: interruptedRecord(record, now), isRerun: false };
  if (isRunnable) {
    const change = { state: "pending", attempt: record.attempt + 1 } as const;
    return { record: changedRecord(record, change, now), isRerun: true };
  }
  const isPending = record.state === "pending";
  return { record: isPending ? record : changedRecord(record, { state: "pending" }, now), isRerun: false };
}

/** The session is where the value is stored, not part of it. */
function encodeRecord({ sessionId: _, ...record }: TaskRecord): Json {
  return decodeJson(record, WHERE);
}

function decodeTasks(raw: Json, sessionId: string): readonly TaskRecord[] {
  if (!isJsonObject(raw)) throw refuse(WHERE, "an object");
  if (raw.version !== DURABLE_TASKS_VERSION) throw unsupported(raw.version, sessionId);
  if (!Array.isArray(raw.tasks)) throw refuse(`${WHERE}.tasks`, "a list");
  const records = raw.tasks.map((task: Json, index) =>
    decodeRecord(task, sessionId, `${WHERE}.tasks[${index}]`),
  );
  if (new Set(records.map(({ id }) => id)).size < records.length)
    throw refuse(`${WHERE}.tasks`, "different ids");
  if (records.some(({ durable }) => durable === undefined))
    throw refuse(`${WHERE}.tasks`, "durable tasks only");
  return records;
}

function unsupported(version: Json | undefined, sessionId: string): MarlingError {
  return new MarlingError(
    "unsupported_version",
    `session ${sessionId}: expected ${WHERE} of version ${DURABLE_TASKS_VERSION}, found ${JSON.stringify(version)}`,
    { details: { sessionId } },
  );
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_snapshot", `${where}: expected ${expected}, found something else`);
}
