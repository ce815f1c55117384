// The log that observers of a session read: kernel/observation-log.ts, rules OB1-OB9, and EV4.

import { describe, expect, test } from "vitest";
import type { SessionObservation } from "../../src/kernel/observation.ts";
import { TurnEvents } from "../../src/kernel/turn-events.ts";
import { all, brief, nodeOf, screenOf, show, take, written } from "./observation-support.ts";

const briefly = (seen: readonly SessionObservation[]): readonly string[] => seen.map(brief);
const cursorOf = (seen: readonly SessionObservation[]): string => seen.at(-1)?.cursor ?? "";

describe("what is kept", () => {
  test("[OB1] the newest 2,048 events are kept unless told otherwise", async () => {
    const { log, begin, say } = written();
    begin();
    const [first] = await take(log.observe(), 1);
    for (let index = 0; index < 2_048; index += 1) say(String(index));
    expect(briefly(await take(log.observe({ cursor: first?.cursor }), 2))).toEqual(["0", "1"]);
    say("one more");
    expect(briefly(await take(log.observe({ cursor: first?.cursor }), 2))).toEqual([
      "gap too_old at 0, rest of t1",
      "1",
    ]);
  });

  test("[OB1] what is older than the age is let go when something is read, without a timer", async () => {
    const { log, clock, begin, say } = written({ ageMs: 120_000 });
    begin();
    const seen = await take(log.observe(), 1);
    say("old");
    clock.advance(60_000);
    say("young");
    clock.advance(60_000);
    expect(briefly(await take(log.observe({ cursor: cursorOf(seen) }), 2))).toEqual(["old", "young"]);
    clock.advance(1);
    expect(briefly(await take(log.observe({ cursor: cursorOf(seen) }), 2))).toEqual([
      "gap too_old at 0, rest of t1",
      "young",
    ]);
    expect(clock.pending).toBe(0);
  });

  test("[OB1] an observer that has read everything misses nothing when it is let go", async () => {
    const { log, clock, begin, say } = written();
    begin();
    const seen = await take(log.observe(), 1);
    clock.advance(1_000_000);
    say("later");
    expect(briefly(await take(log.observe({ cursor: cursorOf(seen) }), 1))).toEqual(["later"]);
  });
});

describe("many observers", () => {
  test("[OB2] a thousand observers are given the very same objects", async () => {
    const { log, begin, say, commit } = written();
    const observers = Array.from({ length: 1_000 }, () => all(log.observe()));
    begin();
    const said = say("hello");
    commit("hello", "t1");
    log.close();
    const seen = await Promise.all(observers);
    const [first] = seen;
    expect(first).toHaveLength(3);
    expect(first?.[1]?.kind === "event" && first[1].event === said).toBe(true);
    expect(seen.every((each) => each.every((item, index) => item === first?.[index]))).toBe(true);
  });

  test("[OB2] an observer that is never read holds nothing: what it missed is let go and it is told", async () => {
    const { log, begin, say, commit } = written({ events: 4 });
    const lazy = log.observe()[Symbol.asyncIterator]();
    begin();
    expect(brief((await lazy.next()).value)).toBe("turn_started");
    for (let index = 0; index < 100; index += 1) say(String(index));
    commit("done", "t1");
    log.ended("t1");
    begin("t2");
    expect(brief((await lazy.next()).value)).toBe("gap too_slow at 1, all of t2");
    expect(brief((await lazy.next()).value)).toBe("turn_started");
  });

  test("[OB2] one that waits is not delayed by one that does not read", async () => {
    const { log, begin, say } = written();
    const lazy = log.observe()[Symbol.asyncIterator]();
    const eager = take(log.observe(), 2);
    await Promise.resolve();
    begin();
    say("now");
    expect(briefly(await eager)).toEqual(["turn_started", "now"]);
    expect(brief((await lazy.next()).value)).toBe("turn_started");
  });
});

