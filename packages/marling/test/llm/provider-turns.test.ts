// What a turn makes of a provider that fails, on every provider: what is waited for, what is tried again, what is never
// run, and what it all cost.

import { type Clock, createRuntime, defineTool, type RuntimeOptions, type Session } from "marling";
import { modelFallback } from "marling/plugins";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../src/base/clock.ts";
import { PROVIDERS, type Provider } from "./providers.ts";
import { type WireReply, type WireServer, wireServer } from "./wire-server.ts";

const CALL = { id: "call_1", name: "add", args: ['{"a":1,"b":2}'] };
/** Anthropic says at the beginning what a request costs; packages of the AI SDK tell it with the end of an answer only. */
const tellsEarly = ({ name }: Provider): boolean => name.startsWith("native anthropic");

describe.each(PROVIDERS)("$name", (provider) => {
  const { wire } = provider;
  const good = stream(wire.events({ text: ["Fine."] }));

  test("[LA6] 429 is waited for as long as it says, and the ledger has both attempts", async () => {
    const busy: WireReply = {
      kind: "refuse",
      ...wire.refusal("rate_limit"),
      headers: { "retry-after": "2" },
    };
    const { session, waits } = await open(provider, [busy, good]);
    const report = await session.turn("Hello").result;
    expect(report.text).toBe("Fine.");
    expect(waits).toEqual([2_000]);
    expect(report.modelCalls.map(({ attempt, outcome, code }) => [attempt, outcome, code])).toEqual([
      [1, "failed", "rate_limit"],
      [2, "completed", undefined],
    ]);
  });

  test("[LA3] an answer that breaks off, by its end or its connection, is asked for again and counts", async () => {
    const half = wire.events({ text: ["Half a"] }, { cutOff: true });
    const { session, server } = await open(provider, [stream(half), { ...stream(half), end: "reset" }, good]);
    const report = await session.turn("Hello").result;
    expect(report.text).toBe("Fine.");
    expect(server.sent).toHaveLength(3);
    expect(report.modelCalls.map(({ code }) => code)).toEqual(["truncated_stream", "network", undefined]);
    expect(session.read().messages.flatMap(({ parts }) => parts)).toHaveLength(2);
    const lost = tellsEarly(provider) ? 2 : 0;
    const { input, cacheRead, cacheWrite } = wire.usage;
    const spent = { input: input * (lost + 1), cacheRead: cacheRead * (lost + 1) };
    expect(report.usage).toMatchObject({ ...spent, cacheWrite: cacheWrite * (lost + 1) });
    expect(ledgerOf(session)).toEqual([report.usage]);
    expect(report.modelCalls[2]?.usage).toEqual(wire.usage);
  });

  test("[LA2] a call that is cut off never runs, and the answer is asked for again", async () => {
    const { session, ran } = await open(provider, [stream(wire.brokenCall), good]);
    const report = await session.turn("Add 1 and 2").result;
    expect(report.text).toBe("Fine.");
    expect(ran).toEqual([]);
    expect(report.toolCalls).toEqual([]);
    expect(report.modelCalls[0]).toMatchObject({ outcome: "failed", code: "truncated_stream" });
  });

  // Google's arguments are an object on the wire: they cannot be malformed.
  test.skipIf(provider.name.startsWith("google"))(
    "[LA2] malformed arguments never run; the model is told, and the next request is in order",
    async () => {
      const malformed = { ...CALL, args: ['{"a":1, oops"'] };
      const { session, ran, server } = await open(provider, [
        stream(wire.events({ calls: [malformed], finish: "calls" })),
        good,
      ]);
      const report = await session.turn("Add 1 and 2").result;
      expect(report.text).toBe("Fine.");
      expect(ran).toEqual([]);
      expect(report.toolCalls[0]?.output.outcome).toMatchObject({
        kind: "failure",
        code: "invalid_tool_args",
      });
      const { result } = wire.roundTrip(server.sent[1]?.body ?? {});
      expect(JSON.stringify(result)).toContain("expected arguments in JSON");
    },
  );

  test("[LA20] a call by a name that the provider would refuse to read again does not end the session", async () => {
    const odd = `functions/add me;\u001b[2J${"y".repeat(200)}`;
    const { session, server, ran } = await open(provider, [
      stream(wire.events({ calls: [{ ...CALL, name: odd }], finish: "calls" })),
      good,
    ]);
    expect((await session.turn("Add 1 and 2").result).text).toBe("Fine.");
    expect(ran).toEqual([]);
    const sent = namesIn(server.sent[1]?.body);
    expect(sent.length).toBeGreaterThan(0);
    for (const name of sent) expect(name).toBe(`functions_add_me___2J${"y".repeat(43)}`);
  });

  test("what a cancelled call had cost until then is in the ledger", async () => {
    const half = stream(wire.events({ text: ["Half a"] }, { cutOff: true }));
    const { session, server } = await open(provider, [{ ...half, end: "hang" }]);
    const turn = session.turn("Hello");
    for await (const event of turn) if (event.kind === "text_delta") await session.cancel("s:turn:1");
    const report = await turn.result;
    await server.left;
    expect(report.outcome).toMatchObject({ reason: "cancelled" });
    expect(report.modelCalls).toHaveLength(1);
    const spent = { input: 100, output: 1, cacheRead: 20, cacheWrite: 5, reasoning: 0 };
    expect(ledgerOf(session)).toEqual(tellsEarly(provider) ? [spent] : []);
  });
});

