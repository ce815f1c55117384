// Rolling history: when the conversation nears the end of the model's context, its older part becomes a summary.
//   RH1  a turn whose prompt would pass the threshold is compacted before its first model call, and once more is tried
//        when the provider says that the context overflowed; `session.compact` does the same between turns.
//   RH2  what takes the place of the older part is smaller than it by the same estimate, or nothing is replaced. The
//        numbers are a node of the new frame.
//   RH3  a summary that did not shrink is asked for again, shorter, up to the limit of tries; a refusal is remembered,
//        and not tried again before the history has grown by a quarter.
//   RH4  the newest turns stay as they are, and a call is never parted from its result.
//   RH5  everything it remembers is committed with the turn, and what it bought before a crash is not bought again.

import { type AppendNode, type DurableState, definePlugin, type Message, type Plugin } from "../../index.ts";
import type {
  CompactionContext,
  ContextCompaction,
  ModelErrorDecision,
  ModelErrorHookContext,
  TurnTransformContext,
} from "../../plugin/index.ts";
import {
  aCount,
  aFunction,
  aPositiveCount,
  aShare,
  aText,
  checkOptions,
  type OptionCheck,
} from "../check-options.ts";
import { estimateTokens, messagesTokens, type TokenEstimate } from "./estimate-tokens.ts";
import { splitHistory } from "./split-history.ts";
import { summarise } from "./summarise.ts";

export interface RollingHistoryOptions {
  /** The size of the context in tokens; by default what the model says. Without either, only overflows are met. */
  readonly contextTokens?: number;
  /** The share of the context from which on the history is compacted; 0.75 by default. */
  readonly threshold?: number;
  /** How many of the newest turns stay as they are; 2 by default. Fewer when they alone would fill half of what is allowed. */
  readonly keepTurns?: number;
  /** How often a summary is asked for in one turn; 2 by default. */
  readonly maxTries?: number;
  /** The name of the model that writes the summaries; by default the session's. */
  readonly model?: string;
  /** About how many tokens a text is. */
  readonly estimate?: TokenEstimate;
}

/** What became of compactions; the answer of the query `history.status`. */
export interface RollingHistoryStatus {
  readonly compactions: number;
  /** The latest that succeeded, in estimated tokens. */
  readonly last?: { readonly before: number; readonly after: number; readonly turnIndex: number };
  /** The latest that was refused: how large the older part was, and how long the whole. */
  readonly refused?: { readonly tokens: number; readonly messages: number; readonly reason: string };
  /** Summaries that were asked for inside the turn with this number. */
  readonly tries?: { readonly turnIndex: number; readonly count: number };
}

type Settings = Required<Omit<RollingHistoryOptions, "contextTokens" | "model">> &
  Pick<RollingHistoryOptions, "contextTokens" | "model">;

const ID = "rolling_history";
const NODE_TYPE = "rolling_history.compaction";
const DEFAULT_PIECE_TOKENS = 60_000;
const PIECE_SHARE = 0.6;
const GROWTH = 1.25;
const WORDS_PER_TOKEN = 0.7;

const CHECKS: { readonly [K in keyof Required<RollingHistoryOptions>]: OptionCheck } = {
  contextTokens: aPositiveCount,
  threshold: aShare,
  keepTurns: aCount,
  maxTries: aPositiveCount,
  model: aText,
  estimate: aFunction,
};

/** Keeps a session within the context of its model, for as long as it goes on. */
export function rollingHistory(options: RollingHistoryOptions = {}): Plugin {
  checkOptions(ID, options, CHECKS);
  const settings: Settings = {
    threshold: 0.75,
    keepTurns: 2,
    maxTries: 2,
    estimate: estimateTokens,
    ...options,
  };
  return definePlugin({
    id: ID,
    build(ctx) {
      const status = ctx.durable<RollingHistoryStatus>({ version: 1, initial: () => ({ compactions: 0 }) });
      // What the model's own window is, as the latest turn saw it.
      let window = settings.contextTokens;
      return {
        context: {
          prepareTurn: {
            priority: 100,
            transform: (turn, prepared) => {
              window = settings.contextTokens ?? turn.maxContextTokens ?? window;
              return isDue(turn, { settings, window, status: status.get() })
                ? { ...prepared, compact: {} }
                : undefined;
            },
          },
          compact: {
            priority: 100,
            compact: (compaction) => compact(compaction, { settings, window, status }),
          },
        },
        model: { error: (error) => onModelError(error) },
        operations: { queries: { "history.status": { handler: () => status.get() } } },
      };
    },
  })();
}

function onModelError({ failure }: ModelErrorHookContext): ModelErrorDecision | undefined {
  return failure.kind === "context_overflow" ? { kind: "compact_and_retry" } : undefined;
}

interface Due {
  readonly settings: Settings;
  readonly window: number | undefined;
  readonly status: RollingHistoryStatus;
}

