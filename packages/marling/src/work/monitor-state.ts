// What is stored of the monitors of a session, and what becomes of it when another process takes over.
//   MS1  neither process ids, nor updates, nor outstanding wakes are stored: they end with the process.
//   MS2  nothing runs after a restore. What is armed and restarts on restore is started with the next look at it; what
//        ran otherwise is idle and disarmed; everything else is as it was.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJsonObject, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { MonitorState, MonitorStatus } from "./monitor.ts";
import { decodeMonitorSpec } from "./monitor-spec.ts";

/** Version 1 of the stored monitors. */
export interface StoredMonitors {
  readonly revision: number;
  readonly sequence: number;
  readonly monitors: readonly MonitorStatus[];
}

const VERSION = 1;
const STATES: readonly MonitorState[] = ["idle", "running", "stopped", "exited", "failed"];

export function encodeMonitors({ revision, sequence, monitors }: StoredMonitors): JsonObject {
  return decodeJsonObject({ version: VERSION, revision, sequence, monitors }, "monitors");
}

/** Throws `unsupported_version` for another version, and `invalid_snapshot` with the path of what is malformed. */
export function decodeMonitors(json: JsonObject): StoredMonitors {
  if (json.version !== VERSION) {
    const message = `stored monitors: expected version ${VERSION}, found ${JSON.stringify(json.version)}`;
    throw new MarlingError("unsupported_version", message, { details: { version: json.version } });
  }
  const { monitors } = json;
  if (!Array.isArray(monitors)) throw malformed("monitors", "an array");
  return {
    revision: decodeCount(json.revision, "revision"),
    sequence: decodeCount(json.sequence, "sequence"),
    monitors: monitors.map((status, index) => decodeStatus(status, `monitors[${index}]`)),
  };
}

/** What a status is worth once the process that it tells of is gone. */
export function withoutProcess(status: MonitorStatus): MonitorStatus {
  if (status.state !== "running") return status;
  return Object.freeze({ ...status, state: "idle", armed: status.armed && status.spec.restartOnRestore });
}

function decodeStatus(raw: Json, where: string): MonitorStatus {
  if (!isJsonObject(raw)) throw malformed(where, "an object");
  const { armed, lastEvent, lastError, lastExitStatus } = raw;
  const state = STATES.find((known) => known === raw.state);
  if (state === undefined) throw malformed(`${where}.state`, STATES.join(", "));
  if (typeof armed !== "boolean") throw malformed(`${where}.armed`, "true or false");
  return Object.freeze({
    spec: decodeSpec(raw.spec, `${where}.spec`),
    armed,
    state,
    ...(lastEvent === undefined ? {} : { lastEvent: decodeText(lastEvent, `${where}.lastEvent`) }),
    ...(lastError === undefined ? {} : { lastError: decodeText(lastError, `${where}.lastError`) }),
    ...(lastExitStatus === undefined
      ? {}
      : { lastExitStatus: decodeCount(lastExitStatus, `${where}.lastExitStatus`) }),
    eventCount: decodeCount(raw.eventCount, `${where}.eventCount`),
  });
}

function decodeSpec(raw: Json | undefined, where: string): MonitorStatus["spec"] {
  try {
    return decodeMonitorSpec(raw);
  } catch (error) {
    throw malformed(where, `a spec (${messageOf(error)})`, error);
  }
}

function decodeText(raw: Json, where: string): string {
  if (typeof raw !== "string") throw malformed(where, "a string");
  return raw;
}

function decodeCount(raw: Json | undefined, where: string): number {
  if (typeof raw !== "number" || !Number.isSafeInteger(raw) || raw < 0)
    throw malformed(where, "a whole number from 0 on");
  return raw;
}

function malformed(where: string, expected: string, cause?: unknown): MarlingError {
  return new MarlingError("invalid_snapshot", `stored monitors: ${where}: expected ${expected}`, {
    cause,
    details: { where },
  });
}
