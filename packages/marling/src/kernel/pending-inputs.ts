// Inputs that were accepted and are not settled yet, as a host sees them and takes them back.

import type { InputId } from "../model/ids.ts";
import type { TurnInput, TurnReport } from "../model/turn.ts";
import { NO_USAGE } from "../model/usage.ts";
import type { InboxRow, WithdrawOutcome } from "../store/contract.ts";
import type { ResidentSession } from "./resident-session.ts";

/** An accepted input that no commit has settled. */
export interface PendingInput {
  readonly inputId: string;
  readonly turnId: string;
  readonly key?: string;
  readonly input: TurnInput;
  readonly deliver: "active_turn" | "next_turn";
  /** `running`: it is the turn that runs; `joined`: the turn that runs has taken it; `parked`: its turn waits for somebody. */
  readonly status: "queued" | "running" | "joined" | "parked";
}

export async function pendingInputs(session: ResidentSession): Promise<readonly PendingInput[]> {
  const rows = await session.parts.store.pending(session.id);
  return rows.map((row) => ({
    inputId: row.inputId,
    turnId: row.turnId,
    ...(row.key === undefined ? {} : { key: row.key }),
    input: (row.input as unknown as { readonly input: TurnInput }).input,
    deliver: row.deliver ?? "next_turn",
    status: statusOf(session, row),
  }));
}

function statusOf({ running }: ResidentSession, row: InboxRow): PendingInput["status"] {
  if (row.claimed !== undefined) return "joined";
  if (row.turnId === running?.turnId) return running.control.asleep === undefined ? "running" : "parked";
  return row.parked === undefined ? "queued" : "parked";
}

/** Takes inputs out of the inbox. Their turns end, for whoever waits for them, as cancelled. */
export async function withdrawInputs(
  session: ResidentSession,
  ids: readonly string[],
): Promise<readonly WithdrawOutcome[]> {
  const { store, watch } = session.parts;
  const pending = await store.pending(session.id);
  // The turn that runs here holds no lease on a store where it needs none.
  const isRunning = (id: string): boolean =>
    pending.some(({ inputId, turnId }) => inputId === id && turnId === session.running?.turnId);
  const wanted = ids.filter((id) => !isRunning(id)) as InputId[];
  const withdrawals = wanted.map((inputId) => ({
    inputId,
    report: withdrawnReport(session, pending, inputId),
  }));
  const outcomes = await store.withdraw(session.id, withdrawals);
  watch.notify(session.id);
  return ids.map(
    (id) =>
      outcomes.find(({ inputId }) => inputId === id) ?? { inputId: id as InputId, status: "already_claimed" },
  );
}

function withdrawnReport(
  { state, id }: ResidentSession,
  pending: readonly InboxRow[],
  inputId: InputId,
): TurnReport {
  const message = "the input was taken back before its turn began";
  const turnId = pending.find((row) => row.inputId === inputId)?.turnId ?? `${id}:withdrawn`;
  return {
    outcome: { kind: "stopped", reason: "cancelled", code: "withdrawn", message },
    text: "",
    turnId,
    revision: state.revision,
    usage: NO_USAGE,
    childUsage: [],
    toolCalls: [],
    modelCalls: [],
    issues: [],
  };
}
