// A scene for hook tests: a session with a scripted model, one tool that says what it was called with, and what was
// traced.

import {
  createRuntime,
  definePlugin,
  defineTool,
  type Json,
  type MessagePart,
  type ModelPort,
  memoryStore,
  type Plugin,
  type PluginParts,
  type RuntimeOptions,
  type Session,
  type Store,
  type ToolResultPart,
  type TurnEvent,
  type TurnOptions,
  type TurnReport,
} from "marling";
import type { SessionCommit } from "marling/host";
import { type ScriptedModel, type ScriptStep, scriptedModel } from "marling/testing";
import { onTestFinished } from "vitest";
import { z } from "zod";
import type { HookName } from "../../src/plugin/hooks.ts";
import { ManualClock as TestClock } from "../../src/testing/manual-clock.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

export { TestClock };

export interface SceneOptions extends Omit<RuntimeOptions, "model" | "trace" | "tools"> {
  readonly script?: readonly (ScriptStep | ((...args: never[]) => ScriptStep))[];
  readonly model?: ModelPort;
}

export interface Scene {
  readonly session: Session;
  readonly runtime: ReturnType<typeof createRuntime>;
  readonly model: ScriptedModel;
  readonly traces: readonly CustomTrace[];
  /** What `echo` was called with, in order. */
  readonly ran: readonly string[];
}

/** Opens a session "s" whose model follows a script and whose host has the tool `echo`. */
export async function scene({ script = [], ...options }: SceneOptions = {}): Promise<Scene> {
  const model = scriptedModel(script as readonly ScriptStep[]);
  const traces: CustomTrace[] = [];
  const ran: string[] = [];
  const runtime = createRuntime({
    model,
    tools: [echoTool((text) => ran.push(text))],
    trace: customTraces(traces),
    ...options,
  });
  onTestFinished(() => runtime.close());
  return { runtime, session: await runtime.session("s"), model, traces, ran };
}

export function echoTool(ran: (text: string) => void): ReturnType<typeof defineTool> {
  return defineTool({
    name: "echo",
    description: "Says what it is told.",
    input: z.object({ text: z.string() }),
    execute: ({ text }) => {
      ran(text);
      return `echo: ${text}`;
    },
  });
}

/** A plugin without options. */
export function plugin(id: string, parts: PluginParts | ((ctx: BuildContext) => PluginParts)): Plugin {
  return definePlugin({ id, build: (ctx) => (typeof parts === "function" ? parts(ctx) : parts) })();
}

/** A handler of any hook, as a test writes it. */
export type AnyHandler = () => never;

/** The parts of a plugin with one handler for one hook. */
export const PARTS_WITH: { readonly [K in HookName]: (handler: AnyHandler) => PluginParts } = {
  "prompt.contribute": (prompt) => ({ prompt }),
  "tool_catalog.contribute": (toolCatalog) => ({ toolCatalog }),
  "turn.before": (before) => ({ turn: { before } }),
  "turn.after": (after) => ({ turn: { after } }),
  "turn.checkpoint": (checkpoint) => ({ turn: { checkpoint } }),
  "tool_calls.before": (before) => ({ toolCalls: { before } }),
  "tool_calls.after": (after) => ({ toolCalls: { after } }),
  "approval.request": (request) => ({ approval: { request } }),
  "input.before": (before) => ({ input: { before } }),
  "model.request": (request) => ({ model: { request } }),
  "model.error": (error) => ({ model: { error } }),
  "output.stream": (stream) => ({ output: { stream } }),
  "output.response": (response) => ({ output: { response } }),
  "output.stream_finished": (streamFinished) => ({ output: { streamFinished } }),
  "session.mutate_config": (mutateConfig) => ({ session: { mutateConfig } }),
  "session.on_event": (onEvent) => ({ session: { onEvent } }),
  "context.prepare_turn": (transform) => ({ context: { prepareTurn: { transform } } }),
  "context.compact": (compact) => ({ context: { compact: { compact } } }),
  "recovery.decide": (decide) => ({ recovery: { decide } }),
};

type BuildContext = Parameters<Parameters<typeof definePlugin>[0]["build"]>[0];

export interface Played {
  readonly report: TurnReport;
  readonly events: readonly TurnEvent[];
}

/** Runs a turn to its end and keeps what its watchers saw. */
export async function play(session: Session, input = "Hi", options: TurnOptions = {}): Promise<Played> {
  const turn = session.turn(input, options);
  const events: TurnEvent[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event);
  })();
  const report = await turn.result;
  await watching;
  return { report, events };
}

/** Who said what, one line for each message of the current frame. */
export function transcript(session: Session): readonly string[] {
  return session.read().messages.map(({ role, parts }) => `${role}: ${parts.map(words).join(" ")}`);
}

function words(part: MessagePart): string {
  if (part.kind === "tool_call") return `call ${part.name}`;
  if (part.kind === "tool_result") return `result ${part.text}`;
  return "text" in part ? part.text : part.kind;
}

/** What the model was shown of the calls of a request. */
export function resultsIn(
  request: { readonly messages: readonly { readonly parts: readonly MessagePart[] }[] } | undefined,
): readonly ToolResultPart[] {
  return (request?.messages ?? [])
    .flatMap(({ parts }) => parts)
    .filter((part) => part.kind === "tool_result");
}

/** The outcome of a call as code and message, or as its value. */
export function outcomeOf(report: TurnReport, index = 0): Json {
  const outcome = report.toolCalls[index]?.output.outcome;
  if (outcome === undefined) return "no such call";
  if (outcome.kind === "success") return { value: outcome.value } as Json;
  return outcome.kind === "failure"
    ? { code: outcome.code, message: outcome.message }
    : { cancelled: outcome.message };
}

/** The events of plugins, as `plugin: name`. */
export function pluginEvents(events: readonly TurnEvent[]): readonly string[] {
  return events.flatMap((event) => {
    if (event.kind !== "plugin_event") return [];
    return [`${event.pluginId}: ${event.event.kind === "custom" ? event.event.name : event.event.label}`];
  });
}

export function custom(name: string): {
  readonly kind: "custom";
  readonly name: string;
  readonly payload: null;
} {
  return { kind: "custom", name, payload: null };
}

export interface WatchedStoreOptions {
  readonly isDurable?: boolean;
  beforeCommit?(commit: SessionCommit): void;
  onCommit?(commit: SessionCommit): void;
}

/** A store in memory that tells of what it has committed, and may say that it is durable. */
export function watchedStore(options: WatchedStoreOptions = {}): Store {
  const commit: Store["commit"] = async (change) => {
    options.beforeCommit?.(change);
    const result = await store.commit(change);
    options.onCommit?.(change);
    return result;
  };
  const store = memoryStore();
  const own: Partial<Store> = { isDurable: options.isDurable ?? false, commit };
  return new Proxy(store, {
    get: (_target, name) => {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name);
      const member: unknown = Reflect.get(store, name);
      return typeof member === "function" ? member.bind(store) : member;
    },
  });
}

/** Lets time pass, whenever something waits for it, until the promise settles. */
export async function passTime<T>(clock: TestClock, until: Promise<T>): Promise<T> {
  let isSettled = false;
  const done = (): void => {
    isSettled = true;
  };
  until.then(done, done);
  while (!isSettled) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!isSettled && clock.pending > 0) clock.advance(1_000);
  }
  return until;
}

export function never(): Promise<never> {
  return new Promise(() => {});
}
