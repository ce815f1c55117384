// Writes that the store refuses: nothing that a turn, a command or a task has finished is lost to one (E9).
// A refusal is an `io_failed` before the write is made, or after it, when only its answer is lost.

import {
  attachment,
  type Clock,
  definePlugin,
  defineTool,
  directive,
  type MarlingError,
  type Runtime,
  type Session,
  type TaskSpec,
} from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, ManualClock, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { MarlingError as Failure } from "../../src/base/errors.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import {
  database,
  type LifeOptions,
  movingTool,
  type Script,
  unattended,
  userTexts,
} from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { counter } from "./leases-support.ts";
import { hostTool } from "./services-support.ts";

type When = "before" | "after";

const READS = new Set([
  "load",
  "revision",
  "find",
  "pending",
  "unsettled",
  "workable",
  "resumable",
  "changes",
  "list",
  "exists",
  "blobs.get",
  "journal.read",
  "waits.read",
  "triggers.due",
  "triggers.nextDue",
  "triggers.pending",
  "triggers.list",
  "triggers.get",
  "close",
]);

/** Refuses writes: those from the number `from` on, `count` of them. */
function refusing(
  from: number,
  count: number,
  when: When,
): { readonly around: CallStore; readonly made: string[] } {
  const made: string[] = [];
  const around: CallStore = async (method, call) => {
    if (READS.has(method)) return call();
    made.push(method);
    const isRefused = made.length >= from && made.length < from + count;
    if (isRefused && when === "before") throw refusal(method);
    const answer = await call();
    if (isRefused) throw refusal(method);
    return answer;
  };
  return { around, made };
}

function refusal(method: string): MarlingError {
  return new Failure("io_failed", `the store refused ${method}`);
}

/** A clock whose pauses are over at once, and count. */
class HastyClock extends ManualClock implements Clock {
  override async sleep(ms: number): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.advance(ms);
  }
}

/** Asks again, as a client does, as long as the answer is a fault of the store. */
async function insist<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (thrown) {
      if ((thrown as MarlingError).code !== "io_failed" || attempt === 20) throw thrown;
    }
  }
}

/** What finished in the world, by name. */
type Done = (what: string) => void;

interface Kind {
  /** Which refusals it is played with; by default both. A commit beside turns whose answer is lost is not recognised. */
  readonly when?: readonly When[];
  /**
   * What is compared with the undisturbed run: by default everything. A tool may be told of a refusal and fail; then it is
   * only looked at whether something was done twice.
   */
  readonly compares?: "all" | "repeats";
  /** Played only with writes that are tried again: a task is told when its step cannot be stored, and fails. */
  readonly isInsistent?: true;
  readonly options: (done: Done) => Omit<LifeOptions, "store">;
  /** What is done; by default one turn. */
  readonly run?: (session: Session, runtime: Runtime) => Promise<unknown>;
}

const work = (
  name: string,
  done: Done,
  replay: "safe" | "idempotent" | "unsafe",
  result: unknown = `${name} done`,
) =>
  defineTool({
    name,
    description: "Does something.",
    input: { type: "object" },
    replay,
    execute: () => {
      done(name);
      return result as string;
    },
  });

const results = ({ messages }: { readonly messages: readonly { readonly role: string }[] }): number =>
  messages.filter(({ role }) => role === "tool").length;

const once =
  (step: ReturnType<typeof callTool>): Script =>
  (request) =>
    results(request) === 0 ? step : say("done");

const tools = (done: Done) => [
  work("a", done, "safe"),
  work("b", done, "idempotent"),
  work("c", done, "unsafe"),
];

const TASK: TaskSpec = {
  id: "index",
  kind: "other",
  producer: "jobs",
  label: "index",
  durable: { recovery: "rerun" },
};

