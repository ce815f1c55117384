// The checks of the soak test (scripts/soak-checks.mjs) find what they are for: a world without a fault passes, and each
// fault, put into it by hand, is reported.

import { expect, test } from "vitest";
import { violationsOf } from "../../../../scripts/soak-checks.mjs";
import { nextOf, worldOf } from "../../../../scripts/soak-world.mjs";
import type { CallId } from "../../src/model/ids.ts";

type Found = Parameters<typeof violationsOf>[0];
type Entry = Found["entries"][number];
type Session = Found["end"]["sessions"][number];

interface World {
  entries: Entry[];
  session: Session;
  isSame: boolean;
}

const TURN = "s0:turn:1";
const REQUEST = `s0:${TURN}`;

const entry = (kind: string, members: object = {}, life = "p0.1"): Entry => ({
  at: 0,
  life,
  kind,
  ...members,
});
const message = (id: string, role: string, parts: readonly object[]): object => ({
  kind: "message",
  message: { id, role, parts },
});
const text = (said: string): object => ({ kind: "text", text: said });
const call = (callId: string, name: string, id: string): object => ({
  kind: "tool_call",
  callId,
  name,
  args: { id },
});
const result = (callId: string, name: string, said: string, isError = false): object => ({
  kind: "tool_result",
  callId,
  name,
  text: said,
  ...(isError ? { isError } : {}),
});
const began = (tool: string, replay: string, plan: string): Entry =>
  entry("begin", { tool, replay, plan, session: "s0", turn: TURN, attempt: 1, key: `key ${plan}` });

/** One turn of two rounds: a payment and a call that slept, then a refund that was allowed and a task. */
function sound(): World {
  const plans = [
    ["k.0.0", "k.0.1"],
    ["k.1.0", "k.1.1"],
  ];
  const once = Object.fromEntries(plans.flat().map((plan) => [plan, 1]));
  return {
    isSame: true,
    entries: [
      entry("accepted", { act: "turn", session: "s0", key: "k", status: "accepted" }),
      entry("accepted", { act: "steer", session: "s0", key: "n", status: "accepted" }),
      entry("watching", { session: "s0", key: "m" }),
      entry("line", { session: "s0", key: "m" }, "monitor"),
      entry("model", { request: `${REQUEST}:0`, session: "s0" }),
      entry("model_end", { request: `${REQUEST}:0`, session: "s0", plans: plans[0] }),
      entry("response", { request: `${REQUEST}:0`, session: "s0" }),
      began("pay", "unsafe", "k.0.0"),
      began("wait", "safe", "k.0.1"),
      entry("answered", { key: "wait", plan: "k.0.1", status: "resolved" }, "p1.1"),
      entry("model", { request: `${REQUEST}:1`, session: "s0" }),
      entry("model_end", { request: `${REQUEST}:1`, session: "s0", plans: plans[1] }),
      entry("deciding", { plan: "k.1.0", session: "s0", decision: "allow" }),
      began("refund", "unsafe", "k.1.0"),
      began("begin_task", "safe", "k.1.1"),
      entry("step", { session: "s0", task: "k.1.1", step: "one" }),
      entry("step", { session: "s0", task: "k.1.1", step: "two" }),
      entry("settled", { session: "s0", key: "k", turn: TURN, outcome: { kind: "finished" } }),
    ],
    session: {
      id: "s0",
      turnIndex: 1,
      history: linked([
        message("m0", "user", [text("do @p:k@")]),
        message("m1", "assistant", [call("c1", "pay", "k.0.0"), call("c2", "wait", "k.0.1")]),
        message("m2", "tool", [
          result("c1", "pay", '{"done":true}'),
          result("c2", "wait", '{"answer":"k.0.1"}'),
        ]),
        message("m3", "user", [text("note <n>")]),
        message("m4", "assistant", [call("c1", "refund", "k.1.0"), call("c2", "begin_task", "k.1.1")]),
        message("m5", "tool", [
          result("c1", "refund", "done"),
          result("c2", "begin_task", '{"begun":"k.1.1"}'),
        ]),
        message("m6", "system", [text("Monitor m: line <m>")]),
        message("m7", "assistant", [text("done")]),
      ]),
      seen: { turns: { [TURN]: 1 }, before: { ...once }, after: { ...once }, tools: {} },
      tasks: [{ id: "k.1.1", state: "completed" }],
    },
  };
}