describe("deltas of a turn that has committed", () => {
  test("[OB9] are told as they were, cursors included, wherever an observer goes on from", async () => {
    const { log, begin, say, think, reset, commit } = written();
    begin();
    for (const text of ["Well", "", ", ", "I ", "\u{1f600}".slice(0, 1), "\u{1f600}".slice(1)]) think(text);
    for (const text of ["Hel", "lo", " ", "there", "."]) say(text);
    reset();
    for (const text of ["Good", " ", "day", "."]) say(text, 1);
    say("short", 2);
    const before = await take(log.observe(), 18);
    commit("hello", "t1");
    for (const [index, { cursor }] of before.entries()) {
      const rest = before.slice(index + 1);
      expect(await take(log.observe({ cursor }), rest.length)).toEqual(rest);
    }
    expect(briefly(await take(log.observe({ cursor: cursorOf(before) }), 1))).toEqual(["committed 1 by t1"]);
  });

  test("[OB9] [OB1] are let go one by one, where the log begins again included", async () => {
    const { log, begin, say, commit } = written({ events: 8 });
    begin();
    const started = await take(log.observe(), 1);
    for (const text of ["a", "b", "c", "d", "e"]) say(text);
    const seen = await take(log.observe({ cursor: cursorOf(started) }), 5);
    commit("one", "t1");
    begin("t2");
    for (const text of ["f", "g", "h", "i"]) say(text);
    commit("two", "t2");
    log.ended("t2");
    const behind = (text: string): string => seen.find((each) => brief(each) === text)?.cursor ?? "";
    expect(briefly(await take(log.observe({ cursor: behind("d") }), 8))).toEqual([
      "e",
      "committed 1 by t1",
      "turn_started",
      "f",
      "g",
      "h",
      "i",
      "committed 2 by t2",
    ]);
    expect(briefly(await take(log.observe({ cursor: behind("c") }), 1))).toEqual(["gap too_old at 2"]);
  });

  test("[OB9] [OB1] are let go while they come, where that takes longer than they are kept", async () => {
    const { log, clock, begin, say } = written({ ageMs: 10_000 });
    begin();
    const started = await take(log.observe(), 1);
    for (let second = 0; second < 30; second += 1) {
      say(`${second}.0`);
      clock.advance(500);
      say(`${second}.5`);
      clock.advance(500);
    }
    const [gap, oldest] = briefly(await take(log.observe({ cursor: cursorOf(started) }), 2));
    expect(gap).toBe("gap too_old at 0, rest of t1");
    expect(Number(oldest)).toBeGreaterThanOrEqual(30 - 10 - 1);
    expect(Number(oldest)).toBeLessThanOrEqual(30 - 10);
  });

  test("[OB9] [OB1] are as old as the last of them", async () => {
    const { log, clock, begin, say, commit } = written({ ageMs: 100 });
    begin();
    const started = await take(log.observe(), 1);
    for (const text of ["a", "b", "c", "d"]) {
      say(text);
      clock.advance(10);
    }
    commit("said", "t1");
    log.ended("t1");
    clock.advance(90);
    expect(briefly(await take(log.observe({ cursor: cursorOf(started) }), 2))).toEqual(["a", "b"]);
    clock.advance(1);
    expect(briefly(await take(log.observe({ cursor: cursorOf(started) }), 1))).toEqual(["gap too_old at 1"]);
  });
});

describe("where an observer starts", () => {
  test("[OB4] without a cursor it starts now: what is settled is not told again", async () => {
    const { log, begin, say, commit } = written();
    begin();
    say("hello");
    commit("hello", "t1");
    log.ended("t1");
    const observed = take(log.observe(), 1);
    commit("beside");
    expect(briefly(await observed)).toEqual(["committed 2"]);
  });

  test("[OB4] without a cursor the turn in flight is told from its beginning", async () => {
    const { log, begin, say } = written();
    begin();
    say("Hel");
    const observed = take(log.observe(), 3);
    say("lo");
    expect(briefly(await observed)).toEqual(["turn_started", "Hel", "lo"]);
  });

  test("[OB4] a turn that goes on after a commit of its own is told from that commit", async () => {
    const { log, begin, say, commit } = written();
    begin();
    say("first part");
    commit("first part", "t1");
    say("second part");
    expect(briefly(await take(log.observe(), 1))).toEqual(["second part"]);
  });

  test("[OB4] without a cursor it starts with a gap when the beginning of the turn is gone", async () => {
    const { log, begin, say } = written({ events: 3 });
    begin();
    for (const text of ["a", "b", "c"]) say(text);
    expect(briefly(await take(log.observe(), 4))).toEqual(["gap too_old at 0, rest of t1", "a", "b", "c"]);
  });

  test("[OB4] now is when observe is called, not when the loop begins", async () => {
    const { log, commit } = written();
    const observed = log.observe();
    commit("between");
    expect(briefly(await take(observed, 1))).toEqual(["committed 1"]);
    expect(briefly(await take(observed, 1))).toEqual(["committed 1"]);
  });

  test("[OB4] a turn that is run again in the same opening starts over, for newcomers and for those who were there", async () => {
    const { log, begin, say, view } = written();
    const watching = take(log.observe(), 5);
    begin();
    say("Let me");
    begin();
    say("Let me");
    say(" see", 0);
    const screens = [await watching, await take(log.observe(), 3)].map((seen) =>
      seen.reduce(show, screenOf(view())),
    );
    expect(screens.map(({ said }) => said)).toEqual([{ 0: "Let me see" }, { 0: "Let me see" }]);
  });
});