const KINDS: Readonly<Record<string, Kind>> = {
  text: { options: () => ({ script: () => say("done") }) },
  "tools side by side": {
    options: (done) => ({
      tools: tools(done),
      script: once(
        callTools([
          ["a", {}],
          ["b", {}],
          ["c", {}],
        ]),
      ),
    }),
  },
  "tools one by one": {
    options: (done) => ({
      tools: tools(done),
      script: (request) => {
        const name = ["a", "b", "c"][results(request)];
        return name === undefined ? say("done") : callTool(name);
      },
    }),
  },
  hooks: {
    options: (done) => ({
      tools: tools(done),
      script: once(callTool("c", {}, { text: "let me" })),
      plugins: [
        definePlugin({
          id: "hooked",
          build: (ctx) => {
            const count = ctx.durable({ version: 1, initial: () => 0 });
            const add = (): void => count.update((value) => value + 1);
            return {
              turn: { before: add, checkpoint: add, after: add },
              toolCalls: { before: add, after: add },
              output: { stream: add, response: add, streamFinished: add },
              session: { onEvent: () => undefined },
              operations: { queries: { count: { handler: () => count.get() } } },
            };
          },
        })(),
      ],
    }),
    run: async (session) => {
      const { text } = await insist(() => session.turn("go", { key: "k" }).result);
      return { text, count: await session.query("count", {}) };
    },
  },
  "a switch of frames": {
    options: (done) => ({
      tools: [...tools(done), movingTool()],
      script: (request) =>
        userTexts(request).at(-1) === "Go on there."
          ? say("done")
          : results(request) === 0
            ? callTool("c")
            : callTool("move"),
    }),
  },
  "bytes of a tool": {
    compares: "repeats",
    options: (done) => ({
      tools: [
        work(
          "picture",
          done,
          "safe",
          attachment({
            kind: "inline",
            mediaType: "image/png",
            base64: Buffer.from("bytes").toString("base64"),
          }),
        ),
      ],
      script: once(callTool("picture")),
    }),
  },
  "a turn of a child": {
    compares: "repeats",
    options: (done) => ({
      tools: [
        ...tools(done),
        hostTool("delegate", async (host) => {
          const { sessionId } = await host.createSession({ usageSource: "helper" });
          const { text } = await host.startTurn(sessionId, "task");
          return text as never;
        }),
      ],
      script: (request) => {
        if (results(request) > 0) return say("done");
        return callTool(userTexts(request).at(-1) === "task" ? "c" : "delegate");
      },
    }),
  },
  "a command and a compaction": {
    when: ["before"],
    options: () => ({ script: () => say("done"), plugins: [counter()] }),
    run: async (session) => {
      const { text } = await insist(() => session.turn("go", { key: "k" }).result);
      const added = await insist(() => session.command("counter.add", {}));
      await insist(() => session.compact());
      return { text, added: added.output, count: await session.query("counter.read", {}) };
    },
  },
  "steps of a durable task": {
    when: ["before"],
    isInsistent: true,
    options: (done) => ({
      script: once(callTool("begin")),
      plugins: [
        definePlugin({
          id: "jobs",
          build: () => ({
            background: {
              index: async ({ step }) => {
                await step("first", () => void done("first"));
                await step("second", () => void done("second"));
                done("end");
                return "indexed";
              },
            },
            tools: [
              hostTool("begin", async (host, _args, { sessionId }) => {
                await insist(() => host.spawnManagedTask(sessionId, TASK));
                return "begun" as never;
              }),
            ],
          }),
        })(),
      ],
    }),
    run: async (session) => {
      await insist(() => session.turn("go", { key: "k" }).result);
      const task = () => session.tasks.list().find(({ id }) => id === "index");
      await expect.poll(() => task()?.state, { timeout: 5_000 }).toBe("completed");
      return task()?.result;
    },
  },
  "a message of a hook": {
    options: (done) => ({
      tools: tools(done),
      script: once(callTool("c")),
      plugins: [
        definePlugin({
          id: "noting",
          build: () => ({
            toolCalls: { after: () => directive.enqueueMessages([{ role: "user", content: "note" }]) },
          }),
        })(),
      ],
    }),
  },
};

interface Outcome {
  readonly end: unknown;
  readonly transcript: readonly string[];
  readonly done: readonly string[];
  readonly asked: number;
  readonly usage: unknown;
  readonly left: readonly unknown[];
}

/** Does what a kind says on a store that refuses; the client asks again as long as it is told to. */
async function play(
  { options, run }: Kind,
  around: CallStore,
  { storeRetryMs }: { readonly storeRetryMs: number },
): Promise<Outcome> {
  const done: string[] = [];
  const clock = new HastyClock({ startsAt: 1_000_000 });
  const store = sqliteStore({ path: database() });
  const given = options((what) => done.push(what));
  const { runtime, model } = unattended({ ...given, store, around, clock, storeRetryMs });
  const session = await insist(() => runtime.session("s"));
  const end =
    run === undefined
      ? (await insist(() => session.turn("go", { key: "k" }).result)).text
      : await run(session, runtime);
  const left = await session.pending();
  const usage = session.usage().entries;
  await runtime.close();
  return { end, transcript: transcript(session), done, asked: model.requests.length, usage, left };
}

/** How long refused writes are tried again. */
const MODES = [
  ["while it is tried again", 60_000],
  ["when it is given up at once and asked for again", 0],
] as const;

const isEqual = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/** Whether a run came to an end and did nothing more often than another one. */
function isWithin({ end, done = [], asked, left }: Outcome, whole: Outcome): boolean {
  const times = (list: readonly string[], what: string): number => list.filter((one) => one === what).length;
  const isRepeated = done.some((what) => times(done, what) > times(whole.done, what));
  return end === whole.end && asked <= whole.asked && !isRepeated && isEqual(left, whole.left);
}

describe.each(Object.keys(KINDS))("%s", (name) => {
  const kind = KINDS[name] as Kind;

  test.each(kind.isInsistent === true ? MODES.slice(0, 1) : MODES)(
    "[E9] comes to the same end whichever writes are refused, %s",
    async (_name, storeRetryMs) => {
      const clean = refusing(0, 0, "before");
      const whole = await play(kind, clean.around, { storeRetryMs });
      expect(whole.left).toEqual([]);
      const found: unknown[] = [];
      for (const when of kind.when ?? (["before", "after"] as const))
        for (const count of [1, 3])
          for (let from = 1; from <= clean.made.length; from += 1) {
            const refused = refusing(from, count, when);
            const outcome = await play(kind, refused.around, { storeRetryMs }).catch(
              (thrown: unknown) => thrown,
            );
            const isSame =
              kind.compares === "repeats" ? isWithin(outcome as Outcome, whole) : isEqual(outcome, whole);
            if (!isSame) found.push({ when, count, from, method: refused.made[from - 1], outcome });
          }
      expect(found).toEqual([]);
    },
    120_000,
  );
});