function linked(nodes: readonly object[]): Session["history"] {
  return nodes.map((node, at) => ({
    ...node,
    id: `n${at}`,
    generation: at,
    ...(at === 0 ? {} : { parentId: `n${at - 1}` }),
  })) as unknown as Session["history"]; // what the checks read of a node, and no more
}

const rounds = [
  [
    { tool: "pay", id: "k.0.0" },
    { tool: "wait", id: "k.0.1" },
  ],
  [
    { tool: "refund", id: "k.1.0" },
    { tool: "begin_task", id: "k.1.1" },
  ],
];

function classesOf(change: (world: World) => void = () => undefined): readonly string[] {
  const world = sound();
  change(world);
  const { entries, session, isSame } = world;
  const found = {
    world: { acts: [], programs: { k: { key: "k", rounds } } },
    entries,
    end: { sessions: [session], isSame },
  };
  return [...new Set(violationsOf(found).map((one) => one.class))];
}

const without = (world: World, ...at: readonly number[]): void => {
  world.session.history = linked(world.session.history.filter((_, index) => !at.includes(index)));
};
const said = (world: World, role: string, part: object): void => {
  world.session.history = linked([...world.session.history, message(`m${role}`, role, [part])]);
};
const add = (world: World, ...entries: readonly Entry[]): void => void world.entries.push(...entries);
const drop = (world: World, kind: string): void => {
  world.entries = world.entries.filter((one) => one.kind !== kind);
};

test("a world without a fault passes", () => {
  expect(classesOf()).toEqual([]);
});

test.each<[string, string, (world: World) => void]>([
  ["lost", "an accepted input that is not in the history", (world) => without(world, 3)],
  [
    "lost",
    "an input that was accepted anew",
    (world) => add(world, entry("accepted", { act: "turn", session: "s0", key: "k", status: "accepted" })),
  ],
  [
    "lost",
    "an answer that was taken and never arrived",
    (world) => add(world, entry("answered", { plan: "z", status: "resolved" })),
  ],
  [
    "lost",
    "an effect that its history does not tell of",
    (world) => add(world, began("pay", "unsafe", "z.0.0")),
  ],
  ["lost", "calls of a finished turn that were never made", (world) => without(world, 4, 5)],
  [
    "lost",
    "a task that failed",
    (world) => {
      world.session.tasks = [{ id: "k.1.1", state: "failed", failure: { code: "lease_lost", message: "" } }];
    },
  ],
  [
    "lost",
    "a task that was begun and is not there",
    (world) => {
      world.session.tasks = [];
    },
  ],
  ["repeated", "an input that is in the history twice", (world) => said(world, "user", text("do @p:k@"))],
  ["repeated", "a line that was heard more often than said", (world) => drop(world, "line")],
  [
    "repeated",
    "an unsafe call that ran twice",
    (world) => world.entries.splice(8, 0, began("pay", "unsafe", "k.0.0")),
  ],
  [
    "repeated",
    "a safe call that ran again after its outcome",
    (world) => add(world, began("wait", "safe", "k.0.1")),
  ],
  [
    "repeated",
    "a model call whose answer had been seen",
    (world) => add(world, entry("model", { request: `${REQUEST}:0`, session: "s0" })),
  ],
  [
    "repeated",
    "a model call whose calls had begun",
    (world) => {
      drop(world, "response");
      add(world, entry("model", { request: `${REQUEST}:1`, session: "s0" }));
    },
  ],
  [
    "repeated",
    "a step of a task that was stored",
    (world) => add(world, entry("step", { session: "s0", task: "k.1.1", step: "one" })),
  ],
  [
    "repeated",
    "a turn that ended twice, differently",
    (world) =>
      add(
        world,
        entry("settled", { session: "s0", key: "k", turn: "s0:turn:2", outcome: { kind: "finished" } }),
      ),
  ],
  ["dangling", "a call without a result", (world) => without(world, 5)],
  ["dangling", "a result without a call", (world) => said(world, "tool", result("c9", "look", "done"))],
  [
    "state",
    "a hook whose state was dropped",
    (world) => {
      world.session.seen.after["k.0.0"] = 0;
    },
  ],
  [
    "state",
    "a hook whose state was kept twice",
    (world) => {
      world.session.seen.before["k.0.0"] = 2;
    },
  ],
  [
    "state",
    "a turn that was counted twice",
    (world) => {
      world.session.seen.turns[TURN] = 2;
    },
  ],
  [
    "state",
    "a world that is another one when it is opened again",
    (world) => {
      world.isSame = false;
    },
  ],
  [
    "state",
    "a turn that stopped for no good reason",
    (world) => {
      drop(world, "settled");
      const outcome = { kind: "stopped", reason: "runtime_error", code: "runtime_closed" };
      add(world, entry("settled", { session: "s0", key: "k", turn: TURN, outcome }));
    },
  ],
  [
    "state",
    "a call that failed for no good reason",
    (world) => {
      said(world, "assistant", call("c3", "look", "k.0.0"));
      said(world, "tool", result("c3", "look", "expected an open runtime", true));
    },
  ],
  [
    "state",
    "a safe call whose outcome is unknown",
    (world) => {
      said(world, "assistant", call("c3", "look", "y"));
      said(world, "tool", result("c3", "look", "it may have taken effect", true));
    },
  ],
  [
    "state",
    "a history that is not one path",
    (world) => {
      const [first, ...rest] = world.session.history;
      world.session.history = [...rest, ...(first === undefined ? [] : [first])];
    },
  ],
  [
    "duplicate",
    "two messages with one id",
    (world) => {
      const { history } = world.session;
      world.session.history = linked([...history, message("m0", "user", [text("what was before")])]);
    },
  ],
  ["unguarded", "a call that nobody had allowed", (world) => drop(world, "deciding")],
  [
    "error",
    "an act that failed",
    (world) => add(world, entry("failed", { what: "k", code: "invalid_input" })),
  ],
])("%s: %s", (kind, _name, change) => {
  expect(classesOf(change)).toContain(kind);
});

