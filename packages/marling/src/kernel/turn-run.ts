// What the phases of one turn share. Phases add to the log and to the buffer; they keep no references to each other.

import { isPromise } from "../base/deferred.ts";
import { SharedList } from "../base/shared-list.ts";
import type { EffectKind, EffectOptions, TurnName } from "../effects/contract.ts";
import type { EffectKey, InputId, NodeId, TurnId } from "../model/ids.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import { RECORDED_VERSION } from "../model/outcome-version.ts";
import type { ToolCallRecord } from "../model/tool-output.ts";
import type { ModelCallRecord, PluginEvent, TurnEvent, TurnIssue, TurnOutcome } from "../model/turn.ts";
import type { UsageEntry } from "../model/usage.ts";
import type { StateDelta } from "../plugin/durable.ts";
import type { TurnContext } from "../plugin/hook-context.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import type { NodeDraft } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { ToolState } from "../tool/contract.ts";
import type { TurnRecord } from "../turn/effect.ts";
import type { Environment, PlannedEnvironment } from "./environment.ts";
import { marksOf, mismatchOf } from "./recorded-request.ts";
import type { ResidentSession } from "./resident-session.ts";
import { spend } from "./spending.ts";
import { tracedEffect } from "./trace-effect.ts";
import type { TurnControl } from "./turn-control.ts";

/** What happened so far that ends up in the report. */
export interface TurnLog {
  readonly issues: TurnIssue[];
  readonly toolCalls: ToolCallRecord[];
  readonly modelCalls: ModelCallRecord[];
  /** What earlier parts of the turn used beside their own model calls, by source and model. */
  readonly childUsage: UsageEntry[];
}

export interface TurnRun {
  readonly session: ResidentSession;
  /** Of this part of the turn; the first part has the id that was accepted. */
  readonly turnId: TurnId;
  readonly acceptedId: TurnId;
  /** The name of its commit; other operations of the session never have it. */
  readonly operation: string;
  /** What ids of its messages begin with; unique over all sessions. In an effect it has the effect's key behind it. */
  readonly scope: string;
  readonly control: TurnControl;
  /** Generation of the lease that the turn began under; undefined where nothing is remembered. */
  readonly lease: number | undefined;
  /** The span that what happens here is part of, where it is not the round. */
  readonly span?: string;
  readonly context: TurnContext;
  readonly log: TurnLog;
  readonly extension: unknown;
  readonly outputSchema: JsonObject | undefined;
  readonly inputMessage: Message;
  /** The messages the model is shown, up to one of the turn's records; a transform may have changed them. */
  shown: SharedList<Message>;
  /** How many of the turn's records are in `shown` already. */
  shownRecords: number;
  /** How many of them there were when a model was last called. */
  askedRecords: number;
  /** The newest node when `shown` was made: nodes behind it landed during the turn. */
  base: NodeId;
  /** Seed nodes of a frame that the turn's records will open, when the context was compacted inside it. */
  compaction: readonly NodeDraft[] | undefined;
  /** The newest node that the compactor saw. */
  compactedAfter: NodeId | undefined;
  /** Model calls of earlier parts of the turn, which are in the ledger already. */
  readonly committedCalls: number;
  /** The `scope` of the turn itself, whatever effect this is. */
  readonly acceptedScope: string;
  /** Sessions below that the turn made, gave work to or looked at. */
  readonly below: Set<string>;
  /** What was used beside the turn's own model calls. */
  readonly spent: UsageEntry[];
  /** Messages that hooks after tool calls left for the next checkpoint. */
  readonly buffer: Message[];
  /** Inputs that joined the turn at its checkpoints. */
  readonly joined: InputId[];
  /** How many of them are in the history already, with earlier parts of the turn. */
  readonly committedJoins: number;
  /** The effects that enclose this scope, outermost first; absent in the turn itself. */
  readonly within?: readonly EffectKey[] | undefined;
  /** Changes of plugin state that an effect names as its own; the turn itself has no such list. */
  readonly deltas?: StateDelta[];
  /** The prompt and tools of the round, once prepared, and what they were made from. */
  environment: Environment | undefined;
  environmentMark: string | undefined;
  /** The environment that the input was accepted with. */
  readonly plan: PlannedEnvironment | undefined;
  /** An outcome that ends the turn at the next step, whatever the protocol would do. */
  forced: TurnOutcome | undefined;
  emit(event: TurnEvent): void;
}

