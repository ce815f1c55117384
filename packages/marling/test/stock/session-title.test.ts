// Titles of sessions.

import { memoryStore } from "marling";
import { sessionTitle } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { failWith, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { database, live } from "../kernel/durable-support.ts";

test("[ST1] a session gets a title beside its first turn, once, and keeps it after a restart", async () => {
  const path = database();
  const titles: string[] = [];
  let asked = 0;
  const plugins = [sessionTitle({ maxChars: 20, onTitle: (id, title) => titles.push(`${id}: ${title}`) })];
  const script = ({ system }: { readonly system: string }): ScriptStep =>
    system.startsWith("Write a title") && ++asked > 0
      ? say('  "A very\nlong title about nothing."  ')
      : say("ok");
  const first = await live({ store: sqliteStore({ path }), plugins, script });
  expect(await first.session.query("session.title", {})).toBeNull();
  await first.session.turn("Hello").result;
  await expect.poll(() => titles, { timeout: 20_000 }).toEqual(["s: A very long title ab"]);
  await first.session.turn("More").result;
  await first.runtime.close();
  const second = await live({ store: sqliteStore({ path }), plugins, script });
  await second.session.turn("Again").result;
  expect(await second.session.query("session.title", {})).toBe("A very long title ab");
  const fork = await second.runtime.sessions.fork("s", { as: "fork" });
  expect(await fork.query("session.title", {})).toBe("A very long title ab");
  await second.runtime.close();
  expect([titles.length, asked]).toEqual([1, 1]);
}, 30_000);

test("[ST1] a title that nobody could write leaves the turn alone, and the next turn tries again", async () => {
  let tries = 0;
  const { session } = await live({
    store: memoryStore(),
    plugins: [sessionTitle()],
    script: ({ system }) => {
      if (!system.startsWith("Write a title")) return say("ok");
      tries += 1;
      return tries === 1 ? failWith({ kind: "auth" }) : say("Greetings");
    },
  });
  expect((await session.turn("Hello").result).outcome).toMatchObject({ kind: "finished" });
  await expect.poll(() => tries, { timeout: 20_000 }).toBe(1);
  await session.turn("Again").result;
  await expect.poll(() => session.query("session.title", {}), { timeout: 20_000 }).toBe("Greetings");
}, 30_000);
