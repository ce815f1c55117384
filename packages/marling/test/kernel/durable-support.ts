// Stores that several runtimes share, runtimes that die, and tools and models that stop where a test wants them to.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createRuntime,
  defineTool,
  type JsonObject,
  type Message,
  type ModelRequest,
  memoryStore,
  type ReplayPolicy,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type Store,
  switchFrame,
} from "marling";
import { sqliteStore } from "marling/sqlite";
import { type ScriptedModel, type ScriptFunction, type ScriptStep, scriptedModel } from "marling/testing";
import { onTestFinished } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import { type CallStore, wrappedStore } from "../../src/testing/faulty-store.ts";

/** A place to keep sessions in; each call opens it once more. */
export interface Backing {
  readonly name: string;
  open(): () => Store;
}

/** What behaves the same wherever sessions are kept runs over each of these. */
export const BACKINGS: readonly Backing[] = [
  {
    name: "memory",
    open: () => {
      const store = memoryStore();
      return () => store;
    },
  },
  {
    name: "sqlite",
    open: () => {
      const path = database();
      return () => sqliteStore({ path });
    },
  },
];

/** A database file in a folder that is gone after the test. */
export function database(): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-durable-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "agent.db");
}

export type Script = readonly (ScriptStep | ScriptFunction)[] | ScriptFunction;

export interface LifeOptions extends Omit<RuntimeOptions, "model" | "store"> {
  readonly store: Store;
  readonly script?: Script;
  /** In the place of a scripted model. */
  readonly model?: RuntimeOptions["model"];
  /** Around every call of the store. */
  readonly around?: CallStore;
}

export interface Life {
  readonly runtime: Runtime;
  readonly model: ScriptedModel;
  /** The session "s". */
  readonly session: Session;
}

/** A runtime that lives as long as its test. */
export async function live(options: LifeOptions): Promise<Life> {
  const { runtime, model } = begin(options);
  onTestFinished(() => runtime.close());
  return { runtime, model, session: await runtime.session("s") };
}

/** A runtime whose session "s" nobody opens: all it does, it does by itself. */
export function unattended(options: LifeOptions): Omit<Life, "session"> {
  const { runtime, model } = begin(options);
  onTestFinished(() => runtime.close());
  return { runtime, model };
}

export interface MortalLife extends Life {
  /** Ends it as a crash would: nothing it does from now on reaches the store, and its locks are let go. */
  die(): Promise<void>;
}

export async function mortal(options: LifeOptions): Promise<MortalLife> {
  const { store, around = (_method, call) => call() } = options;
  let isDead = false;
  const unlessDead: CallStore = async (method, call) => {
    if (isDead) return never();
    const answer = await around(method, call);
    return isDead ? never() : answer;
  };
  const { runtime, model } = begin({ ...options, around: unlessDead });
  const session = await runtime.session("s");
  const die = async (): Promise<void> => {
    isDead = true;
    await store.close();
  };
  return { runtime, model, session, die };
}

function begin({ store, around, script = [], model: given, ...options }: LifeOptions): {
  readonly runtime: Runtime;
  readonly model: ScriptedModel;
} {
  const model = scriptedModel(script);
  const used = around === undefined ? store : wrappedStore(store, around);
  return { runtime: createRuntime({ model: given ?? model, store: used, ...options }), model };
}

/** Something that begins, and then waits until it is let go. */
export interface Gate {
  readonly begun: Promise<void>;
  /** How often it was come to. */
  readonly visits: number;
  pass(): Promise<void>;
  open(): void;
}

export function gate(): Gate {
  const [begun, opened]: [Deferred<void>, Deferred<void>] = [deferred<void>(), deferred<void>()];
  let visits = 0;
  return {
    begun: begun.promise,
    get visits() {
      return visits;
    },
    pass: () => {
      visits += 1;
      begun.resolve();
      return opened.promise;
    },
    open: () => opened.resolve(),
  };
}

export type Tool = ReturnType<typeof defineTool<JsonObject, undefined>>;

/** A tool that answers at once. */
export function quickTool(
  name: string,
  { ran = [], replay = "safe" }: { readonly ran?: string[]; readonly replay?: ReplayPolicy } = {},
): Tool {
  return defineTool({
    name,
    description: "Answers.",
    input: { type: "object" },
    replay,
    execute: () => {
      ran.push(name);
      return `${name} done`;
    },
  });
}

/** A tool that waits at a gate; it ends early when its call is cancelled. */
export function gatedTool(
  name: string,
  at: Gate,
  { isDeaf = false, replay = "safe" }: { readonly isDeaf?: boolean; readonly replay?: ReplayPolicy } = {},
): Tool {
  return defineTool({
    name,
    description: "Waits.",
    input: { type: "object" },
    replay,
    execute: async (_input, { signal }) => {
      const cancelled = new Promise<never>((_resolve, reject) => {
        if (!isDeaf) signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
      await Promise.race([at.pass(), cancelled]);
      return `${name} done`;
    },
  });
}

/** A tool that goes on in another frame. */
export function movingTool(): Tool {
  return defineTool({
    name: "move",
    description: "Switches frames.",
    input: { type: "object" },
    execute: () => switchFrame({ key: "next", task: "Go on there." }),
  });
}

/** A step of a script that waits at a gate before it answers. */
export function gatedStep(at: Gate, step: ScriptStep): ScriptFunction {
  return async () => {
    await at.pass();
    return step;
  };
}

/** What the user said, as a request shows it. */
export function userTexts(request: ModelRequest | undefined): readonly string[] {
  return (request?.messages ?? []).flatMap(({ role, parts }) =>
    role === "user" ? parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])) : [],
  );
}

/** The calls in a history that have no result, or more than one. */
export function unevenCalls(messages: readonly Pick<Message, "parts">[]): readonly string[] {
  const parts = messages.flatMap((message) => message.parts);
  return parts.flatMap((part) => {
    if (part.kind !== "tool_call") return [];
    const results = parts.filter((other) => other.kind === "tool_result" && other.callId === part.callId);
    return results.length === 1 ? [] : [`${part.callId}: ${results.length} results`];
  });
}

export function never(): Promise<never> {
  return new Promise(() => {});
}