function isDue(turn: TurnTransformContext, { settings, window, status }: Due): boolean {
  if (window === undefined) return false;
  const tokens = promptTokens(turn, settings, status);
  if (tokens < window * settings.threshold) return false;
  return status.refused === undefined || turn.state.messageCount >= status.refused.messages * GROWTH;
}

/** What the next call will be sent: what the latest was, where that is known and still holds, and what came since. */
function promptTokens(
  { state, promptUsage }: TurnTransformContext,
  { estimate }: Settings,
  { last }: RollingHistoryStatus,
): number {
  const isOutdated = last !== undefined && last.turnIndex >= state.turnIndex;
  const { input, cacheRead, cacheWrite, output } = promptUsage ?? NO_USAGE;
  const sent = isOutdated ? 0 : input + cacheRead + cacheWrite + output;
  return sent > 0 ? sent + messagesTokens(state.tail(1), estimate) : messagesTokens(state.messages, estimate);
}

const NO_USAGE = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 } as const;

interface Compactor {
  readonly settings: Settings;
  readonly window: number | undefined;
  readonly status: DurableState<RollingHistoryStatus>;
}

async function compact(ctx: CompactionContext, compactor: Compactor): Promise<ContextCompaction | undefined> {
  const { settings, status } = compactor;
  // What is in flight stays behind the new frame whatever happens; only what is settled can be replaced.
  const settled = (await ctx.host.snapshotCurrent()).messages;
  const isInTurn = ctx.state.lastMessage?.id !== settled.at(-1)?.id;
  const { turnIndex } = ctx.state;
  const tried = status.get().tries;
  const before = isInTurn && tried?.turnIndex === turnIndex ? tried.count : 0;
  const { older, kept } = cut(settled, compactor);
  if (older.length === 0 || before >= settings.maxTries) return undefined;
  const work = { ctx, older, isInTurn, tries: settings.maxTries - before };
  const { summary, count, reason } = await shorter(work, compactor);
  if (isInTurn) status.update((now) => ({ ...now, tries: { turnIndex, count: before + count } }));
  const tokens = messagesTokens(older, settings.estimate);
  if (summary === undefined) {
    status.update((now) => ({ ...now, refused: { tokens, messages: settled.length, reason } }));
    return undefined;
  }
  const after = messagesTokens([summary], settings.estimate);
  status.update(({ refused: _refused, compactions, ...now }) => ({
    ...now,
    compactions: compactions + 1,
    last: { before: tokens, after, turnIndex },
  }));
  const proof = { before: tokens, after, messages: older.length, kept: kept.length };
  return { initialNodes: [{ kind: "plugin", type: NODE_TYPE, body: proof }, ...seeds([summary, ...kept])] };
}

/** The newest turns that stay, at most half of what the context may hold, and what is older than them. */
function cut(messages: readonly Message[], { settings, window }: Compactor): ReturnType<typeof splitHistory> {
  const { keepTurns, estimate, threshold } = settings;
  const room = window === undefined ? Number.POSITIVE_INFINITY : (window * threshold) / 2;
  for (let turns = keepTurns; turns > 0; turns -= 1) {
    const split = splitHistory(messages, turns);
    if (messagesTokens(split.kept, estimate) <= room) return split;
  }
  return splitHistory(messages, 0);
}

type Summary = Pick<Message, "role" | "parts">;

interface Shortening {
  readonly ctx: CompactionContext;
  readonly older: readonly Message[];
  readonly isInTurn: boolean;
  readonly tries: number;
}

/** A summary that is smaller than what it stands for, and how often one was asked for. */
async function shorter(
  { ctx, older, isInTurn, tries }: Shortening,
  { settings, window }: Compactor,
): Promise<{ readonly summary: Summary | undefined; readonly count: number; readonly reason: string }> {
  const { estimate, model } = settings;
  const before = messagesTokens(older, estimate);
  const pieceTokens =
    window === undefined ? DEFAULT_PIECE_TOKENS : Math.max(1, Math.floor(window * PIECE_SHARE));
  const { host, instructions } = ctx;
  let reason = "the summary was not smaller";
  for (let count = 1; count <= tries; count += 1) {
    const maxWords =
      count === 1 ? undefined : Math.max(20, Math.floor((before * WORDS_PER_TOKEN) / 2 ** count));
    const request = { host, messages: older, instructions, maxWords, model, pieceTokens, estimate };
    try {
      const text = await summarise(request);
      const summary = summaryMessage(text);
      if (text !== "" && messagesTokens([summary], estimate) < before) return { summary, count, reason };
    } catch (thrown) {
      // Inside a turn the failure that asked for the summary is the one that counts.
      if (!isInTurn) throw thrown;
      reason = thrown instanceof Error ? thrown.message : String(thrown);
    }
  }
  return { summary: undefined, count: tries, reason };
}

function summaryMessage(text: string): Summary {
  const words = `The conversation before this point, in summary:\n${text}`;
  return { role: "event", parts: [{ kind: "text", text: words }] };
}

function seeds(messages: readonly Summary[]): readonly AppendNode[] {
  return messages.map(({ role, parts }) => ({ kind: "message", message: { role, parts } }));
}
