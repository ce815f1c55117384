// Inputs before they are accepted: hooks that look at them, and what a turn carries for plugins.

import { MarlingError, type Plugin, type Session } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { TurnContext } from "../../src/plugin/hook-context.ts";
import { play, plugin, scene, transcript, watchedStore } from "./hooks-support.ts";

async function rejection(promise: Promise<unknown>): Promise<MarlingError> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!MarlingError.is(thrown)) throw new Error(`expected a rejection, found ${String(thrown)}`);
  return thrown;
}

describe("input.before", () => {
  test("replaces an input; each hook sees what the one before made of it", async () => {
    const log: string[] = [];
    const adding = (id: string, word: string): Plugin =>
      plugin(id, {
        input: {
          before: ({ input, sessionId }) => {
            log.push(`${sessionId} ${id}: ${input.text}`);
            return { input: `${input.text} ${word}` };
          },
        },
      });
    const { session, model } = await scene({
      script: [say("Hello.")],
      plugins: [
        adding("a", "one"),
        plugin("quiet", { input: { before: () => undefined } }),
        adding("b", "two"),
      ],
    });
    await play(session);

    expect(log).toEqual(["s a: Hi", "s b: Hi one"]);
    expect(transcript(session)).toEqual(["user: Hi one two", "assistant: Hello."]);
    expect(JSON.stringify(model.requests[0]?.messages)).toContain("Hi one two");
  });

  test("a rejected input leaves nothing behind but the event", async () => {
    const events: unknown[] = [];
    const asked: string[] = [];
    const store = watchedStore();
    const { session, model } = await scene({
      store,
      script: [say("Hello.")],
      plugins: [
        plugin("gate", {
          input: {
            before: ({ input }) =>
              input.text === "spam" ? { reject: { code: "spam", message: "No spam." } } : undefined,
          },
        }),
        plugin("later", {
          input: { before: ({ input }) => void asked.push(input.text ?? "") as undefined },
          session: { onEvent: (event) => void events.push(event) },
        }),
      ],
    });
    events.length = 0;
    const before = session.read();
    const turn = session.turn("spam");
    const error = await rejection(turn.result);

    expect(error).toMatchObject({
      code: "input_rejected",
      advice: "fix",
      details: { code: "spam", pluginId: "gate" },
    });
    expect(error.message).toContain("No spam.");
    expect(await rejection(turn.accepted)).toBe(error);
    expect(asked).toEqual([]);
    expect(events).toEqual([{ kind: "input_rejected", sessionId: "s", code: "spam", message: "No spam." }]);
    expect(session.read()).toEqual(before);
    expect(await store.pending("s" as never)).toEqual([]);
    expect(model.requests).toEqual([]);

    const next = await play(session);
    expect(next.report.turnId).toBe("s:turn:1");
    expect(transcript(session)).toEqual(["user: Hi", "assistant: Hello."]);
  });

  test("the same key is compared with the input as it was submitted", async () => {
    const { session } = await scene({
      script: [say("Hello."), say("Never.")],
      plugins: [plugin("p", { input: { before: () => ({ input: "always the same" }) } })],
    });
    const first = await session.turn("Hi", { key: "k" }).result;
    const again = session.turn("Hi", { key: "k" });

    expect((await again.accepted).status).toBe("duplicate");
    expect(await again.result).toEqual(first);
    expect(await rejection(session.turn("Ho", { key: "k" }).result)).toMatchObject({
      code: "idempotency_conflict",
    });
    expect(transcript(session)).toEqual(["user: always the same", "assistant: Hello."]);
  });

  test("attachments in the place of a text are an input too, and a broken one is refused by name", async () => {
    const source = {
      kind: "external_url",
      mediaType: "image/png",
      url: "https://example.org/a.png",
    } as const;
    const { session } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("p", {
          input: {
            before: ({ input }) =>
              input.text === "picture"
                ? { input: { attachments: [source] } }
                : ({ input: { attachments: 7 } } as never),
          },
        }),
      ],
    });
    await play(session, "picture");
    expect(session.read().messages[0]?.parts).toEqual([{ kind: "attachment", source }]);
    expect((await rejection(session.turn("Hi").result)).message).toContain("attachments");
  });
});

