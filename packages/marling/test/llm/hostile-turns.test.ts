// Whole turns against services that never end, over every adapter: the turn stops, nothing of the answer is kept, memory is
// bounded, and the event loop turns meanwhile.

import { createServer } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import {
  type AiSdkLanguageModel,
  createRuntime,
  type ModelPort,
  memoryStore,
  type RuntimeOptions,
} from "marling";
import { ManualClock, type ModelPlay } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { openaiModel } from "../../src/models.ts";
import { type HostileServer, hostileServer } from "./hostile-server.ts";
import { PROVIDERS, type Provider } from "./providers.ts";
import { listen } from "./raw-server.ts";

const MIB = 1024 * 1024;
/** 128 MiB, in half a MiB. */
const BOMB = gzipSync(Buffer.alloc(128 * MIB, "x"), { level: 1 });
const STOPPED = { kind: "stopped", reason: "provider_error", code: "answer_limit" };

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

async function server({ wire }: Provider, play: ModelPlay): Promise<HostileServer> {
  const made = await hostileServer(wire, play);
  onTestFinished(() => made.close());
  return made;
}

interface Ran {
  readonly outcome: unknown;
  readonly history: string;
}

async function run(model: ModelPort | AiSdkLanguageModel, options: RuntimeOptions = {}): Promise<Ran> {
  const runtime = createRuntime({ model, store: memoryStore(), ...options });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const { outcome } = await session.turn("Go").result;
  return { outcome, history: JSON.stringify(await session.history()) };
}

function retained(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe.each(PROVIDERS)("$name", (provider) => {
  test("[CP4] a byte now and then holds a turn no longer than its time", async () => {
    const clock = new ManualClock();
    const { url, left, sent } = await server(provider, { kind: "drip" });
    const ran = run(provider.model(url), { clock });
    while (sent() < 300) await new Promise((resolve) => setTimeout(resolve, 1));
    clock.advance(30 * 60_000);
    expect((await ran).outcome).toMatchObject({ ...STOPPED, message: expect.stringContaining("answerMs") });
    await left;
  });

  test("[CP4] comments without end hold a turn no longer than its time, and the loop turns", async () => {
    const clock = new ManualClock();
    const { url, left, sent } = await server(provider, { kind: "endless", of: "comments" });
    const before = retained();
    const ran = run(provider.model(url), { clock });
    while (sent() < 8 * MIB) await new Promise((resolve) => setTimeout(resolve, 1));
    clock.advance(30 * 60_000);
    expect((await ran).outcome).toMatchObject(STOPPED);
    await left;
    expect(retained() - before).toBeLessThan(16 * MIB);
  });

  test("[LA24] a line without end is left within the default limits", async () => {
    const { url, left, sent } = await server(provider, { kind: "endless", of: "line" });
    const before = retained();
    const { outcome } = await run(provider.model(url));
    expect(outcome).toMatchObject(STOPPED);
    await left;
    expect(sent()).toBeLessThan(128 * MIB);
    expect(retained() - before).toBeLessThan(32 * MIB);
  });

  test("[LA24] text without end is left, and none of it is in the history", async () => {
    const { url, left } = await server(provider, { kind: "endless", of: "text" });
    const { outcome, history } = await run(provider.model(url), { limits: { answerBytes: MIB } });
    expect(outcome).toMatchObject(STOPPED);
    expect(history).not.toContain("xxxx");
    await left;
  });
});

test.each(PROVIDERS.filter(({ name }) => !name.includes("modelFetch") && /v\d$|fetch/.test(name)))(
  "[LA24] $name: a stream that grows when it is unpacked is counted unpacked",
  async (provider) => {
    const head =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    const bomb = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.write(head);
        socket.end(BOMB);
      });
    });
    const port = await listen(bomb);
    const before = retained();
    const { outcome } = await run(provider.model(`http://127.0.0.1:${port}`), {
      limits: { answerBytes: MIB },
    });
    expect(outcome).toMatchObject(STOPPED);
    expect(retained() - before).toBeLessThan(64 * MIB);
  },
  120_000,
);

test("[LA24] limits that are lifted take a longer answer, and 16 MiB of escapes are no longer than their text", async () => {
  const text = "\u0001".repeat(3 * MIB);
  const [provider] = PROVIDERS.filter(({ name }) => name === "native openai chat");
  if (provider === undefined) throw new Error("expected the native model");
  const { url } = await server(provider, { kind: "text", text });
  const model = openaiModel({ model: "m", baseUrl: `${url}/v1` });
  const commitBudget = { bytes: 64 * MIB };
  expect((await run(model, { commitBudget })).outcome).toMatchObject({ kind: "finished" });
  expect((await run(model, { commitBudget, limits: { answerBytes: MIB } })).outcome).toMatchObject(STOPPED);
  const lifted = await run(model, { commitBudget, limits: { answerBytes: "unbounded" } });
  expect(lifted.outcome).toMatchObject({ kind: "finished" });
});
