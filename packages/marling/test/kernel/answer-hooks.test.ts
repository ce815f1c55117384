// Hooks of a finished answer, and processes that die in them: kernel/answer-hooks.ts.

import { definePlugin, type Plugin, type PluginParts, type Store, type TurnEvent } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, failWith, ManualClock, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { versionOf } from "../../src/model/outcome-version.ts";
import { query } from "../store/sqlite-support.ts";
import { BACKINGS, database, live, mortal, quickTool, type Script } from "./durable-support.ts";
import { textsOf, watch } from "./model-support.ts";

type Where = "response" | "streamFinished" | "proseProjector";

const USAGE = { input: 5, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

/** A plugin whose output hooks count in durable state, tell events, and stop where a test wants them to. */
function hooked(
  at: (where: Where) => Promise<void> | void = () => undefined,
  more: PluginParts = {},
): Plugin {
  return definePlugin({
    id: "hooked",
    build(ctx) {
      const seen = ctx.durable({ version: 1, initial: (): string[] => [] });
      const see = (what: string): void => seen.update((before) => [...before, what]);
      return {
        output: {
          stream: ({ chunk }) => {
            see(`stream ${chunk}`);
            return { chunk: chunk.toUpperCase() };
          },
          response: async ({ response }) => {
            see("response");
            await at("response");
            const parts = response.parts.map((part) =>
              part.kind === "text" ? { ...part, text: `${part.text}!` } : part,
            );
            const events = [{ kind: "custom", name: "seen", payload: null } as const];
            return { response: { ...response, parts }, events };
          },
          streamFinished: async ({ reason }) => {
            see(`finished ${reason}`);
            await at("streamFinished");
          },
        },
        operations: { queries: { seen: { handler: () => seen.get() } } },
        ...more,
      };
    },
  })();
}

/** Runs a turn until it dies in a hook, and then again in another process. */
async function cutIn(
  where: Where,
  script: Script,
  plugin: (at?: (where: Where) => Promise<void> | void) => Plugin = hooked,
) {
  const path = database();
  let reached = (): void => undefined;
  const isThere = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const stop = (at: Where): Promise<void> | void => {
    if (at !== where) return;
    reached();
    return new Promise<void>(() => undefined);
  };
  const first = await mortal({ store: sqliteStore({ path }), script, plugins: [plugin(stop)] });
  const turn = first.session.turn("go", { key: "k" });
  turn.result.catch(() => undefined);
  await isThere;
  await first.die();
  const rows = await query(path, "SELECT entry FROM journal");
  const second = await live({
    store: sqliteStore({ path }),
    script: () => say("bought twice"),
    plugins: [plugin()],
  });
  const watched = await watch(second.session.turn("go", { key: "k" }));
  return { first, second, rows, ...watched };
}

const plain = (events: readonly TurnEvent[]) =>
  events.flatMap((event) =>
    event.kind === "model_call"
      ? [event.phase]
      : event.kind === "text_delta" || event.kind === "reasoning_delta"
        ? [`${event.kind} ${event.text}`]
        : event.kind === "attempt_reset" || event.kind === "plugin_event"
          ? [event.kind]
          : [],
  );

describe.each(["response", "streamFinished"] as const)("a process that dies in output.%s", (where) => {
  test("[AH1] has its answer recorded: the hooks run on it again, and the model is not asked", async () => {
    const { first, second, report } = await cutIn(where, [say("hello", { usage: USAGE })]);
    expect([first.model.requests.length, second.model.requests.length]).toEqual([1, 0]);
    expect(report).toMatchObject({ text: "HELLO!", usage: USAGE });
    expect(report.modelCalls).toHaveLength(1);
    expect(await second.session.query("seen", {})).toEqual(["stream hello", "response", "finished complete"]);
    expect(second.session.usage().entries).toEqual([{ source: "turn", model: "default", usage: USAGE }]);
  });

  test("[AH2] settles what it showed by attempt_reset, and shows the result of the hooks", async () => {
    const { events } = await cutIn(where, [say("hello", { reasoning: "Hm." })]);
    expect(plain(events)).toEqual([
      "started",
      "attempt_reset",
      "plugin_event",
      "reasoning_delta Hm.",
      "text_delta HELLO!",
      "finished",
    ]);
  });

  test("[OV1] leaves a record that no release before version 3 takes without its hooks", async () => {
    const { rows } = await cutIn(where, [say("hello")]);
    const [[, ...steps]] = rows.map(({ entry }) => JSON.parse(String(entry)));
    expect(steps.map(([key, status]: string[]) => [key, status])).toEqual([["0.model_call", "done"]]);
    expect(steps.map((step: never[]) => versionOf(step[2]))).toEqual([3]);
  });
});

test("[AH1] a failed call is recorded before its stream-finished hooks run", async () => {
  const failure = { kind: "auth", message: "no key", retryable: false } as const;
  const { second, report } = await cutIn("streamFinished", [failWith(failure)]);
  expect(second.model.requests).toHaveLength(0);
  expect(report.outcome).toMatchObject({ kind: "stopped" });
  expect(report.modelCalls).toMatchObject([{ outcome: "failed", code: "auth" }]);
  expect(await second.session.query("seen", {})).toEqual(["finished provider_error"]);
});

test("[AH1] an answer that was not streamed is recorded before the prose projector sees it", async () => {
  const path = database();
  const reached: string[] = [];
  const projecting = (isDeadly: boolean) =>
    definePlugin({
      id: "projecting",
      build: () => ({
        output: {
          proseProjector: (text) => {
            reached.push(text);
            if (isDeadly) throw new Error("the process ends here");
            return text.toUpperCase();
          },
        },
      }),
    })();
  const store: Store = sqliteStore({ path });
  const kept: unknown[] = [];
  const { session, runtime } = await live({
    store,
    script: [say("hello", { chunks: [] })],
    plugins: [projecting(true)],
    around: (method, call) => {
      if (method === "commit" && reached.length > 0) kept.push("commit");
      if (method === "journal.append") kept.push("journal");
      return call();
    },
  });
  await session.turn("go").result;
  expect(kept).toEqual(["journal", "commit"]);
  await runtime.close();
});

test.each(BACKINGS)(
  "[AH1] $name: tool rounds and their hooks come to the same, recorded or not",
  async ({ open }) => {
    const script = [callTool("look", {}, { text: "let me" }), say("done")];
    const { session } = await live({
      store: open()(),
      script,
      tools: [quickTool("look")],
      plugins: [hooked()],
    });
    const { events, report } = await watch(session.turn("go"));
    expect(report.text).toBe("DONE!");
    expect(textsOf(events)).toEqual(["LET ME", "!", "DONE", "!"]);
    expect(await session.query("seen", {})).toEqual([
      "stream let me",
      "response",
      "finished complete",
      "stream done",
      "response",
      "finished complete",
    ]);
  },
);

test.each(BACKINGS)(
  "[AH3] $name: response hooks that fail keep the usage of the answer",
  async ({ open }) => {
    const plugin = hooked((where) => {
      if (where === "response") throw new Error("broken");
    });
    const clock = new ManualClock();
    const { session } = await live({
      store: open()(),
      script: [say("hello", { usage: USAGE })],
      plugins: [plugin],
      clock,
    });
    const { outcome, modelCalls, usage } = await session.turn("go").result;
    expect(outcome).toMatchObject({ kind: "stopped", code: "hook_failed" });
    expect(modelCalls).toMatchObject([{ outcome: "failed", code: "hook_failed", usage: USAGE }]);
    expect(usage).toMatchObject(USAGE);
  },
);

test("[AH4] with recordsRaw false nothing is written before the hooks have seen the answer", async () => {
  const appends: string[] = [];
  const hiding = definePlugin({
    id: "hiding",
    build: () => ({
      output: {
        recordsRaw: false,
        response: ({ response }) => {
          appends.push("response");
          return { response: { ...response, parts: [{ kind: "text", text: "hidden" }] } };
        },
      },
    }),
  });
  const { session } = await live({
    store: sqliteStore({ path: database() }),
    script: [callTool("look", {}, { text: "secret" }), say("secret")],
    tools: [quickTool("look")],
    plugins: [hiding()],
    around: (method, call) => {
      if (method === "journal.append" || method === "commit") appends.push(method);
      return call();
    },
  });
  appends.length = 0;
  expect((await session.turn("go").result).text).toBe("hidden");
  expect(appends).toEqual(["response", "commit"]);
});
