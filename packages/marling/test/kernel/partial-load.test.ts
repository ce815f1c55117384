// Sessions that are opened without the history before their current frame.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, definePlugin, type HistoryNode, type Runtime } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";

const compactor = definePlugin({
  id: "compactor",
  build: () => ({
    context: {
      compact: {
        compact: () => ({
          initialNodes: [{ kind: "message", message: { role: "user", content: "so far" } }],
        }),
      },
    },
  }),
});

function open(path: string): { readonly runtime: Runtime; readonly model: ReturnType<typeof scriptedModel> } {
  const model = scriptedModel([say("one"), say("two"), say("three")]);
  const runtime = createRuntime({ model, plugins: [compactor()], store: sqliteStore({ path }) });
  onTestFinished(() => runtime.close());
  return { runtime, model };
}

/** A file with a session of two turns, a compaction and a third turn. */
async function compacted(): Promise<{ readonly path: string; readonly history: readonly HistoryNode[] }> {
  const folder = mkdtempSync(join(tmpdir(), "marling-partial-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "agent.db");
  const { runtime } = open(path);
  const session = await runtime.session("s");
  await session.run("first");
  await session.run("second");
  await session.compact();
  await session.run("third");
  const history = await session.history();
  await runtime.close();
  return { path, history };
}

test("[ST41] a session that is opened again shows its model the current frame, and its host the whole history", async () => {
  const { path, history } = await compacted();
  const { runtime, model } = open(path);
  const session = await runtime.session("s");
  await session.run("fourth");
  expect(model.requests[0]?.messages.map(({ role }) => role)).toEqual(["user", "user", "assistant", "user"]);
  const now = await session.history();
  expect(now.slice(0, history.length)).toEqual(history);
  expect(now.map(({ generation }) => generation)).toEqual(now.map((_node, index) => index));
});

test("[ST41] appends and forks of a session that was opened again find nodes before its current frame", async () => {
  const { path, history } = await compacted();
  const { runtime } = open(path);
  const session = await runtime.session("s");
  const first = history.findLast(({ frameId }) => frameId === history[0]?.frameId);
  const message = { role: "user", content: "a note" } as const;
  const nodes = [{ kind: "message", message }] as const;
  expect(await session.appendNodes(nodes, { requiresAncestor: history[1]?.id ?? "" })).toMatchObject({
    status: "appended",
  });
  expect(await session.appendNodes(nodes, { requiresAncestor: "nowhere" })).toMatchObject({
    status: "stale_branch",
  });
  const fork = await runtime.sessions.fork("s", { as: "fork", at: first?.id ?? "" });
  expect((await fork.history()).length).toBe(5);
  expect(fork.read().messages.length).toBe(4);
});