/** The messages of a turn as the model sees them, what is in flight included. Costs what is not in `shown` yet. */
export function messagesOf(turn: TurnRun, records: readonly TurnRecord[]): SharedList<Message> {
  const added: Message[] = [];
  for (const record of records.slice(turn.shownRecords))
    if (record.kind === "message") added.push(record.message);
  return turn.shown.append(added);
}

/** Puts the turn's records behind what is shown: whoever looks next pays for what came since. */
export function showRecords(turn: TurnRun, records: readonly TurnRecord[]): void {
  turn.shown = messagesOf(turn, records);
  turn.shownRecords = records.length;
}

/** The read view that hooks get: the session at the turn's base with the messages in flight. */
export function viewOf(turn: TurnRun, records: readonly TurnRecord[]): SessionReadView {
  return turn.session.readView(messagesOf(turn, records));
}

/** What an effect leaves behind besides its outcome. Plain JSON, recorded with it; what there is none of is left out. */
interface LeftBehind {
  readonly messages?: readonly Message[];
  readonly issues?: readonly TurnIssue[];
  readonly deltas?: readonly StateDelta[];
  readonly forced?: TurnOutcome;
  readonly compaction?: readonly NodeDraft[];
  /** Missing in outcomes of older releases, which carried nothing. */
  readonly compactedAfter?: NodeId | undefined;
  readonly tools?: ToolState;
  readonly spent?: readonly UsageEntry[];
}

/** An effect of a turn. */
export interface EffectOf<T> {
  readonly key: string;
  readonly kind: EffectKind;
  /** Performed instead when an earlier run began it and its end is not known. */
  readonly cut?: (scope: TurnRun) => Promise<T>;
  /**
   * The outcome of an effect that is not recorded in a turn that is ending; without one the turn ends here. Kernel code
   * alone: user code may be the reason why the turn ends.
   */
  readonly ended?: () => Promise<T | undefined>;
  /** Told the outcome when it came from an earlier run. */
  readonly replayed?: (value: T) => void;
  /** What is to be, such as a due time: the one that was written first holds. */
  readonly plan?: Json;
  /** What is asked for, as texts by field; an outcome that was recorded for something else ends the turn. */
  readonly asks?: Readonly<Record<string, string>>;
  /** What version 1 of an outcome may have kept of the same request, where that was something else. */
  readonly formerly?: () => Readonly<Record<string, string>>;
  /** The version of its outcome, where older releases would read it wrongly. */
  readonly version?: (value: T) => number | undefined;
}

/** What most effects leave behind. */
const NOTHING: LeftBehind = Object.freeze({});
const NONE: readonly never[] = Object.freeze([]);

/** What is kept of an effect: its outcome, what it left behind, and what it was asked. */
interface Recorded<T> {
  /** Nothing in version 1; see model/outcome-version.ts. */
  readonly version?: number;
  readonly value: T;
  readonly left: LeftBehind;
  readonly asked?: Readonly<Record<string, string>>;
  /** The effects that enclose it, outermost first. */
  readonly within?: readonly EffectKey[];
}

/**
 * Runs one effect. Its outcome is that of an earlier run if there was one, and what it left behind besides is added to
 * the turn in every run.
 * Contract: `perform` adds to the `scope` it is given: the turn, with a place of its own for what the effect leaves.
 */
export async function performEffect<T>(
  turn: TurnRun,
  effect: EffectOf<T>,
  perform: (scope: TurnRun, plan: Json | undefined) => Promise<T>,
): Promise<T> {
  const { session } = turn;
  const owning = ownTurn(turn);
  if (owning !== undefined) await owning;
  if (turn.control.ending !== undefined && !(await isRecorded(turn, effect.key)))
    return endedEffect(turn, effect, turn.control.ending);
  const told = tracedEffect(session.trace, turn.span, effect);
  const scope = scopeOf(turn, { scope: `${turn.scope}.${effect.key}`, within: effect.key });
  const { cut, plan } = effect;
  let hasRun = false;
  const run = (act: () => Promise<T>): Promise<Recorded<T>> =>
    begun(() => {
      hasRun = true;
      return performLive(turn, act, { scope, effect });
    });
  const request = { ...nameOf(turn), key: effect.key as EffectKey, kind: effect.kind };
  const options: EffectOptions<Recorded<T>> = {
    ...(cut === undefined ? {} : { cut: () => run(() => cut(scope)) }),
    ...(plan === undefined ? {} : { plan }),
  };
  const performed = (planned: Json | undefined): Promise<Recorded<T>> => run(() => perform(scope, planned));
  let recorded: Recorded<T>;
  try {
    recorded = await session.parts.effects.run(request, performed, options);
  } catch (thrown) {
    turn.log.issues.push(...scope.log.issues);
    told?.({ replayed: false, failed: { thrown } });
    throw thrown;
  }
  told?.({ replayed: !hasRun });
  if (!hasRun) {
    const mismatch = mismatchOf(effect, recorded);
    if (mismatch !== undefined) turn.control.end(mismatch);
    effect.replayed?.(recorded.value);
    takeOver(session, recorded.left);
    spend(session, recorded.left.spent ?? []);
  }
  leave(turn, recorded.left);
  return recorded.value;
}

