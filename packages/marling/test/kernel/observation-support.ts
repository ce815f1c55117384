// What a client makes of observations, and short ways to write and read a log.

import type { TurnEvent } from "marling";
import type { SessionObservation } from "../../src/kernel/observation.ts";
import { type ObservationLimits, ObservationLog } from "../../src/kernel/observation-log.ts";
import type { FrameId, MessageId, NodeId } from "../../src/model/ids.ts";
import type { Message } from "../../src/model/message.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { NO_PROTOCOL_OPTIONS } from "../../src/session/frame.ts";
import type { HistoryNode, SessionView } from "../../src/session/view.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

/** What a client shows: settled messages, and what a turn has said since. */
export interface Screen {
  readonly revision: number;
  readonly settled: readonly string[];
  readonly said: Readonly<Record<number, string>>;
}

export function screenOf({ revision, messages }: SessionView): Screen {
  return { revision, settled: messages.map(wordsOf), said: {} };
}

/** The whole client: one step for each kind of observation. */
export function show(screen: Screen, observation: SessionObservation): Screen {
  switch (observation.kind) {
    case "gap":
      return screenOf(observation.view);
    case "committed": {
      const { revision, nodes, turnId } = observation;
      const said = turnId === undefined ? screen.said : {};
      return { revision, settled: nodes.reduce(settledBy, screen.settled), said };
    }
    case "event":
      return { ...screen, said: sayingOf(screen.said, observation.event) };
  }
}

/** The messages of the current frame: a new one begins empty. */
function settledBy(settled: readonly string[], node: HistoryNode): readonly string[] {
  if (node.kind === "frame_open") return [];
  return node.kind === "message" ? [...settled, wordsOf(node.message)] : settled;
}

function sayingOf(said: Screen["said"], event: TurnEvent): Screen["said"] {
  if (event.kind === "turn_started") return {};
  if (event.kind === "attempt_reset") return { ...said, [event.round]: "" };
  if (event.kind !== "text_delta") return said;
  return { ...said, [event.round]: (said[event.round] ?? "") + event.text };
}

function wordsOf({ parts }: Message): string {
  return parts
    .map((part) => (part.kind === "text" || part.kind === "prose" ? part.text : `[${part.kind}]`))
    .join("");
}

/** A log whose session is written by hand. */
export interface Written {
  readonly log: ObservationLog;
  readonly clock: ManualClock;
  view(): SessionView;
  say(text: string, round?: number): TurnEvent;
  think(text: string): void;
  reset(round?: number): void;
  begin(turnId?: string): void;
  commit(text: string, turnId?: string): void;
  /** A commit of another process. */
  elsewhere(text: string): void;
}

const NO_VIEW: SessionView = {
  sessionId: "s",
  revision: 0,
  turnIndex: 0,
  policy: { model: "default", maxTurns: 50 },
  usage: NO_USAGE,
  frames: [],
  currentFrameId: "f",
  protocolOptions: NO_PROTOCOL_OPTIONS,
  messages: [],
};

export function written(limits: Partial<ObservationLimits> = {}, sessionId = "s"): Written {
  const clock = new ManualClock();
  let view: SessionView = { ...NO_VIEW, sessionId };
  let turnId = "t1";
  const log = new ObservationLog({
    sessionId,
    clock,
    revision: () => view.revision,
    view: () => view,
    limits: { events: 2_048, ageMs: 120_000, ...limits },
  });
  const append = (text: string): HistoryNode => {
    const node = nodeOf(text, view.revision + 1);
    const messages = node.kind === "message" ? [...view.messages, node.message] : view.messages;
    view = { ...view, revision: view.revision + 1, messages };
    return node;
  };
  const tell = (event: TurnEvent): TurnEvent => {
    log.event(turnId, event);
    return event;
  };
  return {
    log,
    clock,
    view: () => view,
    say: (text, round = 0) => tell({ kind: "text_delta", round, text }),
    think: (text) => void tell({ kind: "reasoning_delta", round: 0, text }),
    reset: (round = 0) =>
      void tell({ kind: "attempt_reset", round, attempt: 1, reason: "overloaded", retryAfterMs: 0 }),
    begin: (id = "t1") => {
      turnId = id;
      tell({ kind: "turn_started", turnId });
    },
    commit: (text, by) => {
      const node = append(text);
      log.committed({ revision: view.revision, nodes: [node], turnId: by });
    },
    elsewhere: (text) => {
      append(text);
      log.moved();
    },
  };
}

export function nodeOf(text: string, generation: number): HistoryNode {
  return {
    kind: "message",
    message: { id: `m${generation}` as MessageId, role: "assistant", parts: [{ kind: "text", text }] },
    id: `n${generation}` as NodeId,
    generation,
    frameId: "f" as FrameId,
  };
}

/** The next observations, as many as asked for. */
export async function take(
  from: AsyncIterable<SessionObservation>,
  count: number,
): Promise<readonly SessionObservation[]> {
  const seen: SessionObservation[] = [];
  if (count === 0) return seen;
  for await (const observation of from) {
    seen.push(observation);
    if (seen.length === count) break;
  }
  return seen;
}

/** Everything up to the end of the observation. */
export async function all(from: AsyncIterable<SessionObservation>): Promise<readonly SessionObservation[]> {
  return take(from, Number.POSITIVE_INFINITY);
}

/** An observation in a few words. */
export function brief(observation: SessionObservation): string {
  switch (observation.kind) {
    case "gap": {
      const { reason, view, inFlight } = observation;
      const flying =
        inFlight === undefined ? "" : `, ${inFlight.isWhole ? "all" : "rest"} of ${inFlight.turnId}`;
      return `gap ${reason} at ${view.revision}${flying}`;
    }
    case "committed":
      return `committed ${observation.revision}${observation.turnId === undefined ? "" : ` by ${observation.turnId}`}`;
    case "event":
      return observation.event.kind === "text_delta" ? observation.event.text : observation.event.kind;
  }
}
