// A message id is in a session once, whatever landed while a frame was made. session/SPEC.md (G17, G18), compact.ts (KC).

import {
  type AppendNode,
  definePlugin,
  type HistoryNode,
  type Message,
  memoryStore,
  type Plugin,
  type PluginParts,
  type Session,
} from "marling";
import type { ContextCompactor } from "marling/plugin";
import { sqliteStore } from "marling/sqlite";
import { callTool, failWith, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { textIn } from "../stock/stock-support.ts";
import { BACKINGS, database, type Gate, gate, gatedTool, live } from "./durable-support.ts";
import { AHEAD, sharedFile } from "./leases-support.ts";

const note = (content: string, id?: string): AppendNode => ({
  kind: "message",
  message: { role: "user", content, ...(id === undefined ? {} : { id }) },
});

type Compact = ContextCompactor["compact"];

/** Compacts as it is told, and asks for a compaction when a call overflowed. */
function compacting(compact: Compact, parts: PluginParts = {}): Plugin {
  const error = () => ({ kind: "compact_and_retry" }) as const;
  return definePlugin({
    id: "compacting",
    build: () => ({ context: { compact: { compact } }, model: { error }, ...parts }),
  })();
}

/** Waits at a gate the first time, and then says how many messages it has seen. */
function gated(at: Gate): Plugin {
  return compacting(async ({ state }) => {
    if (at.visits === 0) await at.pass();
    return { initialNodes: [note(`${state.messageCount} before`)] };
  });
}

const messagesOf = (nodes: readonly HistoryNode[]): readonly Message[] =>
  nodes.flatMap((node) => (node.kind === "message" ? [node.message] : []));

async function expectUnique(session: Session): Promise<readonly Message[]> {
  const messages = messagesOf(await session.history());
  const ids = messages.map(({ id }) => id);
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
  return messages;
}

const shown = (session: Session): readonly string[] => session.read().messages.map(textIn);

describe.each(BACKINGS)("one runtime ($name)", ({ open }) => {
  test("[KC1] an append during a compaction is shown in the new frame, under an id of its own", async () => {
    const at = gate();
    const { session } = await live({ store: open()(), plugins: [gated(at)], script: () => say("ok") });
    await session.turn("one").result;
    const compacted = session.compact();
    await at.begun;
    await session.appendNodes([note("meanwhile"), note("and this", "given")]);
    at.open();
    expect(await compacted).toBe(true);
    expect(shown(session)).toEqual(["2 before", "meanwhile", "and this"]);
    const messages = await expectUnique(session);
    expect(messages.map(textIn).filter((text) => text === "meanwhile")).toHaveLength(2);
    const history = await session.history();
    const [original, copy] = history.filter(
      (node) => node.kind === "message" && textIn(node.message) === "meanwhile",
    );
    expect(copy?.causedBy).toEqual({ kind: "carried", nodeId: original?.id });
  });

  test("[KC1] an append during a turn that compacts is shown in the new frame", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      plugins: [compacting(({ state }) => ({ initialNodes: [note(`${state.messageCount} before`)] }))],
      tools: [gatedTool("work", at)],
      script: [say("ok"), callTool("work"), failWith({ kind: "context_overflow" }), say("done")],
    });
    await session.turn("one").result;
    const turn = session.turn("two");
    await at.begun;
    await session.appendNodes([note("meanwhile")]);
    at.open();
    expect((await turn.result).text).toBe("done");
    await expectUnique(session);
    expect(shown(session).slice(0, 3)).toEqual(["5 before", "meanwhile", "two"]);
    expect(session.read().frames).toHaveLength(2);
  });

  test("[G17] a compactor may keep messages as they are: they get ids of their own", async () => {
    const { session } = await live({
      store: open()(),
      plugins: [
        compacting(({ state }) => ({
          initialNodes: [
            note("summary", "summary"),
            ...state.tail(1).map((message): AppendNode => ({ kind: "message", message })),
          ],
        })),
      ],
      script: () => say("ok"),
    });
    for (const input of ["one", "two", "three"]) {
      await session.turn(input).result;
      expect(await session.compact()).toBe(true);
      expect(shown(session)).toEqual(["summary", "ok"]);
    }
    await expectUnique(session);
  });

  test("[G17] a message with an id that the frame shows is there already", async () => {
    const { session } = await live({ store: open()(), script: () => say("ok") });
    await session.appendNodes([note("first", "given")]);
    const again = await session.appendNodes([note("second", "given"), note("other")]);
    expect(again).toMatchObject({ status: "appended", nodeIds: [expect.any(String)] });
    await session.turn("one").result;
    expect(shown(session)).toEqual(["first", "other", "one", "ok"]);
    await expectUnique(session);
  });

  test("[G17] a hook may give its message the same id in every turn, and in every frame", async () => {
    const reminder = { role: "user", content: "be kind", id: "reminder" } as const;
    const plugins = [
      compacting(() => ({ initialNodes: [note("summary")] }), {
        turn: { before: () => ({ kind: "enqueue_messages", messages: [reminder] }) },
      }),
    ];
    const { session } = await live({ store: open()(), plugins, script: () => say("ok") });
    await session.turn("one").result;
    await session.turn("two").result;
    await session.compact();
    await session.turn("three").result;
    expect(shown(session)).toEqual(["summary", "three", "be kind", "ok"]);
    await expectUnique(session);
  });
});

