// Runtimes on one file for the tests of turns that sleep: a tool whose result comes later, and models that answer from
// the conversation, so that any runtime can go on where another stopped.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createRuntime,
  defineTool,
  memoryStore,
  type PendingResult,
  type Runtime,
  type RuntimeOptions,
  type Schema,
  type Session,
  type ToolContext,
  type ToolDefinition,
} from "marling";
import { sqliteStore } from "marling/sqlite";
import {
  type ScriptedModel,
  type ScriptFunction,
  type ScriptStep,
  say,
  scriptedModel,
} from "marling/testing";
import { expect, onTestFinished, vi } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import type { Claim, Store } from "../../src/store/contract.ts";

// Runtimes notice each other by a poll, and on a busy machine that may take its time.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

/** The path of a database that is gone after the test. */
export function database(): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-parked-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "agent.db");
}

/** What is answered to each input, round by round; an input that is not named is answered by its own text. */
export type Answers = Readonly<Record<string, readonly (ScriptStep | Promise<ScriptStep>)[]>>;

export function answering(answers: Answers): ScriptFunction {
  return ({ messages }) => {
    const last = messages.findLastIndex(({ role }) => role === "user");
    const text =
      messages[last]?.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("") ?? "";
    const round = messages.slice(last).filter(({ role }) => role === "assistant").length;
    return answers[text]?.[round] ?? say(`Answer to ${text}.`);
  };
}

export interface Desk {
  readonly path: string;
  readonly store: Store;
  readonly runtime: Runtime;
  readonly model: ScriptedModel;
  /** The session "s". */
  readonly session: Session;
  /** Lets the file go as a crash does, with everything that is in memory left where it is. */
  crash(): Promise<void>;
}

export interface DeskOptions extends Omit<RuntimeOptions, "model" | "store"> {
  readonly answers?: Answers;
  readonly session?: string;
}

/** One more runtime on the file, closed after the test if it is not before. */
export async function desk(path: string, options: DeskOptions = {}): Promise<Desk> {
  const { answers = {}, session: id = "s", ...others } = options;
  const store = sqliteStore({ path });
  const model = scriptedModel(answering(answers));
  const runtime = createRuntime({ model, store, ...others });
  onTestFinished(() => runtime.close());
  return { path, store, runtime, model, session: await runtime.session(id), crash: () => store.close() };
}

/** As `desk`, on a store in memory, or on a file of its own: what is the same on every store is tried on each. */
export const DESKS: readonly {
  readonly name: string;
  open(options?: DeskOptions): Promise<Omit<Desk, "path" | "crash">>;
}[] = [
  {
    name: "memory",
    open: async ({ answers = {}, session: id = "s", ...others } = {}) => {
      const store = memoryStore();
      const model = scriptedModel(answering(answers));
      const runtime = createRuntime({ model, store, ...others });
      onTestFinished(() => runtime.close());
      return { store, runtime, model, session: await runtime.session(id) };
    },
  },
  { name: "sqlite", open: (options) => desk(database(), options) },
];

/** A runtime on the file that nobody asks for a session. */
export function worker(
  path: string,
  options: DeskOptions = {},
): { readonly runtime: Runtime; readonly model: ScriptedModel } {
  const { answers = {}, session: _none, ...others } = options;
  const model = scriptedModel(answering(answers));
  const runtime = createRuntime({ model, store: sqliteStore({ path }), ...others });
  onTestFinished(() => runtime.close());
  return { runtime, model };
}

export interface Asking {
  readonly tool: ToolDefinition;
  /** The keys that were taken, oldest first, in whichever runtime. */
  readonly keys: string[];
}

type AskingOptions = Parameters<ToolContext["pending"]>[0] & {
  readonly name?: string;
  readonly output?: Schema;
  readonly replay?: "safe" | "unsafe";
  /** Where the keys go, when several tools share them. */
  readonly keys?: string[];
};

/** A tool that takes its key and answers later. */
export function asking(options: AskingOptions = {}): Asking {
  const { name = "ask", output, replay, keys = [], ...pending } = options;
  const tool = defineTool({
    name,
    description: "Answers later.",
    input: { type: "object" },
    ...(output === undefined ? {} : { output }),
    ...(replay === undefined ? {} : { replay }),
    execute: async (_input: unknown, context: ToolContext): Promise<PendingResult> => {
      keys.push(await context.completionKey());
      return context.pending(pending);
    },
  });
  return { keys, tool: tool as ToolDefinition };
}

/** Waits for something that is on its way. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(condition, { timeout: 20_000, interval: 5 });
}

/** Resolves when the first turn of a session sleeps. */
export async function parked(session: Session): Promise<void> {
  await until(async () => (await session.pending())[0]?.status === "parked");
}

/** Asks for the lease of a session as somebody else, and lets it go again. */
export async function claimAsStranger(store: Store, { id = "s", now = Date.now() } = {}): Promise<Claim> {
  const sessionId = id as SessionId;
  const lease = { owner: "stranger", incarnation: "stranger-1", now, expiresAt: now + 60_000 };
  const claim = await store.claim(sessionId, lease);
  if (claim.kind === "claimed") await store.release({ sessionId, generation: claim.generation });
  return claim;
}

/** What the history says, one line for each message. */
export async function transcript(session: Session): Promise<readonly string[]> {
  const nodes = await session.history();
  return nodes.flatMap((node) => {
    if (node.kind !== "message") return [];
    const { role, parts } = node.message;
    return parts.map((part) => {
      if (part.kind === "tool_call") return `${role} calls ${part.name} ${part.callId}`;
      if (part.kind === "tool_result") return `${role} ${part.callId}: ${part.text}`;
      return part.kind === "text" || part.kind === "prose" ? `${role}: ${part.text}` : `${role} ${part.kind}`;
    });
  });
}

/** Every call in the history must have one result, and every result its call. */
export async function expectAnswered(session: Session): Promise<void> {
  const parts = (await session.history()).flatMap((node) =>
    node.kind === "message" ? node.message.parts : [],
  );
  const calls = parts.flatMap((part) => (part.kind === "tool_call" ? [part.callId] : []));
  const results = parts.flatMap((part) => (part.kind === "tool_result" ? [part.callId] : []));
  expect(results).toEqual(calls);
}

/** What a promise was rejected with. */
export async function rejectionOf(
  promise: Promise<unknown>,
): Promise<{ readonly code: string; readonly message: string }> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (thrown === undefined) throw new Error("expected a rejection, found a value");
  return thrown as { readonly code: string; readonly message: string };
}
