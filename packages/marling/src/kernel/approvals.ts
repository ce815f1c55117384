// The door for decisions: what waits for one, and how it is given.

import type { Clock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import type { SessionId, TurnId } from "../model/ids.ts";
import { isJsonObject, type Json } from "../model/json.ts";
import type { InboxRow, ResolveStatus, Store } from "../store/contract.ts";
import { type ApprovalQuestion, approvalWait } from "./approval.ts";
import type { StoreWatch } from "./store-watch.ts";

export interface ApprovalVerdict {
  readonly decision: "allow" | "deny";
  /** Who decides: kept with the decision. */
  readonly actor: string;
  readonly reason?: string;
}

export interface ApprovalAdmin {
  /** Calls that wait for a decision, in all sessions or in one. */
  list(filter?: { readonly sessionId?: string }): Promise<readonly ApprovalQuestion[]>;
  /** Decides about a call that was asked about. The first decision counts; one about anything else is `unknown`. */
  decide(
    question: Pick<ApprovalQuestion, "digest">,
    verdict: ApprovalVerdict,
  ): Promise<"decided" | "already_decided" | "unknown">;
}

const STATUS: { readonly [S in ResolveStatus]: "decided" | "already_decided" | "unknown" } = {
  resolved: "decided",
  already_resolved: "already_decided",
  unknown: "unknown",
};

export class Approvals implements ApprovalAdmin {
  readonly #store: Store;
  readonly #watch: StoreWatch;
  readonly #clock: Clock;
  /** Questions of turns that wait in memory. */
  readonly #live = new Set<ApprovalQuestion>();

  constructor(store: Store, watch: StoreWatch, clock: Clock) {
    this.#store = store;
    this.#watch = watch;
    this.#clock = clock;
  }

  /** A question that a turn of this runtime waits for; the function forgets it. */
  remember(question: ApprovalQuestion): () => void {
    this.#live.add(question);
    return () => void this.#live.delete(question);
  }

  async list({ sessionId }: { readonly sessionId?: string } = {}): Promise<readonly ApprovalQuestion[]> {
    const sessions = sessionId === undefined ? await this.#store.unsettled() : [sessionId as SessionId];
    const stored: ApprovalQuestion[] = [];
    for (const id of sessions)
      for (const row of await this.#store.pending(id)) stored.push(...(await this.#asked(row)));
    const known = new Set(stored.map(({ digest }) => digest));
    const live = [...this.#live].filter(
      (question) => !known.has(question.digest) && (sessionId ?? question.sessionId) === question.sessionId,
    );
    return [...stored, ...live];
  }

  async decide(
    { digest }: Pick<ApprovalQuestion, "digest">,
    verdict: ApprovalVerdict,
  ): Promise<(typeof STATUS)[ResolveStatus]> {
    const { decision, actor, reason } = verdict;
    if (decision !== "allow" && decision !== "deny") throw refuse("decision", "allow or deny", decision);
    if (typeof actor !== "string" || actor.trim() === "") throw refuse("actor", "a name", actor);
    const at = this.#clock.now();
    const ok = { decision, actor, at, ...(reason === undefined ? {} : { reason: String(reason) }) };
    const { status, sessionId } = await this.#store.waits.resolve(String(digest), "approval", { ok });
    if (status === "resolved") this.#watch.notify(sessionId);
    return STATUS[status];
  }

  /** What the turn of an input has asked and nobody has decided. */
  async #asked(row: InboxRow): Promise<readonly ApprovalQuestion[]> {
    const { journal, waits } = this.#store;
    const open = (await waits.read(row.sessionId, row.turnId)).filter(
      ({ kind, resolution, isOver }) => kind === "approval" && resolution === undefined && !isOver,
    );
    if (open.length === 0 || journal === undefined) return [];
    const names = new Set(open.map(({ name }) => name));
    const asked: ApprovalQuestion[] = [];
    for (const turnId of partsOf(row))
      for (const { outcome } of await journal.read(row.sessionId, turnId)) {
        const question = questionIn(outcome);
        const name =
          question === undefined ? "" : approvalWait({ acceptedId: row.turnId, turnId }, question.callId);
        if (question !== undefined && names.has(name)) asked.push(question);
      }
    return asked;
  }
}

/** The turn of an input, and the part of it that runs after a switch of frames. */
function partsOf({ turnId, progress }: InboxRow): readonly TurnId[] {
  const switches = isJsonObject(progress) ? progress.switches : undefined;
  return switches === undefined ? [turnId] : [turnId, `${turnId}:frame:${String(switches)}` as TurnId];
}

function questionIn(outcome: Json | undefined): ApprovalQuestion | undefined {
  const value = isJsonObject(outcome) ? outcome.value : undefined;
  const question = isJsonObject(value) ? value.question : undefined;
  return isJsonObject(question) ? (question as unknown as ApprovalQuestion) : undefined; // as prepare-call.ts recorded it
}

function refuse(what: string, expected: string, found: unknown): MarlingError {
  const message = `approval ${what}: expected ${expected}, found ${String(found)}`;
  return new MarlingError("invalid_input", message, { details: { what } });
}
