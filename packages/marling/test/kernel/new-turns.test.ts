// What a turn that begins as soon as its input is accepted asks the store: nothing that the acceptance has said.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, type ModelPort, type Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { Store } from "../../src/store/contract.ts";

interface Watched {
  readonly session: Session;
  /** The names of what the store was asked, in order. */
  readonly asked: string[];
}

async function watched(
  answers: readonly string[],
  { before = Promise.resolve() }: { readonly before?: Promise<void> } = {},
): Promise<Watched> {
  const folder = mkdtempSync(join(tmpdir(), "marling-new-turns-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const asked: string[] = [];
  const store = telling(sqliteStore({ path: join(folder, "agent.db") }) as Store, asked);
  const model = scriptedModel(answers.map((text) => say(text)));
  const gated: ModelPort = { id: "gated", call: (...asks) => before.then(() => model.call(...asks)) };
  const runtime = createRuntime({ model: gated, store });
  onTestFinished(() => runtime.close());
  return { session: await runtime.session("s"), asked };
}

function telling(store: Store, asked: string[]): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...values: readonly unknown[]) => {
        asked.push(String(name));
        return Reflect.apply(value, target, values);
      };
    },
  });
}

const POLL = "changes";

test("[TQ4] a turn that begins at once does not read its input again", async () => {
  const { session, asked } = await watched(["one", "two"]);
  await session.run("go");
  asked.length = 0;
  await session.run("go on");
  expect(asked.filter((name) => name !== POLL)).toEqual(["admit", "pending", "commit"]);
});

test("[TQ4] a turn that waited for another one looks at its input before it begins", async () => {
  const open = deferred<void>();
  const { session, asked } = await watched(["one", "two"], { before: open.promise });
  const first = session.turn("first");
  await first.accepted;
  const second = session.turn("second");
  await second.accepted;
  open.resolve();
  await Promise.all([first.result, second.result]);
  expect(asked.filter((name) => name === "find")).toEqual(["find"]);
  expect(session.read().messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
});
