// What turns cost in promises. Counted, never timed: the same script gives the same numbers.

import { createHook } from "node:async_hooks";
import type { ModelPort, PluginParts, Session } from "marling";
import { describe, expect, test } from "vitest";
import { onDisk, USAGE } from "./costs-support.ts";
import { plugin } from "./model-support.ts";

/** The promises of a turn of so many rounds, in each of which the model asks for so many calls at once. */
async function promisesOfCalls({ rounds, calls }: { rounds: number; calls: number }): Promise<number> {
  let made = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "PROMISE") made += 1;
    },
  });
  let asked = 0;
  const model: ModelPort = {
    id: "calls",
    call: async () => {
      const isAnswer = asked === rounds;
      asked += 1;
      const wanted = Array.from(
        { length: calls },
        (_, n) =>
          ({ kind: "tool_call", callId: `c${asked}_${n}`, name: "look", args: `{"at":${n}}` }) as const,
      );
      const parts = isAnswer ? [{ kind: "text", text: "Done." } as const] : wanted;
      return { kind: "response", response: { parts, usage: USAGE, finish: isAnswer ? "stop" : "tool_use" } };
    },
  };
  const { session } = await onDisk({ model });
  hook.enable();
  await session.run("go");
  hook.disable();
  await session.close();
  return made;
}

test("[DP5] a call in which nobody else takes part makes at most 26 promises, from its check to its write", async () => {
  const few = await promisesOfCalls({ rounds: 1, calls: 2 });
  const many = await promisesOfCalls({ rounds: 1, calls: 12 });
  expect((many - few) / 10).toBeGreaterThan(15);
  expect((many - few) / 10).toBeLessThanOrEqual(26);
});

test("[DP5] a round in which no plugin takes part makes at most 90 promises, its model call and one tool call included", async () => {
  const few = await promisesOfCalls({ rounds: 2, calls: 1 });
  const many = await promisesOfCalls({ rounds: 12, calls: 1 });
  expect((many - few) / 10).toBeGreaterThan(50);
  expect((many - few) / 10).toBeLessThanOrEqual(90);
});

interface StreamOptions {
  readonly isObserved?: boolean;
  /** Whether each chunk comes in a tick of its own. */
  readonly isPaced?: boolean;
}

/** Runs a turn whose answer comes in so many chunks; returns the promises that were made from the first to the last. */
async function promisesOfStream(
  chunks: number,
  parts: PluginParts | undefined,
  { isObserved = false, isPaced = false }: StreamOptions = {},
): Promise<number> {
  let made = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "PROMISE") made += 1;
    },
  });
  const text = "word ".repeat(chunks);
  const model: ModelPort = {
    id: "streams",
    call: async (_request, { sink }) => {
      hook.enable();
      for (let chunk = 0; chunk < chunks; chunk += 1) {
        sink({ kind: "text_delta", text: "word " });
        if (isPaced) await new Promise((resolve) => setImmediate(resolve));
      }
      await new Promise((resolve) => setImmediate(resolve));
      hook.disable();
      return {
        kind: "response",
        response: { parts: [{ kind: "text", text }], usage: USAGE, finish: "stop" },
      };
    },
  };
  const plugins = parts === undefined ? [] : [plugin("streams", parts)];
  const { session } = await onDisk({ model, plugins });
  const seen = isObserved ? deltasOf(session) : undefined;
  await session.run("go");
  await session.close();
  if (seen !== undefined) expect(await seen).toBe(chunks);
  return made;
}

async function deltasOf(session: Session): Promise<number> {
  let deltas = 0;
  for await (const { kind, ...observation } of session.observe())
    if (kind === "event" && "event" in observation && observation.event.kind === "text_delta") deltas += 1;
  return deltas;
}

/** Promises of a chunk: what the second thousand makes, without the few that others make meanwhile. */
async function promisesPerChunk(parts?: PluginParts, options: StreamOptions = {}): Promise<number> {
  const thousand = await promisesOfStream(1_000, parts, options);
  const more = (await promisesOfStream(2_000, parts, options)) - thousand;
  return Math.max(0, Math.round(more / 1_000)); // Fewer by chance would be rounded to -0.
}

describe("a streamed chunk", () => {
  test("[MS1] makes no promise", async () => {
    expect(await promisesPerChunk()).toBe(0);
  });

  test("[MS1] makes none with hooks that answer at once", async () => {
    const stream = [({ chunk }: { readonly chunk: string }) => ({ chunk }), () => undefined];
    expect(await promisesPerChunk({ output: { stream } })).toBe(0);
  });

  test("[MS1] makes some with a hook that returns a promise", async () => {
    expect(await promisesPerChunk({ output: { stream: async () => undefined } })).toBeGreaterThan(0);
  });

  test("[OB2] costs an observer what its loop makes, and no more", async () => {
    expect(await promisesPerChunk(undefined, { isObserved: true })).toBeLessThanOrEqual(2);
  });

  test("[OB2] that comes alone wakes an observer for three promises, those of its loop included", async () => {
    const alone = await promisesPerChunk(undefined, { isPaced: true });
    const observed = await promisesPerChunk(undefined, { isPaced: true, isObserved: true });
    expect(observed - alone).toBeGreaterThan(0);
    expect(observed - alone).toBeLessThanOrEqual(3);
  });
});
