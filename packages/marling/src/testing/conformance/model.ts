// The suite that every model port passes: limits of an answer, and keys in failures. It asserts by itself and takes the test
// runner as an argument, so that it runs under any. A harness plays the service behind the port.
//   MP1  an answer within its limits is a response.
//   MP2  an answer without end is left at its limits, with `answer_limit`: the service sees that, having sent little more.
//   MP3  what cannot be counted can be aborted: a service that sends nothing of use for ever.
//   MP4  a refusal without end is a failure.
//   MP5  no failure repeats the key that was sent, in whatever form a service gives it back.

import assert from "node:assert/strict";
import type { ModelOutcome, ModelPort, ModelRequest, ModelStreamPart } from "../../index.ts";
import type { SuiteApi } from "./store.ts";

/** What the service does when it is asked. */
export type ModelPlay =
  /** Answers with this text. */
  | { readonly kind: "text"; readonly text: string }
  /** Goes on for ever with one thing, as fast as it is read. */
  | {
      readonly kind: "endless";
      readonly of: "text" | "reasoning" | "arguments" | "calls" | "line" | "comments" | "refusal" | "headers";
    }
  /** Sends one byte now and then, for ever, none of which is a part of an answer. */
  | { readonly kind: "drip" }
  /** Refuses, and repeats this text in every place that a refusal has: message, code, headers. */
  | { readonly kind: "refusal"; readonly text: string };

/** One port for one case, and the service behind it. */
export interface ModelHarness {
  readonly port: ModelPort;
  /** The key that the port sends; missing where it sends none. */
  readonly key?: string;
  /** Resolves when the service has seen that the port left. */
  readonly left: Promise<void>;
  /** Bytes that the service has sent. */
  sent(): number;
  close(): Promise<void>;
}

export interface ModelConformance {
  open(play: ModelPlay): Promise<ModelHarness>;
  /** Reasons why cases are not run, by what is played (`reasoning`) or by rule. They show in the report. */
  readonly skip?: Readonly<Record<string, string>>;
}

const LIMITS = { answerBytes: 64 * 1024, answerCalls: 16, answerMs: Number.POSITIVE_INFINITY };
/** What a service may have sent when it is left: the limits, what is around them, and the buffers on the way. */
const MOST_SENT = 16 * 1024 * 1024;

interface ModelCase {
  readonly rule: string;
  readonly title: string;
  readonly play: ModelPlay;
  run(called: Played): Promise<void>;
}

interface Played {
  readonly harness: ModelHarness;
  call(
    signal?: AbortSignal,
  ): Promise<{ readonly outcome: ModelOutcome; readonly parts: readonly ModelStreamPart[] }>;
}

const LIMITED = ["text", "reasoning", "arguments", "calls", "line"] as const;
const UNCOUNTED: readonly ModelPlay[] = [{ kind: "endless", of: "comments" }, { kind: "drip" }];
const UNENDING = ["refusal", "headers"] as const;

const CASES: readonly ModelCase[] = [
  {
    rule: "MP1",
    title: "an answer within its limits is a response",
    play: { kind: "text", text: "x".repeat(LIMITS.answerBytes / 2) },
    run: async ({ call }) => {
      const { outcome } = await call();
      assert.equal(outcome.kind, "response", JSON.stringify(outcome).slice(0, 500));
    },
  },
  ...LIMITED.map(
    (of): ModelCase => ({
      rule: "MP2",
      title: `endless ${of} is left with answer_limit`,
      play: { kind: "endless", of },
      run: expectLimit,
    }),
  ),
  ...UNCOUNTED.map(
    (play): ModelCase => ({
      rule: "MP3",
      title: `${play.kind === "endless" ? `endless ${play.of}` : "a drip"} can be aborted`,
      play,
      run: expectAbort,
    }),
  ),
  ...UNENDING.map(
    (of): ModelCase => ({
      rule: "MP4",
      title: `endless ${of} are a failure`,
      play: { kind: "endless", of },
      run: async ({ harness, call }) => {
        const { outcome } = await call();
        assert.equal(outcome.kind, "failure");
        await expectLeft(harness);
      },
    }),
  ),
];

/** Declares the tests of model ports for one of them. Each case gets a port and a service of its own. */
export function modelConformance(name: string, conformance: ModelConformance, api: SuiteApi): void {
  api.describe(`model port: ${name}`, () => {
    for (const item of CASES) declare(item, conformance, api);
    for (const [form, write] of Object.entries(FORMS)) {
      const reason = conformance.skip?.MP5;
      const title = `[MP5] a refusal that repeats the key ${form} does not show it`;
      const run = (): Promise<void> => expectNoKey(conformance, write);
      if (reason === undefined) api.test(title, run);
      else api.test.skip(`${title} (${reason})`, run);
    }
  });
}

