// Turns that cannot be recovered end, and their session goes on: E8, count-recovery.ts and the check of what an outcome
// was recorded for in turn-run.ts.

import type { RuntimeOptions } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import { sha256 } from "../../src/base/digest.ts";
import type { JournalRecord } from "../../src/model/journal.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  quickTool,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";

/** A store whose journal says something else than was written. */
function tampered(change: (text: string, record: JournalRecord) => string): CallStore {
  return async (method, call) => {
    const answer = await call();
    if (method !== "journal.read") return answer;
    const records = answer as unknown as readonly JournalRecord[];
    return records.map((record) => JSON.parse(change(JSON.stringify(record), record))) as never;
  };
}

/** The model asked for something else; what its call was recorded for stays. */
function askingForTwo(text: string, { key }: JournalRecord): string {
  return key.endsWith(".model_call") ? text.replace('{\\"n\\":1}', '{\\"n\\":2}') : text;
}

/** A turn that has called `quick` with `{ n: 1 }` and died in the call of `wait`. */
async function interrupted(path: string, options: Partial<RuntimeOptions> = {}): Promise<void> {
  const at = gate();
  const { model: _model, store: _store, ...others } = options;
  const before = await mortal({
    ...others,
    store: sqliteStore({ path }),
    script: [callTool("quick", { n: 1 }), callTool("wait")],
    tools: [quickTool("quick"), gatedTool("wait", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
}

test("[E8] a call with other arguments than its recorded outcome has ends the turn, naming key and fields", async () => {
  const path = database();
  await interrupted(path);
  const ran: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    around: tampered(askingForTwo),
    script: [say("fine again")],
    tools: [quickTool("quick", { ran }), quickTool("wait", { ran })],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({
    kind: "stopped",
    reason: "runtime_error",
    code: "journal_mismatch",
    message:
      "effect 0.tool.call_1.1: expected the request that its outcome was recorded for, found another args",
  });
  expect(report.issues).toMatchObject([{ kind: "runtime", code: "journal_mismatch" }]);
  expect([ran, model.requests]).toEqual([[], []]);
  expect(await session.pending()).toEqual([]);
  expect(await session.run("on")).toMatchObject({ text: "fine again", report: { turnId: "s:turn:2" } });
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call quick",
    "tool: result quick done",
    "assistant: call wait",
    expect.stringContaining("It may have taken effect"),
    "user: on",
    "assistant: fine again",
  ]);
  expect(ran).toEqual([]);
});

/** A record as it was before outcomes had a version. */
const ofVersion1 = (text: string): string => text.replace(/"version":2,/, "");

test("[E8] an outcome that has digests of what it was recorded for, as earlier versions kept them, is known", async () => {
  const path = database();
  await interrupted(path);
  const ran: string[] = [];
  const changed: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    around: tampered((text) => {
      const older = ofVersion1(text)
        .replace('"tool":"quick","args":"{\\"n\\":1}"', `"tool":"quick","args":"${sha256('{"n":1}')}"`)
        .replace(
          /"messages":"(m_[^"]*)"/,
          (_, ids: string) => `"messages":"${sha256(JSON.parse(`"${ids}"`))}"`,
        );
      if (older !== ofVersion1(text)) changed.push(older);
      return older;
    }),
    script: [say("went on")],
    tools: [quickTool("quick", { ran }), quickTool("wait", { ran })],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report).toMatchObject({ text: "went on", issues: [] });
  expect([ran, model.requests.length, new Set(changed).size]).toEqual([["wait"], 1, 3]);
});

test("[E8] a model call that has all messages of the turn, as earlier versions kept them, is known, and another is not", async () => {
  const inRound =
    (round: number) =>
    ({ key }: JournalRecord) =>
      key === `${round}.model_call`;
  const withMessages = (text: string, messages: string): string =>
    ofVersion1(text).replace(/"messages":"[^"]*"/, `"messages":${JSON.stringify(messages)}`);
  const asked = (text: string): string => JSON.parse(text).outcome.asked.messages;
  const went = async (second: (first: string, own: string) => string): Promise<unknown> => {
    const path = database();
    await interrupted(path);
    let first = "";
    const { session } = await live({
      store: sqliteStore({ path }),
      around: tampered((text, record) => {
        if (inRound(0)(record)) first = asked(text);
        return inRound(1)(record) ? withMessages(text, second(first, asked(text))) : text;
      }),
      script: [say("went on")],
      tools: [quickTool("quick"), quickTool("wait")],
    });
    const { outcome, text } = await session.turn("go", { key: "k" }).result;
    return outcome.kind === "finished" ? text : outcome.code;
  };
  expect(await went((first) => first)).toBe("journal_mismatch"); // Nothing was added since.
  expect(await went((_, own) => own)).toBe("went on");
  const added = ["m_s:input:1.0.assistant.0", "m_s:input:1.0.tool.1"];
  expect(await went((first) => sha256([first, ...added].join("\n")))).toBe("went on");
  expect(await went((first) => sha256([first, ...added.toReversed()].join("\n")))).toBe("journal_mismatch");
});

test("[OV1] a model call of version 2 that has all messages of the turn is another one", async () => {
  const path = database();
  await interrupted(path);
  let first = "";
  const { session } = await live({
    store: sqliteStore({ path }),
    around: tampered((text, { key }) => {
      const own = /"messages":("[^"]*")/.exec(text)?.[1] ?? '""';
      if (key === "0.model_call") first = JSON.parse(own);
      const all = sha256(`${first}\nm_s:input:1.0.assistant.0\nm_s:input:1.0.tool.1`);
      return key === "1.model_call" ? text.replace(own, `"${all}"`) : text;
    }),
    tools: [quickTool("quick"), quickTool("wait")],
  });
  const { outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome).toMatchObject({ code: "journal_mismatch" });
});