describe("cursors", () => {
  test("[OB3] a client that is cut off anywhere and comes back shows the same as one that stayed", async () => {
    const { log, begin, say, reset, commit, view } = written();
    const before = screenOf(view());
    const stayed = all(log.observe());
    begin();
    say("Hel");
    reset();
    say("Good ");
    commit("a note");
    say("day");
    say("More.", 1);
    commit("Good day. More.", "t1");
    log.ended("t1");
    begin("t2");
    say("Half an ans");
    log.close();
    const seen = await stayed;
    const whole = seen.reduce(show, before);
    expect(whole).toEqual({
      revision: 2,
      settled: ["a note", "Good day. More."],
      said: { 0: "Half an ans" },
    });
    for (let cut = 1; cut <= seen.length; cut += 1) {
      const head = seen.slice(0, cut);
      const tail = await all(log.observe({ cursor: cursorOf(head) }));
      expect(tail).toEqual(seen.slice(cut));
      expect([...head, ...tail].reduce(show, before)).toEqual(whole);
    }
  });

  test("[OB3] a client that comes in the middle shows the same text as one that was there, retracted text included", async () => {
    const { log, begin, say, reset, view } = written();
    const early = take(log.observe(), 6);
    begin();
    say("wrong");
    say(" answer");
    const late = take(log.observe(), 6);
    reset();
    say("right");
    say(" answer");
    for (const seen of [await early, await late]) {
      expect(seen.reduce(show, screenOf(view())).said).toEqual({ 0: "right answer" });
    }
  });

  test("[OB5] a commit that is in the view one has is not told, by a cursor neither", async () => {
    const { log, begin, say, commit, view } = written();
    const early = take(log.observe(), 4);
    begin();
    say("one");
    commit("a note");
    say("two");
    expect(briefly(await early)).toEqual(["turn_started", "one", "committed 1", "two"]);
    const seen = await take(log.observe(), 2);
    expect(briefly(seen)).toEqual(["turn_started", "one"]);
    const rest = take(log.observe({ cursor: cursorOf(seen) }), 2);
    commit("another");
    expect(briefly(await rest)).toEqual(["two", "committed 2"]);
    expect(view().revision).toBe(2);
  });

  test("[OB6] a cursor of another opening gives a gap with the view of now, then the turn in flight", async () => {
    const before = written();
    before.begin();
    const seen = await take(before.log.observe(), 1);
    const { log, begin, say, commit, view } = written();
    commit("settled");
    begin();
    say("Hel");
    const back = take(log.observe({ cursor: cursorOf(seen) }), 4);
    say("lo");
    const told = await back;
    expect(briefly(told)).toEqual(["gap other_process at 1, all of t1", "turn_started", "Hel", "lo"]);
    expect(told[0]).toEqual({
      kind: "gap",
      cursor: expect.any(String),
      reason: "other_process",
      view: view(),
      inFlight: { turnId: "t1", isWhole: true },
    });
    expect(briefly(await take(log.observe({ cursor: told[0]?.cursor }), 1))).toEqual(["turn_started"]);
  });

  test("[OB6] a gap of a session where nothing runs is followed by what happens next", async () => {
    const { log, commit } = written();
    const cursor = cursorOf(await take(other(), 1));
    const told = take(log.observe({ cursor }), 2);
    await Promise.resolve();
    commit("next");
    expect(briefly(await told)).toEqual(["gap other_process at 0", "committed 1"]);
  });

  function other() {
    const { log, begin } = written();
    begin();
    return log.observe();
  }

  test.each([
    ["no cursor at all", "hello", 'session s: cursor: expected a cursor that observe() gave, found "hello"'],
    ["an empty one", "", 'session s: cursor: expected a cursor that observe() gave, found ""'],
    [
      "a number",
      7 as unknown as string,
      "session s: cursor: expected a cursor that observe() gave, found number",
    ],
  ])("[OB6] %s is refused when iterating begins", async (_what, cursor, message) => {
    const observed = written().log.observe({ cursor });
    await expect(take(observed, 1)).rejects.toMatchObject({ code: "invalid_input", message });
  });

  test("[OB6] a cursor of another session is refused", async () => {
    const elsewhere = written({}, "elsewhere");
    elsewhere.begin();
    const [seen] = await take(elsewhere.log.observe(), 1);
    await expect(take(written().log.observe({ cursor: seen?.cursor }), 1)).rejects.toMatchObject({
      code: "invalid_input",
      message: "session s: cursor: expected a cursor of this session, found one of another session",
    });
  });

  test("[OB6] a cursor ahead of the log is refused", async () => {
    const { log, begin } = written();
    begin();
    const [seen] = await take(log.observe(), 1);
    const cursor = seen?.cursor.replace(/\.1\.0$/, ".2.0");
    expect(cursor).not.toBe(seen?.cursor);
    await expect(take(log.observe({ cursor }), 1)).rejects.toMatchObject({ code: "invalid_input" });
  });

  test("[OB6] an observer whose cursor was refused is over", async () => {
    const observer = written().log.observe({ cursor: "hello" })[Symbol.asyncIterator]();
    await expect(observer.next()).rejects.toMatchObject({ code: "invalid_input" });
    expect(await observer.next()).toEqual({ done: true, value: undefined });
  });

  test("every observation is plain JSON", async () => {
    const { log, begin, say, commit } = written({ events: 3 });
    begin();
    say("a");
    say("b");
    commit("ab", "t1");
    log.ended("t1");
    log.close();
    const [{ cursor = "" } = {}] = await take(other(), 1);
    const seen = await all(log.observe({ cursor }));
    expect(JSON.parse(JSON.stringify(seen))).toEqual(seen);
    const early = written();
    const told = all(early.log.observe());
    early.commit("x", "t1");
    early.log.close();
    expect(await told).toEqual([
      { kind: "committed", cursor: expect.any(String), revision: 1, turnId: "t1", nodes: [nodeOf("x", 1)] },
    ]);
  });
});

