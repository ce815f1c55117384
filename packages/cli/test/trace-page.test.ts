// The page of a trace: what it shows, and that nothing in a trace becomes part of the page. trace-page.ts, TP1 and TP2.

import { createHash } from "node:crypto";
import { createRuntime, defineTool, type TraceRecord, toolFailure } from "marling";
import { callTools, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { pageSections } from "../src/trace-page/page-rows.ts";
import { turnUsage } from "../src/trace-page/turn-usage.ts";
import { renderTracePage } from "../src/trace-page.ts";

const HOSTILE = `</script><img src=x onerror=alert(1)>"'&\u2028`;

const NO_USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

function span<Kind extends TraceRecord["kind"]>(
  kind: Kind,
  {
    id,
    below,
    at = 0,
    took = 0,
  }: { readonly id: string; readonly below?: string; readonly at?: number; readonly took?: number },
  payload: TraceRecord<Kind>["payload"],
): TraceRecord {
  const parent = below === undefined ? {} : { parentId: below };
  const head = {
    sessionId: "s",
    owner: "me",
    turnId: "s:turn:1",
    spanId: id,
    ...parent,
    at,
    durationMs: took,
  };
  return { kind, ...head, payload } as TraceRecord; // the payload is that of the kind
}

/** A turn with one call that a model asks for, and everything named as an attacker would name it. */
function hostileTrace(): readonly TraceRecord[] {
  const outcome = { kind: "failure", code: HOSTILE } as const;
  return [
    span("turn_started", { id: "t" }, { inputId: HOSTILE, isRecovery: false }),
    span(
      "tool_call",
      { id: "c", below: "t", at: 1, took: 5 },
      { name: HOSTILE, callId: HOSTILE, outcome, content: { args: { [HOSTILE]: HOSTILE } } },
    ),
    span("hook", { id: "h", below: "t" }, { hook: HOSTILE, pluginId: HOSTILE, runs: 1, busyMs: 0 }),
    span("custom", { id: "n", below: "t" }, { name: HOSTILE, context: {}, payload: HOSTILE }),
    ...["turn_started", "turn"].map(
      (kind) =>
        ({
          ...span(
            "turn",
            { id: HOSTILE, took: 10 },
            {
              outcome: { kind: "stopped", reason: HOSTILE },
              usage: NO_USAGE,
              childUsage: [],
              rounds: 0,
              replays: 0,
            },
          ),
          kind,
          sessionId: HOSTILE,
          turnId: HOSTILE,
          owner: HOSTILE,
        }) as TraceRecord,
    ),
  ];
}

/** The block of JSON that the page's code reads. */
function dataOf(page: string): {
  readonly sections: readonly { readonly rows: readonly { readonly label: string }[] }[];
} {
  const block = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(page)?.[1] ?? "";
  return JSON.parse(block);
}

async function realTrace(): Promise<readonly TraceRecord[]> {
  const records: TraceRecord[] = [];
  const read = defineTool({
    name: "read_file",
    description: "Reads.",
    input: z.object({ path: z.string() }),
    execute: ({ path }) =>
      path === "no"
        ? toolFailure({ code: "not_found", message: "no such file", class: "execution" })
        : "text",
  });
  const usage = { usage: { input: 1_000, output: 100, cacheRead: 2_000 } };
  const runtime = createRuntime({
    tools: [read],
    trace: { record: (record) => void records.push(record) },
    model: scriptedModel([
      failWith({ kind: "overloaded", retryAfterMs: 0 }),
      callTools(
        [
          ["read_file", { path: "a" }],
          ["read_file", { path: "no" }],
        ],
        usage,
      ),
      say("Done.", usage),
    ]),
  });
  onTestFinished(() => runtime.close());
  await (await runtime.session("s")).turn("Go").result;
  return records;
}

describe("safety", () => {
  test("[TP1] nothing in a trace ends a block, opens an element or leaves an attribute", () => {
    const page = renderTracePage(hostileTrace(), { title: HOSTILE, currency: HOSTILE, prices: {} });
    expect(page.includes("<img")).toBe(false);
    expect(page.match(/<\/script>/g)).toHaveLength(2);
    expect(page.match(/<script/g)).toHaveLength(2);
    expect(/id="data">(.*)/.exec(page)?.[1]?.includes("\u2028")).toBe(false);
    expect(page).toContain("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;");
    for (const attribute of page.matchAll(/ (?:title|content|data-turn)="([^"]*)"/g))
      expect(attribute[1]).not.toMatch(/[<>]/);
  });

  test("[TP1] what the code of the page reads is what the trace said", () => {
    const labels = dataOf(renderTracePage(hostileTrace())).sections.flatMap(({ rows }) =>
      rows.map(({ label }) => label),
    );
    expect(labels.filter((label) => label === HOSTILE)).toHaveLength(3);
  });

  test("[TP2] the page's policy names its one script, allows no request, and no code of the page makes HTML of text", () => {
    const page = renderTracePage(hostileTrace());
    const script = /<script>(.*?)<\/script>/s.exec(page)?.[1] ?? "";
    const digest = createHash("sha256").update(script).digest("base64");
    expect(page).toContain(`script-src 'sha256-${digest}'`);
    expect(page).toContain("default-src 'none'");
    expect(page).not.toMatch(/https?:\/\//);
    expect(script).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(/);
    expect(page).not.toMatch(/ (?:on\w+|style)="/);
  });
});

describe("what it shows", () => {
  test("rows are a tree in the order things began, with calls that ran at once on rows of their own", async () => {
    const [section] = pageSections(await realTrace());
    const rows = (section?.rows ?? []).filter(({ kind }) => !["hook", "commit", "note"].includes(kind));
    expect(rows.map(({ depth, label, status }) => `${"  ".repeat(depth)}${label} ${status}`)).toEqual([
      "Turn ok",
      "  Round 1 ok",
      "    default ok",
      "      Attempt 1 failed",
      "      Attempt 2 ok",
      "    read_file ok",
      "    read_file failed",
      "  Round 2 ok",
      "    default ok",
    ]);
    expect(rows[2]?.detail).toBe("1 retry · 3,000 → 100 tokens");
    expect(rows[6]?.detail).toBe("not_found");
  });

  test("usage and cost are summed by turn, with the price of what was read from a cache", async () => {
    const records = await realTrace();
    const prices = { default: { input: 3, output: 15, cacheRead: 0.3 } };
    expect(turnUsage(records, prices)).toMatchObject([
      {
        session: "s",
        turn: "s:turn:1",
        outcome: "finished",
        isFailed: false,
        rounds: 2,
        requests: 3,
        tools: 2,
        input: 2_000,
        output: 200,
        cacheRead: 4_000,
      },
    ]);
    expect(turnUsage(records, prices)[0]?.cost).toBeCloseTo(0.0102, 6);
    expect(renderTracePage(records, { prices })).toContain("<dt>Cost</dt><dd>$0.0102</dd>");
    expect(renderTracePage(records)).not.toContain("<dt>Cost</dt>");
    expect(turnUsage(records, { other: { input: 1, output: 1 } })[0]?.cost).toBeUndefined();
  });

  test("totals, a table of turns and ways to filter are there, and reachable by keyboard", async () => {
    const page = renderTracePage(await realTrace());
    expect(page).toContain("<h1>Session s</h1>");
    expect(page).toContain("<dt>Model calls</dt><dd>2</dd><small>1 retry</small>");
    expect(page).toContain('<dt>Tool calls</dt><dd>2</dd><small class="bad">1 failed</small>');
    expect(page).toContain('<select id="session" aria-label="Session">');
    expect(page).toMatch(/id="rows" role="tree" tabindex="0"/);
    expect(page).toContain('<th scope="col">Turn</th>');
  });

  test("a span that never ended is open until its section ends, a replayed call says so, a second run is another section", () => {
    const ended = { usage: NO_USAGE, childUsage: [], rounds: 1, replays: 1 };
    const sections = pageSections([
      span("turn_started", { id: "1" }, { inputId: "i", isRecovery: false }),
      span("tool_started", { id: "1c", below: "1", at: 4 }, { name: "slow", callId: "c" }),
      span("round", { id: "1r", below: "1", took: 20 }, { round: 0 }),
      span(
        "tool_attempt",
        { id: "2a", below: "2c", at: 60 },
        {
          name: "slow",
          callId: "c",
          attempt: 1,
          replay: "safe",
          outcome: { kind: "success" },
          replayed: true,
          isCut: false,
          ranMs: 9,
        },
      ),
      span(
        "tool_call",
        { id: "2c", below: "2", at: 60, took: 1 },
        { name: "slow", callId: "c", outcome: { kind: "success" } },
      ),
      span("turn", { id: "2", at: 50, took: 30 }, { outcome: { kind: "finished", by: "message" }, ...ended }),
    ]);
    expect(sections.map(({ run, start, duration }) => ({ run, start, duration }))).toEqual([
      { run: 1, start: 0, duration: 20 },
      { run: 2, start: 50, duration: 30 },
    ]);
    expect(sections[0]?.rows.find(({ label }) => label === "slow")).toMatchObject({
      status: "open",
      start: 4,
      duration: 16,
    });
    expect(sections[1]?.rows.find(({ label }) => label === "slow")).toMatchObject({
      status: "ok",
      replayed: true,
    });
  });

  test("a trace that is empty, or whose payloads are not what they should be, still has a page", () => {
    expect(renderTracePage([])).toContain("<h1>Empty trace</h1>");
    const kinds = [
      "turn",
      "round",
      "model_call",
      "model_attempt",
      "tool_call",
      "tool_attempt",
      "hook",
      "effect",
      "commit",
      "recovery",
      "custom",
    ] as const;
    const odd = kinds.map(
      (kind, index) =>
        ({
          ...span("round", { id: `${index}`, below: `${index}` }, { round: 0 }),
          kind,
          payload: {},
        }) as unknown as TraceRecord,
    );
    expect(renderTracePage(odd)).toContain("11 records");
  });

  test("twenty thousand records make a page whose rows are drawn when they are seen", () => {
    const records = Array.from({ length: 20_000 }, (_none, index) =>
      span(
        "hook",
        { id: `h${index}`, below: "t", at: index, took: 1 },
        { hook: "turn.before", pluginId: "p", runs: 1, busyMs: 1 },
      ),
    );
    const page = renderTracePage([
      span("turn_started", { id: "t" }, { inputId: "i", isRecovery: false }),
      ...records,
    ]);
    expect(dataOf(page).sections[0]?.rows).toHaveLength(20_001);
    expect(page.match(/<div/g)?.length).toBeLessThan(40);
    expect(page.length).toBeLessThan(12_000_000);
  });
});
