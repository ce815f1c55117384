// Short ways to a runtime with a model that does what a test says, and to the session object behind one.

import {
  createRuntime,
  definePlugin,
  inlineEffects,
  type ModelOutcome,
  type ModelPort,
  type ModelRequest,
  type ModelResponse,
  type ModelSink,
  memoryStore,
  type Plugin,
  type PluginParts,
  type ResponsePart,
  type RuntimeOptions,
  type Session,
  type TokenUsage,
  type Turn,
  type TurnEvent,
  type TurnReport,
} from "marling";
import { say, scriptedModel } from "marling/testing";
import { onTestFinished } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { SharedValues } from "../../src/base/shared-values.ts";
import { Approvals } from "../../src/kernel/approvals.ts";
import { LeaseKeeper } from "../../src/kernel/lease-keeper.ts";
import { openSession } from "../../src/kernel/open-session.ts";
import { OpenSessions } from "../../src/kernel/open-sessions.ts";
import type { KernelParts } from "../../src/kernel/parts.ts";
import type { ResidentSession } from "../../src/kernel/resident-session.ts";
import { bindModels } from "../../src/kernel/runtime-options.ts";
import { StoreWatch } from "../../src/kernel/store-watch.ts";
import { type QueuedTurn, TurnQueue } from "../../src/kernel/turn-queue.ts";
import { Waits } from "../../src/kernel/waits.ts";
import { DEFAULT_ANSWER_LIMITS } from "../../src/model/answer-limits.ts";
import { sessionId } from "../../src/model/ids.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

/** Opens a session "s" of a runtime that the test closes. */
export async function open(options: RuntimeOptions): Promise<Session> {
  const runtime = createRuntime(options);
  onTestFinished(() => runtime.close());
  return runtime.session("s");
}

export function plugin(id: string, parts: PluginParts): Plugin {
  return definePlugin({ id, build: () => parts })();
}

export interface Watched {
  readonly report: TurnReport;
  readonly events: readonly TurnEvent[];
}

/** A turn to its end, with everything a watcher saw. */
export async function watch(turn: Turn): Promise<Watched> {
  const events: TurnEvent[] = [];
  for await (const event of turn) events.push(event);
  return { report: await turn.result, events };
}

export function textsOf(events: readonly TurnEvent[]): readonly string[] {
  return events.flatMap((event) => (event.kind === "text_delta" ? [event.text] : []));
}

/** The text that stays with a watcher who takes back what a reset voids. */
export function shownText(events: readonly TurnEvent[]): string {
  let text = "";
  for (const event of events) {
    if (event.kind === "attempt_reset") text = "";
    if (event.kind === "text_delta") text += event.text;
  }
  return text;
}

export const usage = (input: number, output: number): TokenUsage => ({
  input,
  output,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
});

export function responseOf(
  parts: readonly ResponsePart[] | string,
  rest: Partial<ModelResponse> = {},
): ModelOutcome {
  const list: readonly ResponsePart[] = typeof parts === "string" ? [{ kind: "text", text: parts }] : parts;
  return { kind: "response", response: { parts: list, usage: usage(0, 0), finish: "stop", ...rest } };
}

/** A model written by hand, with what it was asked. */
export function port(
  call: (sink: ModelSink, signal: AbortSignal, request: ModelRequest) => ModelOutcome | Promise<ModelOutcome>,
): ModelPort & { readonly requests: readonly ModelRequest[] } {
  const requests: ModelRequest[] = [];
  return {
    id: "hand-written",
    requests,
    call: async (request, { sink, signal }) => {
      requests.push(request);
      return call(sink, signal, request);
    },
  };
}

export { ManualClock as KernelClock } from "../../src/testing/manual-clock.ts";

/** Lets everything happen that waits for nothing but its turn. */
export function quiet(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export interface Resident {
  readonly session: ResidentSession;
  readonly parts: KernelParts;
  readonly traces: readonly CustomTrace[];
  submit(input: string): Promise<QueuedTurn>;
  run(input: string): Promise<TurnReport>;
  /** The same session, opened again from its store. */
  reopen(): Promise<Resident>;
}

export interface ResidentOptions extends Pick<RuntimeOptions, "plugins" | "store" | "instructions"> {
  readonly model?: ModelPort | undefined;
}

/** The session object behind a session "s", and a way to run turns on it. */
export async function resident(options: ResidentOptions = {}): Promise<Resident> {
  const {
    plugins = [],
    store = memoryStore(),
    instructions,
    model = scriptedModel(() => say("Done.")),
  } = options;
  const traces: CustomTrace[] = [];
  const watch = new StoreWatch(store, systemClock);
  const given: Omit<KernelParts, "sessions" | "work" | "triggers"> = {
    store,
    effects: inlineEffects(),
    clock: systemClock,
    trace: customTraces(traces),
    models: bindModels({ model }),
    plugins: createPluginHost(plugins),
    waits: new Waits(store, watch),
    approvals: new Approvals(store, watch, systemClock),
    watch,
    leases: new LeaseKeeper({ store, clock: systemClock, owner: "test", ttlMs: 30_000 }),
    commitBytes: 1_000_000,
    owner: "test",
    instructions,
    prompts: new SharedValues(1),
    environments: new SharedValues(1),
    turnBudget: 50,
    toolConcurrency: 16,
    attachmentPolicy: undefined,
    answerLimits: DEFAULT_ANSWER_LIMITS,
    tenant: undefined,
    toolTimeoutMs: undefined,
    retry: { clock: systemClock, limitMs: 0 },
    probe: undefined,
    retired: new Map(),
    readers: createPluginHost([]),
  };
  const { parts } = new OpenSessions(given, () => undefined);
  const opened = await openSession(parts, sessionId("s"), {
    policy: {},
    pluginOptions: undefined,
    parent: undefined,
  });
  const { session, inputs } = opened;
  const queue = new TurnQueue(session, inputs);
  return {
    session,
    parts,
    traces,
    submit: async (input) => (await queue.submit(input, {})).turn,
    run: async (input) => (await queue.submit(input, {})).turn.done.promise,
    reopen: async () => {
      await queue.close("session_closed");
      await session.plugins.dispose();
      return resident({ ...options, store, model });
    },
  };
}