describe("a session that other processes write to", () => {
  test("[OB7] what they committed is told as a gap, to those who do not know of it", async () => {
    const { log, begin, say, elsewhere } = written();
    const watching = take(log.observe(), 4);
    begin();
    say("half");
    const [seen] = await take(log.observe(), 1);
    elsewhere("settled there");
    begin("t2");
    expect(briefly(await watching)).toEqual([
      "turn_started",
      "half",
      "gap other_process at 1, all of t2",
      "turn_started",
    ]);
    expect(briefly(await take(log.observe({ cursor: seen?.cursor }), 3))).toEqual([
      "half",
      "gap other_process at 1, all of t2",
      "turn_started",
    ]);
    expect(briefly(await take(log.observe(), 1))).toEqual(["turn_started"]);
  });

  test("[OB7] nothing of a turn that went on elsewhere is in flight", async () => {
    const { log, begin, say, elsewhere, commit } = written();
    begin();
    say("half");
    elsewhere("settled there");
    const observed = take(log.observe(), 1);
    commit("next");
    expect(briefly(await observed)).toEqual(["committed 2"]);
  });
});

test("[EV4] what a turn emits is told to observers, and when it is closed nothing of it is in flight", async () => {
  const { log } = written();
  const events = new TurnEvents({ turnId: "t9", log });
  const observed = take(log.observe(), 1);
  const event = { kind: "turn_started", turnId: "t9" } as const;
  events.emit(event);
  expect(await observed).toEqual([{ kind: "event", cursor: expect.any(String), turnId: "t9", event }]);
  expect(briefly(await take(log.observe(), 1))).toEqual(["turn_started"]);
  events.close();
  log.close();
  expect(await all(log.observe())).toEqual([]);
});

test("[EV4] what watchers saw in an earlier run is told to observers only", async () => {
  const { log } = written();
  const events = new TurnEvents({ turnId: "t9", log });
  const text = (said: string) => ({ kind: "text_delta", round: 0, text: said }) as const;
  const observed = all(log.observe());
  events.emit(text("old"));
  events.emit(text("old"), false);
  events.emit(text("new"));
  events.close();
  log.close();
  const watched: unknown[] = [];
  for await (const event of events.watch()) watched.push(event);
  expect(watched).toEqual([text("old"), text("new")]);
  expect(briefly(await observed)).toEqual(["old", "old", "new"]);
});
