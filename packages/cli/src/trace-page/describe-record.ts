// What a row of the timeline says about a record. A trace may come from anywhere, so that nothing of a payload is taken
// for what it should be.

import type { TraceRecord } from "marling";

/** What a row shows; the page hides some of them until they are asked for. */
export type RowKind =
  | "turn"
  | "round"
  | "model"
  | "tool"
  | "attempt"
  | "wait"
  | "effect"
  | "hook"
  | "commit"
  | "note";

export type RowStatus = "ok" | "failed" | "open" | "parked" | "cancelled";

export interface RowText {
  readonly kind: RowKind;
  readonly label: string;
  /** What stands behind the label. */
  readonly detail: string;
  readonly status: RowStatus;
  readonly replayed: boolean;
}

export interface RecordContext {
  /** Whether the span never ended. */
  readonly isOpen: boolean;
  readonly attempts: readonly TraceRecord[];
  /** Whether something else is around it. */
  readonly isBelow: boolean;
}

type Values = Readonly<Record<string, unknown>>;

/** Effects that take time by themselves; the others only say that they were answered from the journal. */
const WAITS: ReadonlySet<unknown> = new Set(["wait", "timer", "code_cell", "direct_completion"]);

const DESCRIBE: {
  readonly [K in TraceRecord["kind"]]: (payload: Values, context: RecordContext) => Partial<RowText>;
} = {
  turn_started: (payload) => ({
    kind: "turn",
    label: "Turn",
    detail: payload.isRecovery === true ? "recovery" : "",
  }),
  turn: (payload) => ({ kind: "turn", label: "Turn", ...turnEnd(valuesIn(payload.outcome)) }),
  round: ({ round }) => ({ kind: "round", label: `Round ${numberIn(round) + 1}` }),
  model_call: (payload, { attempts }) =>
    modelRow({ port: valuesIn(attempts.at(-1)?.payload).port, ...payload }),
  model_attempt: (payload) => ({
    ...modelRow(payload),
    kind: "attempt",
    label: `Attempt ${textIn(payload.attempt)}`,
  }),
  tool_started: ({ name }) => ({ kind: "tool", label: textIn(name) }),
  tool_call: ({ name, outcome }, { attempts }) => ({
    kind: "tool",
    label: textIn(name),
    ...toolEnd(valuesIn(outcome), attempts.length),
    replayed: attempts.length > 0 && attempts.every(({ payload }) => valuesIn(payload).replayed === true),
  }),
  tool_attempt: ({ attempt, outcome, replayed, isCut }) => ({
    kind: "attempt",
    label: `Attempt ${textIn(attempt)}`,
    ...toolEnd(valuesIn(outcome), 1),
    ...(isCut === true ? { detail: "cut by a crash" } : {}),
    replayed: replayed === true,
  }),
  hook: ({ hook, pluginId, runs, failure }) => ({
    kind: "hook",
    label: textIn(hook),
    detail: [
      textIn(pluginId),
      numberIn(runs) > 1 ? `${textIn(runs)} runs` : "",
      textIn(valuesIn(failure).code),
    ]
      .filter(Boolean)
      .join(" · "),
    status: failure === undefined ? "ok" : "failed",
  }),
  effect: ({ effect, key, outcome, replayed, code }) => ({
    kind: WAITS.has(effect) ? "wait" : "effect",
    label: textIn(effect).replaceAll("_", " "),
    detail: [textIn(key), textIn(code)].filter(Boolean).join(" · "),
    status: outcome === "failed" ? "failed" : outcome === "parked" ? "parked" : "ok",
    replayed: replayed === true,
  }),
  commit: ({ revision, nodes, bytes, failure }) => ({
    kind: "commit",
    label: revision === undefined ? "Commit" : `Commit r${textIn(revision)}`,
    detail: textIn(valuesIn(failure).code) || `${textIn(nodes)} nodes · ${textIn(bytes)} bytes`,
    status: failure === undefined ? "ok" : "failed",
  }),
  recovery: ({ kind, attempt, code }) => ({
    kind: "note",
    label: `Recovery ${textIn(kind)}`,
    detail: kind === "skipped" ? textIn(code) : `attempt ${textIn(attempt)}`,
    status: kind === "resumed" ? "ok" : "failed",
  }),
  session_created: ({ childSessionId }) => ({
    kind: "note",
    label: "Session created",
    detail: textIn(childSessionId),
  }),
  child_turn: ({ childTurnId }) => ({ kind: "note", label: "Child turn", detail: textIn(childTurnId) }),
  custom: ({ name }) => ({ kind: "note", label: textIn(name) }),
};

export function describeRecord(record: TraceRecord, context: RecordContext): RowText {
  const shown = DESCRIBE[record.kind](valuesIn(record.payload), context);
  const plain: RowText = { kind: "note", label: record.kind, detail: "", status: "ok", replayed: false };
  const open: Partial<RowText> = context.isOpen ? { status: "open", detail: "never ended" } : {};
  const ended: RowText = { ...plain, ...shown, ...open };
  if (ended.kind !== "turn" || !context.isBelow) return ended;
  return { ...ended, label: "Child turn", detail: `${ended.detail} · ${record.sessionId}` };
}

function modelRow(payload: Values): Partial<RowText> {
  const { source, outcome, failure, usage, attempts, replayed } = payload;
  const { input, output, cacheRead, cacheWrite } = valuesIn(usage);
  const sent = numberIn(input) + numberIn(cacheRead) + numberIn(cacheWrite);
  const retries = numberIn(attempts) - 1;
  const details = [
    textIn(source),
    textIn(valuesIn(failure).code),
    retries > 0 ? `${retries} ${retries === 1 ? "retry" : "retries"}` : "",
    sent + numberIn(output) > 0 ? `${grouped(sent)} → ${grouped(numberIn(output))} tokens` : "",
  ];
  const status: RowStatus = outcome === "failed" ? "failed" : outcome === "cancelled" ? "cancelled" : "ok";
  return {
    kind: "model",
    label: modelName(payload),
    detail: details.filter(Boolean).join(" · "),
    status,
    replayed: replayed === true,
  };
}

/** The model as its provider knows it; as the runtime does where the port does not tell. */
function modelName({ model, port }: Values): string {
  const id = textIn(port);
  return id.includes("/") ? id.slice(id.indexOf("/") + 1) : textIn(model);
}

function turnEnd({ kind, reason, code }: Values): Partial<RowText> {
  if (kind === "finished") return { detail: "finished" };
  if (kind === "parked") return { detail: "parked", status: "parked" };
  const detail = [textIn(reason) || textIn(kind), textIn(code)].filter(Boolean).join(" · ");
  return { detail, status: reason === "cancelled" ? "cancelled" : "failed" };
}

function toolEnd({ kind, code }: Values, attempts: number): Partial<RowText> {
  const retries = attempts > 1 ? [`${attempts - 1} ${attempts === 2 ? "retry" : "retries"}`] : [];
  if (kind === "failure") return { detail: [textIn(code), ...retries].join(" · "), status: "failed" };
  if (kind === "parked" || kind === "pending") return { detail: textIn(kind), status: "parked" };
  if (kind === "cancelled") return { detail: "cancelled", status: "cancelled" };
  return { detail: retries.join(" · ") };
}

/** The members of something that should be an object. */
export function valuesIn(value: unknown): Values {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Values) : {};
}

/** A number; 0 for anything else. */
export function numberIn(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function textIn(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value).slice(0, 200) : "";
}

/** A whole number with its thousands apart. */
export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}
