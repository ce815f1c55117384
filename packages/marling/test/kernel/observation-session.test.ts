// session.observe: what clients of a running session see, and what those see who come back after a crash.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, defineTool, type Session, type SessionObservation, switchFrame } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { open, port, quiet, responseOf } from "./model-support.ts";
import { all, type Screen, screenOf, show, take } from "./observation-support.ts";

/** A client that stays: what it shows, and the cursor it would come back with. */
function client(session: Session, cursor?: string) {
  const abort = new AbortController();
  const shown = { screen: screenOf(session.read()), seen: [] as SessionObservation[] };
  const watching = (async () => {
    for await (const observation of session.observe({ cursor, signal: abort.signal })) {
      shown.seen.push(observation);
      shown.screen = show(shown.screen, observation);
    }
  })();
  return {
    leave: async (): Promise<string> => {
      await quiet();
      abort.abort();
      await watching;
      return shown.seen.at(-1)?.cursor ?? "";
    },
    screen: async (): Promise<Screen> => {
      await quiet();
      return shown.screen;
    },
    seen: shown.seen,
    ended: watching,
  };
}

/** A model that says what it is told to, when it is told to. */
function puppet() {
  const said = deferred<void>();
  const asked = deferred<(text: string) => void>();
  const model = port(async (sink) => {
    let whole = "";
    asked.resolve((text) => {
      whole += text;
      sink({ kind: "text_delta", text });
    });
    await said.promise;
    return responseOf(whole);
  });
  return { model, speaker: asked.promise, finish: () => said.resolve() };
}

test("a turn is seen live and settled by its commit, whose nodes are what the history got", async () => {
  const session = await open({ model: scriptedModel([say("Hello.", { chunks: ["Hel", "lo."] })]) });
  const watching = client(session);
  const { turnId, revision } = (await session.run("Hi")).report;
  expect(await watching.screen()).toEqual({ revision, settled: ["Hi", "Hello."], said: {} });
  expect(await watching.screen()).toEqual(screenOf(session.read()));
  const texts = watching.seen.flatMap((one) =>
    one.kind === "event" && one.event.kind === "text_delta" ? [one.event.text] : [],
  );
  expect(texts).toEqual(["Hel", "lo."]);
  const commits = watching.seen.filter(({ kind }) => kind === "committed");
  expect(commits).toEqual([
    {
      kind: "committed",
      cursor: expect.any(String),
      revision,
      turnId,
      nodes: (await session.history()).slice(1),
    },
  ]);
});

test("[OB4] a client that comes in the middle of an answer shows all of it", async () => {
  const { model, speaker, finish } = puppet();
  const session = await open({ model });
  const running = session.run("Hi");
  const speak = await speaker;
  speak("Half ");
  const late = client(session);
  speak("and half.");
  expect((await late.screen()).said).toEqual({ 0: "Half and half." });
  finish();
  await running;
  expect((await late.screen()).settled).toEqual(["Hi", "Half and half."]);
});

test("[OB3] a client that was away in the middle of an answer goes on where it was", async () => {
  const { model, speaker, finish } = puppet();
  const session = await open({ model });
  const running = session.run("Hi");
  const speak = await speaker;
  const before = client(session);
  speak("one ");
  const cursor = await before.leave();
  speak("two ");
  const back = client(session, cursor);
  speak("three");
  await back.screen();
  finish();
  await running;
  await back.screen();
  const words = [...before.seen, ...back.seen].flatMap((one) =>
    one.kind === "event" && one.event.kind === "text_delta" ? [one.event.text] : [],
  );
  expect(words).toEqual(["one ", "two ", "three"]);
  expect(back.seen.some(({ kind }) => kind === "gap")).toBe(false);
});

