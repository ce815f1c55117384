// A turn that came to more than a commit may hold: C6.

import { readFileSync } from "node:fs";
import { createRuntime, definePlugin, defineTool, type Plugin, type ToolContext } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { database, live } from "./durable-support.ts";
import { counter, found } from "./leases-support.ts";
import { codeOf } from "./services-support.ts";

/** Keeps as much as it is told to. */
function hoarder(): Plugin {
  return definePlugin({
    id: "hoarder",
    build(ctx) {
      const kept = ctx.durable({ version: 1, initial: () => "" });
      return {
        turn: {
          before: ({ state }) => {
            const last = state.messages.at(-1)?.parts[0];
            const isMuch = last?.kind === "text" && last.text.includes("much");
            kept.set("k".repeat(isMuch ? 50_000 : 10));
          },
        },
        operations: {
          queries: { "hoarder.kept": { session: "required", handler: () => kept.get().length } },
        },
      };
    },
  })();
}

describe("a turn that came to more than a commit may hold", () => {
  const big = defineTool({
    name: "big",
    description: "Makes much.",
    input: { type: "object" },
    replay: "safe",
    execute: () => "y".repeat(50_000),
  });

  test.each([
    ["an answer", [say("z".repeat(50_000)), say("small")], []],
    ["a tool's result", [callTool("big"), say("short"), say("small")], [big]],
  ] as const)(
    "[C6] by %s is stopped with its input kept, and the session goes on",
    async (_name, script, tools) => {
      const path = database();
      const { session, runtime } = await live({
        store: sqliteStore({ path }),
        commitBudget: { bytes: 20_000 },
        script,
        tools,
        plugins: [counter()],
      });
      await session.command("counter.add");
      const report = await session.turn("go").result;
      expect(report.outcome).toMatchObject({
        kind: "stopped",
        reason: "runtime_error",
        code: "commit_too_large",
      });
      expect(report.issues).toMatchObject([{ kind: "runtime", code: "commit_too_large" }]);
      expect(JSON.stringify(report).length).toBeLessThan(20_000);
      expect(report.toolCalls.map(({ name }) => name)).toEqual(tools.map(({ name }) => name));
      expect(await session.pending()).toEqual([]);
      expect((await session.turn("next").result).text).toBe("small");
      expect(await session.query("counter.read")).toBe(1);
      await runtime.close();
      expect(await found(path)).toEqual(["user: go", "user: next", "assistant: small"]);
    },
  );

  test("[C6] by the state of a plugin is stopped, and the state is what it was", async () => {
    const { session } = await live({
      store: sqliteStore({ path: database() }),
      commitBudget: { bytes: 20_000 },
      script: () => say("fine"),
      plugins: [hoarder()],
    });
    expect((await session.turn("keep little").result).text).toBe("fine");
    expect((await session.turn("keep much").result).outcome).toMatchObject({ code: "commit_too_large" });
    expect(await session.query("hoarder.kept")).toBe(10);
    expect((await session.turn("keep little").result).text).toBe("fine");
  });

  test("[C6] is counted in bytes, not in characters, and what just fits is committed", async () => {
    const store = sqliteStore({ path: database() });
    const script = [say("é".repeat(9000)), say("e".repeat(9000))];
    const { session } = await live({ store, commitBudget: { bytes: 12_000 }, script });
    expect((await session.turn("two bytes each").result).outcome).toMatchObject({ code: "commit_too_large" });
    expect((await session.turn("one byte each").result).outcome).toMatchObject({ kind: "finished" });
  });

  test("[A4] by an input is refused before anything of it is stored, whoever brings the input", async () => {
    const path = database();
    const large = "é".repeat(6000);
    const inject = defineTool({
      name: "inject",
      description: "Injects a large input.",
      input: { type: "object" },
      execute: async (_input: unknown, ctx: ToolContext) => {
        const host = ctx.host as unknown as HostServices;
        return codeOf(host.injectTurnInput(ctx.sessionId, { message: { role: "user", content: large } }));
      },
    });
    const { session, runtime } = await live({
      store: sqliteStore({ path }),
      commitBudget: { bytes: 12_000 },
      script: [callTool("inject"), say("fine")],
      tools: [inject],
    });
    for (const key of [undefined, "large"])
      await expect(session.turn(large, key === undefined ? {} : { key }).result).rejects.toMatchObject({
        code: "commit_too_large",
        advice: "fix",
        details: { budgetBytes: 12_000 },
      });
    expect(await session.pending()).toEqual([]);
    const { toolCalls } = await session.turn("go").result;
    expect(toolCalls[0]?.output.outcome).toMatchObject({ value: "commit_too_large" });
    await runtime.close();
    expect(await found(path)).toHaveLength(4);
    expect(readFileSync(path).includes("éééééééé")).toBe(false);
  });

  test("[C6] has 16 MiB by default", async () => {
    const script = [say("a".repeat(15 * 1024 * 1024)), say("a".repeat(17 * 1024 * 1024))];
    const limits = { answerBytes: "unbounded" } as const; // The default of an answer is as large.
    const { session } = await live({ store: sqliteStore({ path: database() }), script, limits });
    expect((await session.turn("less").result).outcome.kind).toBe("finished");
    expect((await session.turn("more").result).outcome).toMatchObject({ code: "commit_too_large" });
  });

  test.each([{ bytes: 0 }, { bytes: -1 }, { bytes: "many" }, { kilobytes: 3 }, 7])(
    "the option commitBudget refuses %j",
    (commitBudget) => {
      const make = () => createRuntime({ commitBudget } as never);
      expect(make).toThrow("option commitBudget: expected { bytes? }");
    },
  );
});
