// State that hooks write while an answer streams: E5 and E6. An attempt that is given up leaves none.

import { createRuntime, definePlugin, type ModelPort, memoryStore, type Plugin, type Store } from "marling";
import { sqliteStore } from "marling/sqlite";
import { failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { database } from "./durable-support.ts";
import { port, responseOf } from "./model-support.ts";

interface Kept {
  readonly chunks: readonly string[];
  readonly ends: readonly string[];
}

/** Keeps the chunks it sees and the ends it is told in its state, and notes what it finds there at each chunk. */
function keeping(found: string[] = []): Plugin {
  return definePlugin({
    id: "keeping",
    build(ctx) {
      const kept = ctx.durable({ version: 1, initial: (): Kept => ({ chunks: [], ends: [] }) });
      return {
        output: {
          stream: async ({ chunk }) => {
            if (chunk === "late") await Promise.resolve();
            found.push(kept.get().chunks.join());
            kept.update(({ chunks, ends }) => ({ chunks: [...chunks, chunk], ends }));
            return { chunk };
          },
          streamFinished: ({ reason }) =>
            kept.update(({ chunks, ends }) => ({ chunks, ends: [...ends, `${reason}: ${chunks.join()}`] })),
        },
        operations: { queries: { "keeping.kept": { handler: () => ({ ...kept.get() }) } } },
      };
    },
  })();
}

const STORES: readonly (readonly [string, () => Store])[] = [
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore({ path: database() })],
];

/** What the plugin has kept when a turn is over. */
async function keptAfter(model: ModelPort, store: Store, plugins: readonly Plugin[]): Promise<unknown> {
  const runtime = createRuntime({ model, store, plugins });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  await session.turn("go").result;
  return session.query("keeping.kept", {});
}

describe.each(STORES)("on %s", (_name, store) => {
  test("[E5] a reset of the port drops what hooks wrote in the attempt, and what they write next is kept", async () => {
    const found: string[] = [];
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "wrong" });
      sink({ kind: "text_delta", text: "late" });
      sink({ kind: "attempt_reset", reason: "connection lost", retryAfterMs: 0 });
      sink({ kind: "text_delta", text: "ri" });
      sink({ kind: "text_delta", text: "ght" });
      return responseOf("right");
    });
    expect(await keptAfter(model, store(), [keeping(found)])).toEqual({
      chunks: ["ri", "ght"],
      ends: ["attempt_reset: ", "complete: ri,ght"],
    });
    expect(found).toEqual(["", "wrong", "", "ri"]);
  });

  test("[E6] so does a failure after which the model is asked again", async () => {
    const model = scriptedModel([
      failWith({ kind: "overloaded", retryAfterMs: 0, chunks: ["wrong", "late"] }),
      say("right", { chunks: ["ri", "ght"] }),
    ]);
    expect(await keptAfter(model, store(), [keeping()])).toEqual({
      chunks: ["ri", "ght"],
      ends: ["attempt_reset: ", "complete: ri,ght"],
    });
  });

  test("[E6] and one that ends the call", async () => {
    const model = scriptedModel([failWith({ kind: "auth", chunks: ["wrong"] })]);
    expect(await keptAfter(model, store(), [keeping()])).toEqual({
      chunks: [],
      ends: ["provider_error: "],
    });
  });
});