describe("two runtimes on one file", () => {
  test("[KC2] turns of the other one wait for a compaction, which is made once", async () => {
    const open = sharedFile();
    const at = gate();
    const here = await open({ plugins: [gated(at)], script: () => say("here") });
    const other = await open({ plugins: [gated(gate())], script: () => say("there") });
    await here.session.turn("one").result;
    const compacted = here.session.compact();
    await at.begun;
    const turns = ["two", "three"].map((text) => other.session.turn(text));
    await Promise.all(turns.map(({ accepted }) => accepted));
    await here.session.appendNodes([note("meanwhile")]);
    at.open();
    expect(await compacted).toBe(true);
    await Promise.all(turns.map(({ result }) => result));
    expect(shown(other.session)).toEqual(["2 before", "meanwhile", "two", "there", "three", "there"]);
    expect(at.visits).toBe(1);
    await expectUnique(other.session);
  });

  test("[KC2] a compaction waits for the turn of the other one, and sees it", async () => {
    const path = database();
    const at = gate();
    const tools = [gatedTool("work", at)];
    const plugins = () => [
      compacting(({ state }) => ({ initialNodes: [note(`${state.messageCount} before`)] })),
    ];
    const other = await live({
      store: sqliteStore({ path }),
      plugins: plugins(),
      tools,
      script: [callTool("work"), say("done")],
    });
    const here = await live({ store: sqliteStore({ path }), plugins: plugins(), tools });
    const turn = other.session.turn("go");
    await at.begun;
    const compacted = here.session.compact();
    at.open();
    await turn.result;
    expect(await compacted).toBe(true);
    expect(shown(here.session)).toEqual(["4 before"]);
  });

  test("[KC3] a compaction whose lease was lost is made again on what the others committed", async () => {
    const open = sharedFile();
    const at = gate();
    const here = await open({ plugins: [gated(at)], script: () => say("here") });
    await here.session.turn("one").result;
    const compacted = here.session.compact();
    await at.begun;
    const other = await open({ clock: AHEAD, plugins: [gated(gate())], script: () => say("there") });
    await other.session.turn("two").result;
    await other.session.turn("three").result;
    at.open();
    expect(await compacted).toBe(true);
    expect(shown(here.session)).toEqual(["6 before"]);
    const messages = await expectUnique(here.session);
    expect(messages.map(textIn)).toEqual(["one", "here", "two", "there", "three", "there", "6 before"]);
  });

  test("[KC3] a compaction that others keep overtaking is refused, and can be asked for again", async () => {
    const open = sharedFile();
    const other = await open({ clock: AHEAD, plugins: [gated(gate())], script: () => say("there") });
    let isOvertaken = true;
    let asked = 0;
    const here = await open({
      plugins: [
        compacting(async () => {
          asked += 1;
          if (isOvertaken) await other.session.turn(`turn ${asked}`).result;
          return { initialNodes: [note("summary")] };
        }),
      ],
      script: () => say("here"),
    });
    await expect(here.session.compact()).rejects.toMatchObject({
      code: "revision_conflict",
      advice: "reload",
    });
    expect(asked).toBe(3);
    expect(here.session.read().frames).toHaveLength(1);
    isOvertaken = false;
    expect(await here.session.compact()).toBe(true);
    await expectUnique(here.session);
  });
});

test("[KC1] on a store that two runtimes share in memory, nothing is repeated either", async () => {
  const store = memoryStore();
  const at = gate();
  const here = await live({ store, plugins: [gated(at)], script: () => say("here") });
  await here.session.turn("one").result;
  const other = await live({ store, plugins: [gated(gate())], script: () => say("there") });
  const compacted = here.session.compact();
  await at.begun;
  await other.session.turn("two").result;
  at.open();
  await expect(compacted).rejects.toMatchObject({ code: "revision_conflict" });
  await expectUnique(other.session);
});
