// Files that were written by version 2 of the store, by processes that were killed or closed in the middle of their work
// (fixtures/v2/write.mjs). Every later version opens them and finishes everything that is in them. A new stored format
// gets files of its own; these are never written again.

import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRuntime, type HistoryNode, type MessagePart, type Runtime, type Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { scriptedModel } from "marling/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { sessionId } from "../../src/model/ids.ts";
import { PROGRAMS } from "./fixtures/v2/world.mjs";
import { query, temporaryFolder } from "./sqlite-support.ts";

// Runtimes find work by a poll, and on a busy machine that may take its time.
vi.setConfig({ testTimeout: 60_000 });

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/v2/${name}`, import.meta.url));

interface Opened {
  readonly runtime: Runtime;
  /** What the program has noted since. */
  readonly notes: readonly string[];
  /** Resolves when nothing is left to be done in the file: no input, no delivery, no journal, no work. */
  finished(): Promise<void>;
}

/** A runtime with the program that wrote a file, on a copy of that file. */
function open(name: string): Opened {
  const program = PROGRAMS[name];
  if (program === undefined) throw new Error(`expected a program named ${name}, found none`);
  const path = join(temporaryFolder(), "store.db");
  copyFileSync(fixture(`${name}.db`), path);
  const notes: string[] = [];
  const world = { cut: () => undefined, note: (text: string) => void notes.push(text) };
  const runtime = createRuntime({
    ...program.options?.(world),
    store: sqliteStore({ path }),
    model: scriptedModel((request) => program.answer(request, world)),
    owner: "finisher",
  });
  onTestFinished(() => runtime.close());
  const finished = async (): Promise<void> => {
    await runtime.close();
    for (const table of ["inbox", "journal", "deliveries", "works", "outbox"])
      expect({ table, rows: await query(path, `SELECT * FROM ${table}`) }).toEqual({ table, rows: [] });
    const held = "SELECT session FROM leases WHERE owner IS NOT NULL";
    expect(await query(path, held)).toEqual([]);
    expect(await query(path, "SELECT no FROM waits WHERE over_at IS NULL")).toEqual([]);
    expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  };
  return { runtime, notes, finished };
}

/** The whole history of a session, a line for each node. */
async function told(session: Session): Promise<readonly string[]> {
  return (await session.history()).map(line);
}

function line(node: HistoryNode): string {
  if (node.kind === "frame_open") return `frame: ${node.reason}`;
  if (node.kind === "message") return `${node.message.role}: ${node.message.parts.map(partText).join(" + ")}`;
  return node.kind === "plugin" ? `${node.type}: ${JSON.stringify(node.body)}` : node.kind;
}

function partText(part: MessagePart): string {
  if (part.kind === "text" || part.kind === "prose") return part.text;
  if (part.kind === "tool_call") return `${part.name}${JSON.stringify(part.args)}`;
  if (part.kind === "attachment") return `[${part.source.mediaType}]`;
  return part.kind === "tool_result" ? `${part.isError === true ? "failed" : "->"} ${part.text}` : part.kind;
}

const TURN = { before: 1, after: 1 };
const hooks = (session: Session): Promise<unknown> => session.query("counting.seen", {});

test("[SL9] committed turns with bytes, frames and a compaction are read, and the session goes on", async () => {
  const { runtime, finished } = open("committed");
  expect(await runtime.recover()).toMatchObject({ resumed: [], resumedWork: [], skipped: [] });
  const session = await runtime.session("s");
  expect(await hooks(session)).toEqual({ before: 6, after: 6, tool_before: 3, tool_after: 3 });
  expect(session.read().frames.map(({ reason, status }) => [reason, status])).toEqual([
    ["initial", "superseded"],
    ["switch", "superseded"],
    ["compaction", "active"],
  ]);
  expect(session.usage().entries).toMatchObject([
    { source: "turn", model: "default", usage: { input: 35, output: 15 } },
  ]);
  expect(await session.turn("hello", { key: "hello" }).result).toMatchObject({
    turnId: "s:turn:1",
    text: "Answer to hello.",
  });
  await session.turn("more").result;
  expect(await told(session)).toEqual([
    "frame: initial",
    "user: hello",
    "assistant: Answer to hello.",
    "user: what is this + [image/png]",
    "assistant: Answer to what is this.",
    "user: look twice",
    'assistant: look{"at":"a"} + photo{}',
    'tool: -> {"at":"a","name":"look"} + -> {"picture":[attachment 1]} + [image/png]',
    "assistant: Answer to look twice.",
    'mark: {"at":1}',
    "user: leave",
    "assistant: leave{}",
    "tool: -> null",
    "frame: switch",
    "user: the task",
    "assistant: Answer to the task.",
    "frame: compaction",
    "user: It was about letters.",
    "user: and now",
    "assistant: Answer to and now.",
    "user: more",
    "assistant: Answer to more.",
  ]);
  await finished();
});

test.each(["cut-in-model", "cut-in-tool"])(
  "[E19] a runtime without the tools of a turn that an older version cut leaves it: %s",
  async (name) => {
    const path = join(temporaryFolder(), "store.db");
    copyFileSync(fixture(`${name}.db`), path);
    const { tools, ...options } =
      PROGRAMS[name]?.options?.({ cut: () => undefined, note: () => undefined }) ?? {};
    expect(tools).toBeDefined();
    const runtime = createRuntime({ ...options, store: sqliteStore({ path }), model: scriptedModel([]) });
    onTestFinished(() => runtime.close());
    const before = await query(path, "SELECT at, entry, outcome FROM journal");
    const session = await runtime.sessions.open("s");
    expect(session.isReadOnly).toBe(true);
    await expect(session.run("more")).rejects.toMatchObject({
      code: "needs_binding",
      details: { missing: ["tool source host_tools"] },
    });
    expect((await runtime.recover()).resumed).toEqual([]);
    expect(await query(path, "SELECT at, entry, outcome FROM journal")).toEqual(before);
  },
);

test("[SL9] bytes that a session names are read from the file", async () => {
  const path = join(temporaryFolder(), "store.db");
  copyFileSync(fixture("committed.db"), path);
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  const pictures = (await store.load(sessionId("s")))?.nodes.flatMap((node) =>
    [...JSON.stringify(node).matchAll(/sha256:[0-9a-f]{64}/g)].map(([ref]) => ref),
  );
  expect(pictures).toHaveLength(1);
  const bytes = await store.blobs.get(pictures?.[0] ?? "");
  expect(new TextDecoder().decode(bytes)).toBe("a picture ".repeat(30));
});

test("[SL9] a turn that was cut in a model call finishes with its tools' results and its hooks' state, and what waits behind it runs", async () => {
  const { runtime, finished } = open("cut-in-model");
  expect((await runtime.recover()).resumed.map(({ turnId }) => turnId)).toEqual(["s:turn:1", "s:turn:2"]);
  const session = await runtime.session("s");
  expect(await told(session)).toEqual([
    "frame: initial",
    "user: go",
    'assistant: look{"at":"a"} + pay{"cents":5}',
    'tool: -> {"at":"a","name":"look"} + -> {"cents":5,"name":"pay"}',
    "assistant: looked and paid",
    "user: queued",
    "assistant: Answer to queued.",
  ]);
  expect(await hooks(session)).toEqual({ before: 2, after: 2, tool_before: 2, tool_after: 2 });
  const { toolCalls } = await session.turn("go", { key: "go" }).result;
  expect(toolCalls.map(({ name }) => name)).toEqual(["look", "pay"]);
  await finished();
});

test("[SL9] a turn that was cut in an unsafe tool finishes without calling it again", async () => {
  const { runtime, finished } = open("cut-in-tool");
  await runtime.recover();
  const session = await runtime.session("s");
  expect(await told(session)).toEqual([
    "frame: initial",
    "user: go",
    "assistant: gather{}",
    'tool: -> [{"at":"x","name":"look"},{"at":"y","name":"look"}]',
    'assistant: look{"at":"b"} + pay{"cents":5}',
    expect.stringMatching(/^tool: -> {"at":"b","name":"look"} \+ failed .*may have taken effect/s),
    "assistant: told what is known",
  ]);
  expect(await hooks(session)).toEqual({ ...TURN, tool_before: 5, tool_after: 5 });
  const { toolCalls } = await session.turn("go", { key: "go" }).result;
  expect(toolCalls.at(-1)).toMatchObject({
    name: "pay",
    output: { outcome: { kind: "failure", code: "unknown_outcome" } },
  });
  await finished();
});

test("[SL9] an input that was to join a turn that was cut joins it", async () => {
  const { runtime, finished } = open("cut-with-input");
  expect((await runtime.recover()).resumed.map(({ turnId }) => turnId)).toEqual(["s:turn:1"]);
  expect(await told(await runtime.session("s"))).toEqual([
    "frame: initial",
    "user: go",
    "assistant: work{}",
    "tool: -> worked",
    "user: and this",
    "assistant: Answer to and this.",
  ]);
  await finished();
});

test("[SL9] turns that sleep are woken by a decision and by a result", async () => {
  const { runtime, finished } = open("sleeping");
  const [question, ...others] = await runtime.approvals.list();
  expect(others).toEqual([]);
  expect(question).toMatchObject({ sessionId: "asks", toolName: "pay", args: { cents: 5 } });
  if (question === undefined) throw new Error("expected a question, found none");
  expect(await runtime.approvals.decide(question, { decision: "allow", actor: "somebody" })).toBe("decided");
  const key = readFileSync(fixture("sleeping.note"), "utf8");
  expect(await runtime.resolve(key, { ok: "confirmed" })).toBe("resolved");
  await runtime.recover();
  const asks = await runtime.session("asks");
  const waits = await runtime.session("waits");
  expect(await told(asks)).toEqual([
    "frame: initial",
    "user: pay",
    'assistant: pay{"cents":5}',
    "tool: -> paid",
    "assistant: pay: done",
  ]);
  expect(await told(waits)).toEqual([
    "frame: initial",
    "user: order",
    'assistant: order{"dish":"soup"}',
    "tool: -> confirmed",
    "assistant: order: done",
  ]);
  for (const session of [asks, waits])
    expect(await hooks(session)).toEqual({ ...TURN, tool_before: 1, tool_after: 1 });
  await finished();
});

test("[SL9] a durable task that was cut goes on behind the step whose outcome is stored", async () => {
  const { runtime, notes, finished } = open("task");
  expect((await runtime.recover()).resumedWork).toMatchObject([{ sessionId: "s" }]);
  const session = await runtime.session("s");
  const task = () => session.tasks.list().find(({ id }) => id === "index");
  await vi.waitFor(() => expect(task()?.state).toBe("completed"), { timeout: 30_000 });
  expect(task()).toMatchObject({ result: "one two", attempt: 2 });
  expect(notes).toEqual([]);
  expect(await told(session)).toEqual([
    "frame: initial",
    "user: index",
    "assistant: begin{}",
    "tool: -> begun",
    "assistant: indexing",
  ]);
  await finished();
});

test("[SL9] what occurred is delivered to every subscription, and subscriptions go on", async () => {
  const { runtime, finished } = open("triggers");
  await runtime.recover();
  const session = await runtime.session("s");
  const event = { source: "mail.received", payload: { subject: "hello" }, at: 0 };
  expect(await runtime.triggers.emit({ ...event, key: "m1" })).toMatchObject({ status: "duplicate" });
  const heard = (): Promise<readonly string[]> =>
    told(session).then((lines) => lines.flatMap((text) => /"subscription": "(\w+)"/.exec(text)?.[1] ?? []));
  expect(await heard()).toEqual(["first", "second"]);
  await runtime.triggers.emit({ ...event, key: "m2" });
  await runtime.recover();
  expect((await heard()).toSorted()).toEqual(["first", "first", "second", "second"]);
  expect((await told(session)).slice(0, 3)).toEqual([
    "frame: initial",
    "user: listen",
    "assistant: Answer to listen.",
  ]);
  await finished();
});

test("[SL9] a fork finishes its own turn and leaves its source alone", async () => {
  const { runtime, finished } = open("fork");
  await runtime.recover();
  const session = await runtime.session("s");
  const fork = await runtime.session("fork");
  const shared = ["frame: initial", "user: one", "assistant: Answer to one in s."];
  expect(await told(session)).toEqual([...shared, "user: two", "assistant: Answer to two in s."]);
  expect(await told(fork)).toEqual([
    ...shared,
    "user: two",
    "assistant: Answer to two in fork.",
    "user: three",
    "assistant: Answer to three in fork.",
  ]);
  expect(await hooks(session)).toEqual({ before: 2, after: 2 });
  expect(await hooks(fork)).toEqual({ before: 3, after: 3 });
  const first = await runtime.sessions.fork("fork", { as: "again", at: "n_s/turn:s:turn:1/1" });
  expect(await told(first)).toEqual(shared);
  expect(await hooks(first)).toEqual(TURN);
  await finished();
});

test("[SL9] a turn finishes with the answers of the sessions below it, one of which was cut", async () => {
  const { runtime, finished } = open("child");
  await runtime.recover();
  const ids = (await runtime.sessions.list()).items.map(({ id }) => id);
  expect(ids).toEqual(["s", "s:agent:looker", "s:agent:rester"]);
  expect(await told(await runtime.session("s"))).toEqual([
    "frame: initial",
    "user: go",
    'assistant: spawn{"task":"rest","name":"rester"} + spawn{"task":"look","name":"looker"}',
    'tool: -> {"sessionId":"s:agent:rester","text":"rested"} + -> {"sessionId":"s:agent:looker","text":"reported"}',
    "assistant: reported",
  ]);
  expect(await told(await runtime.session("s:agent:looker"))).toEqual([
    "frame: initial",
    "user: look",
    'assistant: look{"at":"it"}',
    'tool: -> {"seen":"it"}',
    "assistant: reported",
  ]);
  expect(await told(await runtime.session("s:agent:rester"))).toEqual([
    "frame: initial",
    "user: rest",
    "assistant: rested",
  ]);
  await finished();
});

test("[SL9] the turn of a tenant that was cut is finished for that tenant", async () => {
  const { runtime, finished } = open("tenants");
  expect((await runtime.recover()).resumed).toEqual([
    { sessionId: "s", turnId: "s:turn:1", tenant: "south" },
  ]);
  const said = async (of: Pick<Runtime, "session">): Promise<readonly string[]> =>
    told(await of.session("s"));
  expect(await said(runtime)).toEqual(["frame: initial", "user: nobody's", "assistant: Answer to nobody's."]);
  expect(await said(runtime.scope("north"))).toEqual([
    "frame: initial",
    "user: talk",
    "assistant: Answer to talk.",
  ]);
  expect(await said(runtime.scope("south"))).toEqual([
    "frame: initial",
    "user: work",
    'assistant: look{"at":"south"}',
    'tool: -> {"at":"south","name":"look"}',
    "assistant: Answer to work.",
  ]);
  await finished();
});
