// Which lines wake the session: MONITORS.md, MO14, MO16 and MO20.

import { expect, test, vi } from "vitest";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { messages, puppet, said, statusOf, watch } from "./monitor-support.ts";

vi.setConfig({ testTimeout: 30_000 });

test("[K120] a line of stdout wakes once until it is acknowledged", async () => {
  const { registry, wakes } = watch();
  const { command, say } = puppet();
  await registry.start({ id: "ci", command });
  await say("red", "still red");
  await said(registry, "ci", 2);
  expect(wakes).toEqual([{ monitorId: "ci", text: "Monitor ci: red", sequence: 1 }]);
  const { events } = await registry.takeUpdates();
  expect(events).toEqual([
    { sequence: 1, monitorId: "ci", message: "red", queueTurnInput: "Monitor ci: red" },
    { sequence: 2, monitorId: "ci", message: "still red" },
  ]);
  registry.ackWake(["ci", "nobody"]);
  expect(wakes).toHaveLength(1);
  await say("green", "still green");
  await said(registry, "ci", 4);
  expect(wakes.slice(1)).toEqual([{ monitorId: "ci", text: "Monitor ci: green", sequence: 3 }]);
});

test("[K120] stderr never wakes", async () => {
  const { registry, wakes } = watch();
  const { command, say } = puppet();
  await registry.start({ id: "ci", command });
  await say("err:noise", "err:more");
  await said(registry, "ci", 2);
  expect(wakes).toEqual([]);
  const { events } = await registry.takeUpdates();
  expect(events).toEqual([
    { sequence: 1, monitorId: "ci", message: "noise" },
    { sequence: 2, monitorId: "ci", message: "more" },
  ]);
  await say("red");
  await said(registry, "ci", 3);
  expect(wakes.map(({ text }) => text)).toEqual(["Monitor ci: red"]);
});

test("[K120] the newest 128 updates are kept, the sequence counts all of them", async () => {
  const { registry } = watch();
  const { command, say } = puppet();
  await registry.start({ id: "ci", command });
  await say(...Array.from({ length: 200 }, (_, index) => `line ${index + 1}`));
  await said(registry, "ci", 200);
  const { events } = await registry.takeUpdates();
  expect(events).toHaveLength(128);
  expect(events[0]).toEqual({ sequence: 73, monitorId: "ci", message: "line 73" });
  expect(events.at(-1)).toEqual({ sequence: 200, monitorId: "ci", message: "line 200" });
  expect(events.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 128 }, (_, index) => index + 73),
  );
});

test("[MO16] a monitor that only notifies never wakes", async () => {
  const { registry, wakes } = watch();
  const { command, say } = puppet();
  await registry.start({ id: "ci", command, wakePolicy: "notify" });
  await say("red");
  await said(registry, "ci", 1);
  expect(wakes).toEqual([]);
});

test("[MO16] each monitor has a wake of its own", async () => {
  const { registry, wakes } = watch();
  const [one, two] = [puppet(), puppet()];
  await registry.start({ id: "one", command: one.command });
  await registry.start({ id: "two", command: two.command });
  await one.say("a");
  await said(registry, "one", 1);
  await two.say("b");
  await said(registry, "two", 1);
  expect(wakes.map(({ monitorId }) => monitorId)).toEqual(["one", "two"]);
});

test("[MO16] the end of a start ends its wake", async () => {
  const { registry, wakes } = watch();
  const { command, say, finish } = puppet();
  for (const line of ["first", "second"]) {
    await registry.start({ id: "ci", command });
    await say(line);
    await finish();
    await registry.whenEnded("ci");
  }
  expect(wakes.map(({ text }) => text)).toEqual(["Monitor ci: first", "Monitor ci: second"]);
});

test("[MO16] stop ends the wake, and what is said while it ends does not wake", async () => {
  const { registry, wakes } = watch({ clock: new ManualClock() });
  const command = "exec 2>&-; trap 'echo dying; exit' TERM; echo ready; while :; do sleep 1; done";
  await registry.start({ id: "ci", command });
  await said(registry, "ci", 1);
  registry.ackWake(["ci"]);
  await registry.stop("ci");
  expect(messages((await registry.takeUpdates()).events)).toEqual(["ready", "dying", "stopped"]);
  expect(wakes.map(({ text }) => text)).toEqual(["Monitor ci: ready"]);
  await registry.start("ci");
  await said(registry, "ci", 3);
  expect(wakes.map(({ text }) => text)).toEqual(["Monitor ci: ready", "Monitor ci: ready"]);
});

test("[MO15] an acknowledgement moves the revision, a second one does not", async () => {
  const { registry } = watch();
  const { command, say } = puppet();
  await registry.start({ id: "ci", command });
  await say("red");
  await said(registry, "ci", 1);
  const before = registry.peek().revision;
  registry.ackWake(["ci", "ci"]);
  registry.ackWake(["ci"]);
  expect(registry.peek().revision).toBe(before + 1);
  expect(statusOf(registry, "ci").state).toBe("running");
});

test("[MO20] a wake that an earlier process left holds its monitor, over starts and stops, until it is acknowledged", async () => {
  const { registry, wakes } = watch();
  const [first, second, other] = [puppet(), puppet(), puppet()];
  registry.holdWake("ci");
  await registry.start({ id: "ci", command: first.command });
  await registry.start({ id: "other", command: other.command });
  await first.say("one");
  await other.say("heard");
  await said(registry, "ci", 1);
  await said(registry, "other", 1);
  await registry.stop("ci");
  await registry.start({ id: "ci", command: second.command });
  await second.say("two");
  await vi.waitUntil(() => statusOf(registry, "ci").lastEvent === "two", { timeout: 20_000 });
  expect(wakes.map(({ monitorId }) => monitorId)).toEqual(["other"]);
  registry.ackWake(["ci"]);
  await second.say("three", "four");
  await vi.waitUntil(() => statusOf(registry, "ci").lastEvent === "four", { timeout: 20_000 });
  expect(wakes.map(({ text }) => text)).toEqual(["Monitor other: heard", "Monitor ci: three"]);
});