test("what is changed beside turns is told as commits without a turn", async () => {
  const session = await open({ model: scriptedModel([]) });
  const observed = take(session.observe(), 2);
  await session.appendNodes([{ kind: "message", message: { role: "user", content: "a note" } }]);
  await session.configure({ maxTurns: 3 });
  const { revision } = session.read();
  const seen = await observed;
  expect(seen.map(({ kind }) => kind)).toEqual(["committed", "committed"]);
  expect(seen.some((one) => "turnId" in one)).toBe(false);
  expect(seen.map((one) => one.kind === "committed" && one.revision)).toEqual([revision - 1, revision]);
});

test("[OB4] a turn that switches frames settles part by part under its own id", async () => {
  const next = defineTool({
    name: "next",
    description: "Goes on in another frame.",
    input: { type: "object" },
    execute: () => switchFrame({ key: "two", task: "Go on.", nodes: [] }),
  });
  const session = await open({ model: scriptedModel([callTool("next", {}), say("There.")]), tools: [next] });
  const watching = client(session);
  const { turnId } = (await session.run("Hi")).report;
  await watching.screen();
  const commits = watching.seen.flatMap((one) => (one.kind === "committed" ? [one.turnId] : []));
  expect(commits).toEqual([turnId, turnId]);
  expect(await watching.screen()).toEqual(screenOf(session.read()));
});

test("[OB4] a client that comes after a turn is not told of it", async () => {
  const session = await open({ model: scriptedModel([say("Hello.")]) });
  await session.run("Hi");
  const observed = all(session.observe());
  await session.close();
  expect(await observed).toEqual([]);
});

test("[OB8] closing the session ends the observation", async () => {
  const session = await open({ model: scriptedModel([say("Hello.")]) });
  const watching = client(session);
  await session.run("Hi");
  await session.close();
  await watching.ended;
  expect(watching.seen.some(({ kind }) => kind === "committed")).toBe(true);
});

test("[OB6] a session that was closed and opened again gives a gap", async () => {
  const runtime = createRuntime({ model: scriptedModel([say("Hello.")]) });
  onTestFinished(() => runtime.close());
  const first = await runtime.session("s");
  const watching = client(first);
  await first.run("Hi");
  await first.close();
  await watching.ended;
  const cursor = watching.seen.at(-1)?.cursor;
  const again = await runtime.session("s");
  expect(await take(again.observe({ cursor }), 1)).toEqual([
    { kind: "gap", cursor: expect.any(String), reason: "other_process", view: again.read() },
  ]);
});

test("[OB6] whoever comes back after a crash sees the turn again: the same text, calls and answer", async () => {
  const folder = mkdtempSync(join(tmpdir(), "marling-observation-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "agent.db");
  const steps = () =>
    scriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? say("Found it.")
        : callTool("look", {}, { text: "Let me look.", reasoning: "Hm." }),
    );
  const hanging = () => {
    const began = deferred<void>();
    const answer = deferred<string>();
    const execute = (): Promise<string> => {
      began.resolve();
      return answer.promise;
    };
    const look = defineTool({
      name: "look",
      description: "Looks.",
      input: { type: "object" },
      replay: "safe",
      execute,
    });
    return { look, began: began.promise, answer: answer.resolve };
  };
  const first = hanging();
  const store = sqliteStore({ path });
  const dying = await createRuntime({ model: steps(), tools: [first.look], store }).session("s");
  const before = client(dying);
  await dying.turn("Go", { key: "k" }).accepted;
  await first.began;
  const shownBefore = await before.screen();
  const cursor = before.seen.at(-1)?.cursor;
  expect(shownBefore).toMatchObject({ settled: [], said: { 0: "Let me look." } });
  await store.close();

  const second = hanging();
  const model = steps();
  const runtime = createRuntime({ model, tools: [second.look], store: sqliteStore({ path }) });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const back = client(session, cursor);
  await second.began;
  expect((await back.screen()).said).toEqual(shownBefore.said);
  expect(back.seen[0]).toMatchObject({ kind: "gap", reason: "other_process" });
  expect(model.requests).toHaveLength(0);
  second.answer("here");
  expect((await session.turn("Go", { key: "k" }).result).text).toBe("Found it.");
  expect(await back.screen()).toEqual(screenOf(session.read()));
});