describe("a fallback in the middle of a turn", () => {
  const pairs = [
    ["native anthropic", "native openai-compatible"],
    ["native openai-compatible", "native anthropic"],
    ["native anthropic", "openai responses v4"],
    ["openai responses v3", "native anthropic"],
    ["google v4", "native openai chat"],
    ["native openai chat", "google v3"],
  ] as const;

  test.each(pairs)(
    "[LA7] from %s to %s: the round goes on, without the other's reasoning and ids",
    async (a, b) => {
      const [from, to] = [providerNamed(a), providerNamed(b)];
      const odd = { ...CALL, id: `functions.add:0/${"x".repeat(60)}` };
      const reasoning = from.wire.skips.reasoning === undefined ? { reasoning: ["SECRET THOUGHT"] } : {};
      const first = await wireServer([
        stream(from.wire.events({ ...reasoning, text: ["Adding."], calls: [odd], finish: "calls" })),
        { kind: "refuse", ...from.wire.refusal("auth") },
        stream(from.wire.events({ text: ["Back."] })),
      ]);
      const second = await wireServer([stream(to.wire.events({ text: ["It is 3."] }))]);
      const { session, ran } = await open(from, [], {
        model: { model: from.model(first.url), providerOptions: from.providerOptions },
        models: { other: { model: to.model(second.url), providerOptions: to.providerOptions } },
        plugins: [modelFallback({ models: ["other"] })],
      });
      const report = await session.turn("Add 1 and 2").result;
      expect(report.text).toBe("It is 3.");
      expect(ran).toEqual([{ a: 1, b: 2 }]);
      expect(report.modelCalls.map(({ model, outcome }) => [model, outcome])).toEqual([
        ["default", "completed"],
        ["default", "failed"],
        ["other", "completed"],
      ]);
      const sent = JSON.stringify(second.sent[0]?.body);
      expect(sent).toContain("Adding.");
      expect(sent).not.toContain("SECRET THOUGHT");
      expect(sent).not.toContain("SIGNED");
      expect(sent).not.toContain("functions.add:0");
      const ids = callIds(second.sent[0]?.body);
      for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{1,40}$/);
      expect(new Set(ids).size).toBeLessThanOrEqual(1);
      expect((await session.turn("And now?").result).text).toBe("Back.");
      expect(JSON.stringify(first.sent[2]?.body)).toContain("It is 3.");
    },
  );
});

function ledgerOf(session: Session): readonly unknown[] {
  return session.usage().entries.map(({ usage }) => usage);
}

/** The names of calls and results in a request that are not those of its tools. */
function namesIn(body: unknown): readonly string[] {
  const { tools: _offered, ...rest } = body as Record<string, unknown>;
  const found: string[] = [];
  JSON.stringify(rest, (key, value: unknown) => {
    if (key === "name" && typeof value === "string") found.push(value);
    return value;
  });
  return found;
}

/** Every id of a call or of a result in a request, on whichever wire. */
function callIds(value: unknown, found: string[] = []): readonly string[] {
  if (typeof value !== "object" || value === null) return found;
  const { type, id, call_id, tool_call_id, tool_use_id } = value as Record<string, unknown>;
  const own = type === "tool_use" || type === "function" ? id : undefined;
  for (const one of [own, call_id, tool_call_id, tool_use_id]) if (typeof one === "string") found.push(one);
  for (const member of Object.values(value)) callIds(member, found);
  return found;
}

interface Opened {
  readonly session: Session;
  readonly server: WireServer;
  readonly ran: readonly unknown[];
  /** How long was waited before another attempt. */
  readonly waits: readonly number[];
}

async function open(
  provider: Provider,
  replies: readonly WireReply[],
  options: RuntimeOptions = {},
): Promise<Opened> {
  const server = await wireServer(replies);
  const ran: unknown[] = [];
  const waits: number[] = [];
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    input: z.object({ a: z.number(), b: z.number() }),
    execute: (args) => {
      ran.push(args);
      return args.a + args.b;
    },
  });
  const clock: Clock = { ...systemClock, sleep: async (ms) => void waits.push(ms) };
  const { providerOptions } = provider;
  const runtime = createRuntime({
    model: { model: provider.model(server.url), providerOptions },
    tools: [add],
    clock,
    ...options,
  });
  onTestFinished(() => runtime.close());
  return { session: await runtime.session("s"), server, ran, waits };
}

function stream(events: readonly string[]): Extract<WireReply, { kind: "stream" }> {
  return { kind: "stream", events };
}

function providerNamed(name: string): Provider {
  const found = PROVIDERS.find((provider) => provider.name === name);
  if (found === undefined) throw new Error(`no provider ${name}`);
  return found;
}