/** The outcome of an effect that is not recorded, in a turn that is ending. */
async function endedEffect<T>(turn: TurnRun, { key, ended }: EffectOf<T>, ending: Error): Promise<T> {
  const value = await ended?.();
  if (value === undefined) throw ending;
  await adoptInner(turn, key);
  return value;
}

/** Performs an effect that no earlier run has come to, on the state as those left it: what they recorded is not overtaken. */
function performLive<T>(
  turn: TurnRun,
  act: () => Promise<T>,
  { scope, effect }: { readonly scope: TurnRun; readonly effect: EffectOf<T> },
): Promise<Recorded<T>> {
  const { session, control } = turn;
  control.apply();
  const recording = (): Promise<Recorded<T>> => {
    const { generation } = session.plugins.toolRegistry;
    return act().then((value) => {
      const adopting = adoptInner(scope, effect.key);
      const record = (): Recorded<T> => recordOf(turn, value, { scope, generation, effect });
      return isPromise(adopting) ? adopting.then(record) : record();
    });
  };
  const ahead = session.parts.effects.ahead?.(nameOf(turn)) ?? NONE;
  if (isPromise(ahead)) return ahead.then((outcomes) => takeOverAll(session, outcomes)).then(recording);
  takeOverAll(session, ahead);
  return recording();
}

/** What begins at once and rejects where it throws: hosts of effects need not expect both. */
function begun<T>(begin: () => Promise<T>): Promise<T> {
  try {
    return begin();
  } catch (thrown) {
    return Promise.reject(thrown);
  }
}

/** What is kept of an effect that has run. What it came to after its turn was lost does not count. */
function recordOf<T>(
  turn: TurnRun,
  value: T,
  { scope, generation, effect }: { scope: TurnRun; generation: number; effect: EffectOf<T> },
): Recorded<T> {
  const { asks } = effect;
  turn.control.refuseLost();
  const left = together(leftIn(scope, turn), movedState(turn, { scope, generation }));
  const { within } = turn;
  const version = effect.version?.(value) ?? RECORDED_VERSION;
  const record = { version, value, left, ...(within === undefined ? {} : { within }) };
  return asks === undefined ? record : { ...record, asked: marksOf(asks) };
}

/**
 * The run is done with an effect, or without a key with the turn. An earlier run may have finished effects inside it that
 * this run did not come to: their usage and their state still count.
 */
export function adoptInner(scope: TurnRun, key?: string): Awaitable<void> {
  const { session } = scope;
  const left = session.parts.effects.leave?.(nameOf(scope), key as EffectKey | undefined) ?? NONE;
  const adopt = (outcomes: readonly unknown[]): void => {
    for (const outcome of outcomes) {
      const inner = (outcome as Recorded<unknown>).left;
      takeOver(session, inner);
      spend(session, inner.spent ?? []);
      leave(scope, inner);
    }
  };
  return isPromise(left) ? left.then(adopt) : adopt(left);
}

/** Whether an earlier run of the turn has come to an effect. */
export function isRecorded(turn: TurnRun, key: string): Awaitable<boolean> {
  return turn.session.parts.effects.knows?.(nameOf(turn), key as EffectKey) ?? false;
}

/** Whether an effect has begun in an earlier run of the turn, as its mark or its outcome says. */
export function hasBegun(turn: TurnRun, key: string): Awaitable<boolean> {
  return turn.session.parts.effects.hasBegun?.(nameOf(turn), key as EffectKey) ?? false;
}

/** Whether an earlier run of the turn has come further than this one. A turn that is ending does nothing but replay. */
export function isReplaying(turn: TurnRun): Awaitable<boolean> {
  if (turn.control.ending !== undefined) return true;
  return turn.session.parts.effects.isReplaying?.(nameOf(turn)) ?? false;
}

/** The effect that is an attempt of a call. */
export function attemptKey(callId: string, round: number, number: number): string {
  return `${round}.tool.${callId}.${number}`;
}

/** A turn as effects are recorded under it, with the lease that it began under. */
export function nameOf({ session, turnId, lease, control }: TurnRun): TurnName {
  return { sessionId: session.id, turnId, lease, signal: control.signal };
}

