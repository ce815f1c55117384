// Where a turn goes on from after a switch of frames: kept with its input, so that a crash between two parts loses neither.

import { MarlingError } from "../base/errors.ts";
import type { InputId, TurnId } from "../model/ids.ts";
import { isJsonObject, type Json } from "../model/json.ts";
import type { TurnLog } from "./turn-run.ts";

export interface TurnProgress {
  /** What the next part begins with. */
  readonly task: string;
  /** Frames switched so far. */
  readonly switches: number;
  /** What the parts before it came to. */
  readonly log: TurnLog;
  /** Inputs that joined the parts before it; the last commit of the turn settles them. */
  readonly joined: readonly InputId[];
}

/** The id of a part of a turn, after so many switches of frames. */
export function partId(turnId: TurnId, switches: number): TurnId {
  return switches === 0 ? turnId : (`${turnId}:frame:${switches}` as TurnId);
}

export function encodeProgress({ task, switches, log, joined }: TurnProgress): Json {
  const { issues, toolCalls, modelCalls, childUsage } = log;
  const taken = joined.length === 0 ? {} : { joined };
  return {
    version: 1,
    task,
    switches,
    log: { issues, toolCalls, modelCalls, childUsage },
    ...taken,
  } as unknown as Json;
}

export function decodeProgress(raw: Json | undefined, where: string): TurnProgress | undefined {
  if (raw === undefined) return undefined;
  const log = isJsonObject(raw) ? (raw.log as unknown as TurnLog) : undefined;
  if (
    !isJsonObject(raw) ||
    raw.version !== 1 ||
    typeof raw.task !== "string" ||
    typeof raw.switches !== "number" ||
    !isJsonObject(raw.log)
  ) {
    throw new MarlingError(
      "unsupported_version",
      `${where}: expected the progress of a turn in version 1, found another`,
    );
  }
  const { issues, toolCalls, modelCalls, childUsage = [] } = log as TurnLog;
  return {
    task: raw.task,
    switches: raw.switches,
    log: {
      issues: [...issues],
      toolCalls: [...toolCalls],
      modelCalls: [...modelCalls],
      childUsage: [...childUsage],
    },
    joined: Array.isArray(raw.joined) ? (raw.joined as InputId[]) : [],
  };
}