test("an unsafe call whose process was killed may have an unknown outcome", () => {
  const change = (world: World): void => {
    said(world, "assistant", call("c3", "pay", "y"));
    said(world, "tool", result("c3", "pay", "it may have taken effect", true));
  };
  expect(classesOf(change)).toEqual([]);
});

test("a process that was paused may begin what it had decided to do before", () => {
  const change = (world: World): void =>
    add(world, entry("pause", { of: "p0.1" }, "play"), began("wait", "safe", "k.0.1"));
  expect(classesOf(change)).toEqual([]);
});

test("a world is made from its seed alone, and has what it is for", () => {
  expect(worldOf(7)).toEqual(worldOf(7));
  expect(worldOf(7, { processes: 3 }).processes).toBe(3);
  const worlds = Array.from({ length: 60 }, (_, seed) => worldOf(seed));
  const kinds = new Set(worlds.flatMap(({ acts }) => acts.map(({ kind }) => kind)));
  expect([...kinds].sort()).toEqual(["compact", "emit", "fork", "monitor", "next", "steer", "turn"]);
  const blows = new Set(worlds.flatMap(({ blows }) => blows.map(({ kind }) => kind)));
  expect([...blows].sort()).toEqual(["close", "kill", "pause"]);
  expect(new Set(worlds.map(({ processes }) => processes))).toEqual(new Set([1, 2, 3]));
  expect(worlds.some(({ clocks }) => new Set(clocks).size > 1)).toBe(true);
});

test("the model goes on with the newest program, whatever is said in between", () => {
  const programs = { k: { key: "k", rounds } };
  const asked = { role: "user", parts: [{ kind: "text", text: "do @p:k@" }] } as const;
  const calls = {
    role: "assistant",
    parts: [{ kind: "tool_call", callId: "c" as CallId, name: "pay", args: {} }],
  } as const;
  const results = { role: "tool", parts: [] } as const;
  const note = { role: "user", parts: [{ kind: "text", text: "note <n>" }] } as const;
  const done = { role: "assistant", parts: [{ kind: "text", text: "done" }] } as const;
  expect(nextOf({ programs }, { messages: [asked] }).calls).toEqual(rounds[0]);
  expect(nextOf({ programs }, { messages: [asked, calls, results, note] }).calls).toEqual(rounds[1]);
  expect(nextOf({ programs }, { messages: [asked, calls, results, calls, results] }).calls).toBeUndefined();
  expect(nextOf({ programs }, { messages: [asked, done, note] }).calls).toBeUndefined();
});