test("[E8] a turn whose recorded tool is another now ends, and says so", async () => {
  const path = database();
  await interrupted(path);
  const { session } = await live({
    store: sqliteStore({ path }),
    around: tampered((text) => text.replaceAll('"name":"quick"', '"name":"wait"')),
    script: [say("fine again")],
    tools: [quickTool("quick"), quickTool("wait")],
  });
  expect((await session.turn("go", { key: "k" }).result).outcome).toMatchObject({
    code: "journal_mismatch",
    message:
      "effect 0.tool.call_1.1: expected the request that its outcome was recorded for, found another tool",
  });
  expect((await session.run("on")).text).toBe("fine again");
});

test("[E8] a model call that was made for other messages than there are now ends the turn", async () => {
  const path = database();
  const adding = plugin("watching", {
    turn: {
      checkpoint: () =>
        [{ kind: "enqueue_messages", messages: [{ role: "system", content: "Hm." }] }] as never,
    },
  });
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    plugins: [plugin("watching", { turn: { checkpoint: () => undefined } })],
    script: [callTool("quick"), callTool("wait")],
    tools: [quickTool("quick"), gatedTool("wait", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
  const { session } = await live({
    store: sqliteStore({ path }),
    plugins: [adding],
    around: async (method, call) => {
      const answer = await call();
      if (method !== "journal.read") return answer;
      // The hooks of the checkpoint are asked again, and there are others now.
      const records = answer as unknown as readonly JournalRecord[];
      return records.filter(({ key }) => !key.includes("checkpoint")) as never;
    },
    script: [say("fine again")],
    tools: [quickTool("quick"), quickTool("wait")],
  });
  expect((await session.turn("go", { key: "k" }).result).outcome).toMatchObject({
    reason: "runtime_error",
    code: "journal_mismatch",
    message:
      "effect 1.model_call: expected the request that its outcome was recorded for, found another messages",
  });
  expect(await session.pending()).toEqual([]);
});

test("[E8] an input that had joined a turn that a mismatch ends is part of it", async () => {
  const path = database();
  const [first, second] = [gate(), gate()];
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("quick", { n: 1 }), callTool("wait")],
    tools: [gatedTool("quick", first), gatedTool("wait", second)],
  });
  before.session.turn("go", { key: "k" });
  await first.begun;
  await before.session.enqueue("note", { key: "note" });
  first.open();
  await second.begun;
  await before.die();
  const { session } = await live({
    store: sqliteStore({ path }),
    around: tampered(askingForTwo),
    script: [say("heard")],
    tools: [quickTool("quick"), quickTool("wait")],
  });
  expect((await session.turn("go", { key: "k" }).result).outcome).toMatchObject({ code: "journal_mismatch" });
  expect(await session.turn("note", { key: "note" }).result).toMatchObject({
    turnId: "s:turn:1",
    outcome: { code: "journal_mismatch" },
  });
  expect((await session.run("on")).text).toBe("heard");
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call quick",
    "tool: result quick done",
    "user: note",
    "assistant: call wait",
    expect.stringContaining("It may have taken effect"),
    "user: on",
    "assistant: heard",
  ]);
});

test("[RV1] a turn that is interrupted in every recovery ends at the fourth, and the session goes on", async () => {
  const path = database();
  const script: ScriptFunction = ({ messages }) =>
    userTexts({ messages } as never).includes("on") ? say("fine again") : callTool("poison");
  const lives: number[] = [];
  for (let life = 1; life <= 4; life += 1) {
    const at = gate();
    const before = await mortal({ store: sqliteStore({ path }), script, tools: [gatedTool("poison", at)] });
    const turn = before.session.turn("go", { key: "k" });
    await at.begun;
    expect(turn.id).toBe("s:turn:1");
    lives.push(at.visits);
    if (life === 4) await before.session.enqueue("note", { key: "note" });
    await before.die();
  }
  expect(lives).toEqual([1, 1, 1, 1]);
  const at = gate();
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: (request) => (userTexts(request).includes("note") ? say("fine again") : callTool("poison")),
    tools: [gatedTool("poison", at)],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({
    kind: "stopped",
    reason: "runtime_error",
    code: "recovery_exhausted",
  });
  expect(await session.turn("note", { key: "note" }).result).toMatchObject({ text: "fine again" });
  expect(model.requests).toHaveLength(1);
  expect(at.visits).toBe(0);
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call poison",
    expect.stringContaining("It may have taken effect"),
    "user: note",
    "assistant: fine again",
  ]);
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

test("[RV1] a turn that its session finds again in the same runtime is not counted as recovered", async () => {
  const path = database();
  const at = gate();
  const { session } = await live({
    store: sqliteStore({ path }),
    script: [gatedStep(at, say("one")), say("two"), say("three"), say("four"), say("five")],
  });
  const turns = ["1", "2", "3", "4", "5"].map((text) => session.turn(text, { key: text }));
  await at.begun;
  at.open();
  const texts = await Promise.all(turns.map(async ({ result }) => (await result).text));
  expect(texts).toEqual(["one", "two", "three", "four", "five"]);
});