/** Nothing begins in a turn that is somebody else's by now. Waits only where that has to be asked. */
function ownTurn({ session, control }: TurnRun): Promise<void> | undefined {
  control.refuseLost();
  return session.parts.effects.remembers === true ? session.lease.ensure() : undefined;
}

/**
 * The turn with a place of its own for what is left behind, so that effects which run concurrently can be told apart.
 * `within` names the effect that encloses it, or a call that is made of effects.
 */
export function scopeOf(
  turn: TurnRun,
  { scope = turn.scope, within: key }: { readonly scope?: string; readonly within?: string } = {},
): TurnRun {
  const within = key === undefined ? turn.within : [...(turn.within ?? NONE), key as EffectKey];
  return { ...turn, scope, within, buffer: [], deltas: [], spent: [], log: { ...turn.log, issues: [] } };
}

/** Adds what was left in a scope to the turn it was made from. */
export function joinScope(turn: TurnRun, scope: TurnRun): void {
  const { deltas = NONE } = scope;
  leave(turn, together(leftIn(scope, turn), deltas.length === 0 ? NOTHING : { deltas }));
}

function leftIn(scope: TurnRun, turn: TurnRun): LeftBehind {
  const { buffer, log, forced, compaction, compactedAfter, spent } = scope;
  const isNothing = spent.length + buffer.length + log.issues.length === 0;
  if (isNothing && forced === turn.forced && compaction === turn.compaction) return NOTHING;
  return {
    ...(spent.length === 0 ? {} : { spent }),
    ...(buffer.length === 0 ? {} : { messages: buffer }),
    ...(log.issues.length === 0 ? {} : { issues: log.issues }),
    ...(forced === undefined || forced === turn.forced ? {} : { forced }),
    ...(compaction === undefined || compaction === turn.compaction ? {} : { compaction, compactedAfter }),
  };
}

function together(one: LeftBehind, other: LeftBehind): LeftBehind {
  if (other === NOTHING) return one;
  return one === NOTHING ? other : { ...one, ...other };
}

/** What an effect did to plugins and tools. Only effects of the turn itself run alone, so only they take what is shared. */
function movedState(
  turn: TurnRun,
  { scope, generation }: { readonly scope: TurnRun; readonly generation: number },
): LeftBehind {
  const { plugins } = turn.session;
  const own = scope.deltas ?? NONE;
  const shared = turn.deltas === undefined ? plugins.takeDeltas() : NONE;
  const isUnmoved = plugins.toolRegistry.generation === generation;
  if (own.length + shared.length === 0 && isUnmoved) return NOTHING;
  const deltas = [...own, ...shared];
  return {
    ...(deltas.length === 0 ? {} : { deltas }),
    ...(isUnmoved ? {} : { tools: plugins.toolRegistry.exportState() }),
  };
}

function leave(turn: TurnRun, left: LeftBehind): void {
  if (left === NOTHING) return;
  const { messages = [], issues = [], deltas = [], forced, compaction, compactedAfter, spent = [] } = left;
  turn.spent.push(...spent);
  turn.buffer.push(...messages);
  turn.log.issues.push(...issues);
  turn.deltas?.push(...deltas);
  turn.forced ??= forced;
  if (compaction !== undefined) showCompacted(turn, compaction, compactedAfter);
}

/** Puts plugins and tools where an effect of an earlier run left them. */
function takeOver(session: ResidentSession, { deltas = [], tools }: LeftBehind): void {
  const { plugins } = session;
  for (const delta of deltas) plugins.applyDelta(delta);
  if (tools === undefined || tools.generation <= plugins.toolRegistry.generation) return;
  plugins.toolRegistry.restoreState(tools);
  session.refreshToolCatalog();
}

function takeOverAll(session: ResidentSession, outcomes: readonly unknown[]): void {
  for (const outcome of outcomes) takeOver(session, (outcome as Recorded<unknown>).left);
}

/** From here on the model is shown the seeds of a new frame in the place of what was before the turn. */
export function showCompacted(turn: TurnRun, seeds: readonly NodeDraft[], after: NodeId | undefined): void {
  turn.compaction = seeds;
  turn.compactedAfter = after;
  turn.shown = SharedList.of(seeds.flatMap((body) => (body.kind === "message" ? [body.message] : [])));
  turn.shownRecords = 0;
}

export function emitPluginEvents(turn: TurnRun, pluginId: string, events: readonly PluginEvent[]): void {
  for (const event of events) turn.emit({ kind: "plugin_event", pluginId, event });
}
