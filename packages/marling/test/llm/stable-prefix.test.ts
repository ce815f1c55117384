// What a provider's prompt cache lives by: each request begins with the bytes of the one before, over rounds, turns and
// restarts of the process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, definePlugin, defineTool, type ModelPort } from "marling";
import { sqliteStore } from "marling/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { anthropicModel, openaiModel } from "../../src/models.ts";
import { anthropicWire } from "./anthropic-wire.ts";
import { compatibleWire } from "./chat-wire.ts";
import type { Wire, WireAnswer } from "./wire.ts";
import { type SentRequest, type WireServer, wireServer } from "./wire-server.ts";

interface NativeWire {
  readonly name: string;
  readonly wire: Wire;
  model(url: string): ModelPort;
}

const NATIVE: readonly NativeWire[] = [
  {
    name: "Anthropic Messages",
    wire: anthropicWire,
    model: (url) => anthropicModel({ baseUrl: `${url}/v1`, apiKey: "k", model: "claude-sonnet-4-5" }),
  },
  {
    name: "Chat Completions",
    wire: compatibleWire,
    model: (url) => openaiModel({ baseUrl: `${url}/v1`, model: "local-model" }),
  },
];

const call = (id: string, args: string): NonNullable<WireAnswer["calls"]>[number] => ({
  id,
  name: "add",
  args: [args],
});

/** Two turns of two rounds, and one that only answers. */
const ANSWERS: readonly WireAnswer[] = [
  {
    reasoning: ["Let me see."],
    text: ["Adding."],
    calls: [call("call_1", '{"b":2,"a":1}')],
    finish: "calls",
  },
  { text: ["It is 3."] },
  {
    calls: [call("functions.add:0", '{"a":3, "b":4}'), call("call_3", "{oops")],
    finish: "calls",
  },
  { reasoning: ["Hm."], text: ["7, and “one” mistake.\n"] },
  { text: ["Grüße 👋"] },
];
const INPUTS = ["Add 1 and 2", 'Now "3" & 4', "Bye"];

describe.each(NATIVE)("$name", ({ wire, model }) => {
  const serve = (answers: readonly WireAnswer[]): Promise<WireServer> =>
    wireServer(answers.map((answer) => ({ kind: "stream", events: wire.events(answer) })));

  test("[LN12] the request of each round begins with the bytes of the one before", async () => {
    const server = await serve(ANSWERS);
    const runtime = runtimeOn(model(server.url), ":memory:");
    const session = await runtime.session("s");
    for (const input of INPUTS) await session.turn(input).result;
    expect(server.sent).toHaveLength(5);
    expectPrefixes(server.sent);
  });

  test("[LN12] so does the request of another process that goes on with the session", async () => {
    const folder = mkdtempSync(join(tmpdir(), "marling-prefix-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const server = await serve(ANSWERS);
    for (const input of INPUTS) {
      const runtime = runtimeOn(model(server.url), join(folder, "agent.db"));
      await (await runtime.session("s")).turn(input).result;
      await runtime.close();
    }
    expect(server.sent).toHaveLength(5);
    expectPrefixes(server.sent);
  });
});

test("[LN12] on Anthropic's wire at most four places are marked, the newest message of the user among them", async () => {
  const [anthropic] = NATIVE;
  const server = await wireServer(
    ANSWERS.map((answer) => ({ kind: "stream", events: anthropicWire.events(answer) })),
  );
  const runtime = runtimeOn(anthropic?.model(server.url) as ModelPort, ":memory:");
  const session = await runtime.session("s");
  for (const input of INPUTS) await session.turn(input).result;
  for (const { text, body } of server.sent) {
    expect(text.split(MARK).length - 1).toBeLessThanOrEqual(4);
    const last = (body.messages as readonly { readonly role: string; readonly content: unknown }[]).at(-1);
    expect(last?.role).toBe("user");
    expect(JSON.stringify(last)).toContain(MARK);
  }
});

const MARK = '"cache_control":{"type":"ephemeral"}';

/** A runtime whose prompt has parts of plugins, and whose state moves in every turn. */
function runtimeOn(model: ModelPort, path: string): ReturnType<typeof createRuntime> {
  const counting = definePlugin({
    id: "counting",
    build: (ctx) => {
      const turns = ctx.durable({ version: 1, initial: () => 0 });
      return {
        prompt: () => [{ slot: "guidance", content: "Count well." }],
        turn: { after: () => void turns.update((count) => count + 1) as undefined },
      };
    },
  });
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    input: { type: "object", properties: { b: { type: "number" }, a: { type: "number" } } },
    execute: ({ a, b }) => ({ sum: Number(a) + Number(b) }),
  });
  const store = path === ":memory:" ? {} : { store: sqliteStore({ path }) };
  const runtime = createRuntime({
    model,
    ...store,
    tools: [add],
    plugins: [counting()],
    instructions: "Be brief.",
  });
  onTestFinished(() => runtime.close());
  return runtime;
}

/** Marks for the cache move on; everything else in front of what is new is the same to the byte. */
function expectPrefixes(sent: readonly SentRequest[]): void {
  const parts = sent.map(({ text }) => split(text));
  for (const [index, { messages, rest }] of parts.entries()) {
    const before = parts[index - 1];
    if (before === undefined) continue;
    expect(rest).toBe(before.rest);
    expect(messages.slice(0, before.messages.length)).toBe(before.messages);
    expect(messages.length).toBeGreaterThan(before.messages.length);
  }
}

/** The text of the messages, without the end of their list, and that of everything else. */
function split(text: string): { readonly messages: string; readonly rest: string } {
  const plain = text.replaceAll(`,${MARK}`, "");
  const start = plain.indexOf('"messages":[');
  expect(start).toBeGreaterThan(0);
  const { messages } = JSON.parse(plain) as { readonly messages: unknown };
  const list = JSON.stringify(messages);
  expect(plain.slice(start + '"messages":'.length).startsWith(list)).toBe(true);
  return { messages: list.slice(0, -1), rest: plain.replace(list, "[]") };
}
