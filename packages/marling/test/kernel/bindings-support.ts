// A session that needs a plugin, a model and a tool, and runtimes that lack one of them.

import {
  createRuntime,
  defineTool,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type Store,
} from "marling";
import { approvals } from "marling/plugins";
import { callTool, say, scriptedModel } from "marling/testing";
import { onTestFinished, vi } from "vitest";
import { z } from "zod";
import { type CallStore, wrappedStore } from "../../src/testing/faulty-store.ts";
import { type Gate, gate, never } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { MAIL, mail } from "./triggers-support.ts";

export type Needed = "approvals" | "model" | "tools";

/** What a runtime may lack, and how the error names it. */
export const NEEDED: readonly (readonly [Needed, string])[] = [
  ["approvals", "plugin approvals"],
  ["model", "model careful"],
  ["tools", "tool source host_tools"],
];

/** What happened outside, in all runtimes of a test. */
export interface World {
  readonly refunds: string[];
  /** Which models were asked. */
  readonly asked: string[];
  /** Operations and tasks of the desk plugin that ran. */
  readonly worked: string[];
}

export function newWorld(): World {
  return { refunds: [], asked: [], worked: [] };
}

/** The options of a runtime that has everything but what is left out. */
export function having(world: World, without?: Needed, at?: Gate): Omit<RuntimeOptions, "store"> {
  const careful = scriptedModel(async ({ messages }) => {
    world.asked.push("careful");
    await at?.pass();
    const isAnswered = messages.some(({ parts }) => parts.some(({ kind }) => kind === "tool_result"));
    return isAnswered ? say("refunded") : callTool("refund", { order: "o1" });
  });
  const other = scriptedModel(() => {
    world.asked.push("default");
    return say("by the wrong model");
  });
  return {
    model: other,
    models: without === "model" ? {} : { careful },
    plugins: [
      mail,
      desk(world),
      ...(without === "approvals" ? [] : [approvals({ rules: { refund: "ask" } })]),
    ],
    tools: without === "tools" ? [] : [refund(world)],
  };
}

function refund({ refunds }: World) {
  return defineTool({
    name: "refund",
    description: "Pays money back.",
    input: z.object({ order: z.string() }),
    execute: ({ order }) => {
      refunds.push(order);
      return "paid back";
    },
  });
}

/** A plugin that every runtime has, with something to do of each kind beside turns. */
function desk({ worked }: World) {
  const ran = (what: string) => () => {
    worked.push(what);
    return { output: null, events: [{ name: what, payload: null }] };
  };
  return plugin("desk", {
    operations: {
      queries: { "desk.count": { handler: () => worked.push("query") } },
      commands: { "desk.note": { handler: ran("command") } },
      tasks: { "desk.file": { handler: ran("task") } },
    },
    context: {
      compact: [
        {
          compact: async () => {
            worked.push("compact");
            return { initialNodes: [{ kind: "message", message: { role: "user", content: "short" } }] };
          },
        },
      ],
    },
  } as never);
}

export interface Running {
  readonly runtime: Runtime;
  /** Ends it as a crash would. */
  die(): Promise<void>;
}

/** A runtime on a store, closed after the test. */
export function running(store: Store, options: Omit<RuntimeOptions, "store">): Running {
  let isDead = false;
  const unlessDead: CallStore = async (_method, call) => {
    if (isDead) return never();
    const answer = await call();
    return isDead ? never() : answer;
  };
  const runtime = createRuntime({ ...options, store: wrappedStore(store, unlessDead) });
  onTestFinished(() => (isDead ? undefined : runtime.close()));
  return {
    runtime,
    die: async () => {
      isDead = true;
      await store.close();
    },
  };
}

/** As `leaveCutTurn`, in a session that a runtime without something has made and still has open. */
export async function leaveBeside(
  open: () => Store,
  world: World,
  without: Needed,
): Promise<Running & { readonly session: Session }> {
  const beside = running(open(), having(world, without));
  const session = await beside.runtime.session("s");
  await beside.runtime.triggers.subscribe({ sessionId: "s", source: MAIL });
  await leaveCutTurn(open(), world);
  world.asked.length = 0;
  return { ...beside, session };
}

/** Leaves a turn of the session "s" that was cut during its model call. */
export async function leaveCutTurn(store: Store, world: World): Promise<void> {
  const at = gate();
  const first = running(store, having(world, undefined, at));
  const session = await first.runtime.session("s", { model: "careful" });
  session.turn("pay it back", { key: "k" });
  await at.begun;
  await first.die();
}

/** Everything of a session that driving it would change. Inputs behind the first one are left out: they may be accepted. */
export async function storedOf(store: Store, id = "s"): Promise<unknown> {
  const sessionId = id as never;
  const rows = (await store.pending(sessionId)).slice(0, 1);
  const journal = await Promise.all(rows.map(({ turnId }) => store.journal?.read(sessionId, turnId)));
  return { rows, journal, session: { ...(await store.load(sessionId)), inputs: undefined } };
}

/** Finishes the turn of the session "s" where everything is there: somebody is asked, and then it is paid back once. */
export async function finishCutTurn(store: Store, world: World): Promise<void> {
  const { runtime } = running(store, having(world));
  const session = await runtime.session("s");
  const turn = session.turn("pay it back", { key: "k" });
  const question = await vi.waitUntil(async () => (await runtime.approvals.list())[0], { timeout: 20_000 });
  if (world.refunds.length > 0) throw new Error("expected no refund before the decision, found one");
  await runtime.approvals.decide(question, { decision: "allow", actor: "test" });
  const report = await turn.result;
  if (report.text !== "refunded" || world.refunds.join() !== "o1")
    throw new Error(`expected one refund, found ${world.refunds.join()} and the answer ${report.text}`);
  await runtime.close();
}
