// A stage for tests of tools, operations and sessions: a runtime with a scripted model, watched and closed by itself.

import {
  createRuntime,
  definePlugin,
  type MarlingError,
  type Plugin,
  type PluginParts,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type ToolOutput,
  type Turn,
  type TurnEvent,
  type TurnReport,
} from "marling";
import { type ScriptedModel, type ScriptFunction, type ScriptStep, scriptedModel } from "marling/testing";
import { expect, onTestFinished } from "vitest";
import { ManualClock } from "../tool/manual-clock.ts";

export interface StageOptions extends Omit<RuntimeOptions, "model"> {
  readonly script?: readonly (ScriptStep | ScriptFunction)[] | ScriptFunction;
}

export interface Stage {
  readonly runtime: Runtime;
  readonly model: ScriptedModel;
  /** The session "s". */
  readonly session: Session;
}

export async function stage({ script = [], ...options }: StageOptions = {}): Promise<Stage> {
  const model = scriptedModel(script);
  const runtime = createRuntime({ model, ...options });
  onTestFinished(() => runtime.close());
  return { runtime, model, session: await runtime.session("s") };
}

type BuildContext = Parameters<Parameters<typeof definePlugin>[0]["build"]>[0];

/** A plugin without options. */
export function plugin(id: string, parts: PluginParts | ((ctx: BuildContext) => PluginParts)): Plugin {
  return definePlugin({ id, build: (ctx) => (typeof parts === "function" ? parts(ctx) : parts) })();
}

export interface Played {
  readonly report: TurnReport;
  readonly events: readonly TurnEvent[];
}

/** Watches a turn to its end. */
export async function play(turn: Turn): Promise<Played> {
  const events: TurnEvent[] = [];
  for await (const event of turn) events.push(event);
  return { report: await turn.result, events };
}

/** The outputs of all calls of a tool, nested ones included, in the order they finished. */
export function outputsOf({ events }: Played, name: string): readonly ToolOutput[] {
  return events.flatMap((event) =>
    event.kind === "tool_finished" && event.record.name === name ? [event.record.output] : [],
  );
}

export function successOf(output: ToolOutput | undefined): unknown {
  expect(output?.outcome.kind).toBe("success");
  return output?.outcome.kind === "success" ? output.outcome.value : undefined;
}

export function failureOf(output: ToolOutput | undefined): {
  readonly code: string;
  readonly message: string;
} {
  expect(output?.outcome.kind).toBe("failure");
  return output?.outcome.kind === "failure" ? output.outcome : { code: "", message: "" };
}

/** The texts of the results that the model was shown in its last request. */
export function shownResults(model: ScriptedModel): readonly string[] {
  const parts = model.requests.at(-1)?.messages.flatMap((message) => message.parts) ?? [];
  return parts.flatMap((part) => (part.kind === "tool_result" ? [part.text] : []));
}

/** What a promise was rejected with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<MarlingError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown as MarlingError,
  );
  if (error === undefined) throw new Error("expected a rejection, found a value");
  return error;
}

/** Time that moves when a test says so, from a moment that is not the beginning. */
export class TestClock extends ManualClock {
  constructor() {
    super({ startsAt: 1_000_000 });
  }
}

/** Waits for something that is on its way and needs no time. */
export async function until(condition: () => boolean, what = "it"): Promise<void> {
  for (let turn = 0; turn < 2_000; turn += 1) {
    if (condition()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`expected ${what} to happen, found that it does not`);
}