function declare(item: ModelCase, { open, skip = {} }: ModelConformance, { test }: SuiteApi): void {
  const { play, rule, title } = item;
  const reason = skip[rule] ?? skip[play.kind === "endless" ? play.of : play.kind];
  const run = async (): Promise<void> => {
    const harness = await open(play);
    try {
      await item.run({ harness, call: (signal) => call(harness, signal) });
    } finally {
      await harness.close();
    }
  };
  if (reason === undefined) test(`[${rule}] ${title}`, run);
  else test.skip(`[${rule}] ${title} (${reason})`, run);
}

async function call(
  { port }: ModelHarness,
  signal: AbortSignal = new AbortController().signal,
): Promise<{ readonly outcome: ModelOutcome; readonly parts: readonly ModelStreamPart[] }> {
  const parts: ModelStreamPart[] = [];
  let isOver = false;
  const sink = (part: ModelStreamPart): void => {
    assert.ok(!isOver, "a part came behind the outcome");
    parts.push(part);
  };
  const outcome = await port.call(REQUEST, { sink, signal, limits: LIMITS });
  isOver = true;
  return { outcome, parts };
}

async function expectLimit({ harness, call }: Played): Promise<void> {
  const { outcome, parts } = await call();
  assert.equal(outcome.kind, "failure");
  const { kind, retryable } = outcome.kind === "failure" ? outcome.failure : { kind: "", retryable: true };
  assert.deepEqual({ kind, retryable }, { kind: "answer_limit", retryable: false }, JSON.stringify(outcome));
  const shown = parts.reduce((sum, part) => sum + ("text" in part ? Buffer.byteLength(part.text) : 0), 0);
  assert.ok(shown <= LIMITS.answerBytes, `${shown} bytes went to the sink`);
  await expectLeft(harness);
}

async function expectAbort({ harness, call }: Played): Promise<void> {
  const abort = new AbortController();
  const called = call(abort.signal);
  while (harness.sent() === 0) await turnOfTheLoop();
  for (let turns = 0; turns < 50; turns += 1) await turnOfTheLoop(); // The loop turns while the service sends.
  abort.abort();
  const { outcome } = await called;
  assert.equal(outcome.kind === "failure" && outcome.failure.kind, "cancelled");
  await harness.left;
}

async function expectLeft({ left, sent }: ModelHarness): Promise<void> {
  await left;
  assert.ok(sent() <= MOST_SENT, `the service sent ${sent()} bytes before it was left`);
}

/** How a service may repeat a key. */
const FORMS: { readonly [form: string]: (key: string) => string } = {
  "as it is": (key) => `Incorrect API key provided: ${key}.`,
  "in capitals": (key) => `no such key ${key.toUpperCase()}`,
  "as a bearer": (key) => `Authorization: Bearer ${key}`,
  "as basic credentials": (key) => `Basic ${Buffer.from(`user:${key}`).toString("base64")}`,
  "in base64 within other text": (key) => `sent ${Buffer.from(`x${key}yz`).toString("base64url")} before`,
  "in an address": (key) => `POST https://example.test/v1?key=${encodeURIComponent(key)}&alt=sse was refused`,
  "behind much text": (key) => `${"word ".repeat(50_000)}${key} ${key.repeat(4_000)}`,
  "in front of much text": (key) => `${key.repeat(4_000)} ${"word ".repeat(50_000)}`,
};

async function expectNoKey({ open }: ModelConformance, write: (key: string) => string): Promise<void> {
  const known = await open({ kind: "refusal", text: "first" });
  const { key } = known;
  await known.close();
  assert.ok(key !== undefined, "a port that sends no key skips `MP5` with a reason");
  const harness = await open({ kind: "refusal", text: write(key) });
  try {
    const { outcome } = await call(harness);
    assert.equal(outcome.kind, "failure");
    const text = JSON.stringify(outcome);
    assert.ok(text.length < 32_768, `the failure has ${text.length} characters`);
    for (const form of [key, encodeURIComponent(key), ...base64Pieces(key)])
      assert.ok(!text.toLowerCase().includes(form.toLowerCase()), `the failure repeats the key as ${form}`);
    assert.ok(!text.includes(key.slice(0, 12)), "the failure repeats the beginning of the key");
  } finally {
    await harness.close();
  }
}

/** What base64 of a text with the key in it has in common. */
function base64Pieces(key: string): readonly string[] {
  return ["", "x", "xx"].map((before) => Buffer.from(`${before}${key}`).toString("base64").slice(4, -4));
}

function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

const REQUEST: ModelRequest = {
  model: "default",
  system: "",
  messages: [{ role: "user", parts: [{ kind: "text", text: "Hello" }] }],
  tools: [{ name: "add", description: "Adds.", inputSchema: { type: "object", properties: {} } }],
  toolChoice: "auto",
  parameters: {},
  providerOptions: {},
  headers: {},
  scope: { sessionId: "s", frameId: "f", requestId: "r" },
};