describe("what a turn carries for plugins", () => {
  class Live {
    readonly name = "live";
  }
  const isLive = (value: unknown): value is Live => value instanceof Live;
  const isText = (value: unknown): value is string => typeof value === "string";

  async function seenBy(
    session: Session,
    seen: TurnContext[],
    pluginInputs: Record<string, unknown>,
  ): Promise<TurnContext> {
    await play(session, "Hi", { pluginInputs });
    return seen.at(-1) as TurnContext;
  }

  test("[K143] inputs are listed and told by their type; another type counts as none", async () => {
    const seen: TurnContext[] = [];
    const watching = plugin("p", {
      turn: { before: ({ turnContext }) => void seen.push(turnContext) as undefined },
    });
    const { session } = await scene({ script: [say("One."), say("Two.")], plugins: [watching] });
    const live = new Live();
    const context = await seenBy(session, seen, { p: live, other: "text" });

    expect(context.turnId).toBe("s:turn:1");
    expect(context.pluginIds).toEqual(["other", "p"]);
    expect(context.hasPluginInputs).toBe(true);
    expect(context.pluginInput("p")).toBe(live);
    expect(context.pluginInput("p", isLive)?.name).toBe("live");
    expect(context.pluginInput("p", isText)).toBeUndefined();
    expect(context.pluginInput("other", isText)).toBe("text");
    expect(context.pluginInput("toString")).toBeUndefined();

    const none = await seenBy(session, seen, {});
    expect(none.hasPluginInputs).toBe(false);
    expect(none.pluginIds).toEqual([]);
    expect(none.pluginInput("p", isLive)).toBeUndefined();
  });

  test("[K143] every hook that is given the turn sees them, and nothing of a live one is stored", async () => {
    const seen: string[] = [];
    const note =
      (hook: string) =>
      ({ turnContext }: { readonly turnContext: TurnContext }): undefined => {
        seen.push(`${hook} ${turnContext.pluginInput("p", isLive)?.name}`);
      };
    const { session } = await scene({
      script: [callTool("echo", { text: "one" }), say("Done.")],
      plugins: [
        plugin("p", {
          prompt: note("prompt"),
          turn: { before: note("before") },
          toolCalls: { before: note("call"), after: note("result") },
        }),
      ],
    });
    await play(session, "Hi", { pluginInputs: { p: new Live() } });

    expect(new Set(seen)).toEqual(new Set(["before live", "prompt live", "call live", "result live"]));
    expect(JSON.stringify([session.read(), await session.history()])).not.toContain("live");
  });

  test.each([
    ["an object with methods", { run: () => 1 }],
    ["a class instance", new Live()],
    ["a function", () => 1],
    ["a map", new Map([["a", 1]])],
    ["a bigint", 1n],
  ])("[K143] a durable store takes no live value: %s", async (_what, live) => {
    const store = watchedStore({ isDurable: true });
    const { session, model } = await scene({ store, script: [say("Hello.")] });
    const before = session.read();
    const error = await rejection(session.turn("Hi", { pluginInputs: { fine: { a: 1 }, p: live } }).result);

    expect(error).toMatchObject({ code: "live_plugin_input", advice: "fix", details: { pluginId: "p" } });
    expect(session.read()).toEqual(before);
    expect(await store.pending("s" as never)).toEqual([]);
    expect(model.requests).toEqual([]);
  });

  test("[K143] a durable store keeps JSON inputs with the input and hands them to hooks", async () => {
    const rows: unknown[] = [];
    const seen: unknown[] = [];
    const store = watchedStore({ isDurable: true });
    const watching = plugin("p", {
      turn: {
        before: async ({ turnContext }) => {
          rows.push(...(await store.pending("s" as never)));
          seen.push(turnContext.pluginInput("p"));
          return undefined;
        },
      },
    });
    const { session } = await scene({ store, script: [say("Hello.")], plugins: [watching] });
    await play(session, "Hi", { pluginInputs: { p: { mode: "brief", limits: [1, 2] } } });

    expect(seen).toEqual([{ mode: "brief", limits: [1, 2] }]);
    expect(rows).toMatchObject([{ input: { pluginInputs: { p: { mode: "brief", limits: [1, 2] } } } }]);
  });

  test("[K143] plugin inputs are part of what a key stands for", async () => {
    const { session } = await scene({ script: [say("Hello.")] });
    await session.turn("Hi", { key: "k", pluginInputs: { p: 1 } }).result;
    const other = session.turn("Hi", { key: "k", pluginInputs: { p: 2 } });

    expect(await rejection(other.result)).toMatchObject({ code: "idempotency_conflict" });
  });
});
