// What comes back from a call, and how calls end that do not.

import { join } from "node:path";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { failureOf, successOf } from "../../kernel/tools-support.ts";
import { folder, linesOf, outputsOf, ownServer, stage, until } from "./mcp-support.ts";

test("[MC30] text, images, audio, embedded text and bytes, and links stand in the result in their order", async () => {
  const { session, model } = await stage({
    servers: { own: ownServer() },
    script: [callTool("mcp__own__media"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  const stored = (mediaType: string, bytes: number): object => ({
    $marling: "attachment",
    source: { kind: "stored", mediaType, bytes, ref: expect.stringMatching(/^sha256:/) },
  });
  expect(successOf(output)).toEqual([
    "look:",
    stored("image/png", 70),
    stored("audio/wav", 4),
    { uri: "own://text", mimeType: "text/plain", text: "inside" },
    { uri: "own://bytes", mimeType: "application/pdf", file: stored("application/pdf", 4) },
    { link: "own://far", name: "far", mimeType: "text/plain" },
  ]);
  const parts = model.requests[1]?.messages.flatMap((message) => message.parts) ?? [];
  expect(parts.some((part) => JSON.stringify(part).includes("image/png"))).toBe(true);
});

test("[MC30] structured content that is repeated as text is there once", async () => {
  const { session } = await stage({
    servers: { own: ownServer() },
    script: [callTool("mcp__own__structured"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  expect(successOf(output)).toEqual({ n: 3 });
});

test("[MC31] text beyond the limit is cut and says so; files beyond it are left out", async () => {
  const { session } = await stage({
    servers: { own: ownServer({}, { maxOutputBytes: 100, maxAttachmentBytes: 69 }) },
    script: [
      callTools([
        ["mcp__own__huge", { bytes: 500_000 }],
        ["mcp__own__media", {}],
      ]),
      say("Done."),
    ],
  });
  const [huge, media] = await outputsOf(session.turn("go"));
  expect(successOf(huge)).toBe(`${"x".repeat(100)}\n[cut: 100 of 500000 bytes are shown]`);
  expect(successOf(media)).toContain("[a file of 70 bytes (image/png) was left out: the limit is 69]");
});

test("[MC12] a message beyond the limit ends the connection, and the call fails with that reason", async () => {
  const { session } = await stage({
    servers: { own: ownServer({}, { maxMessageBytes: 64 * 1024 }) },
    script: [
      callTool("mcp__own__huge", { bytes: 1_000_000 }),
      callTool("mcp__own__echo", { text: "again" }),
      say("Done."),
    ],
  });
  const [huge, echo] = await outputsOf(session.turn("go"));
  expect(failureOf(huge)).toMatchObject({
    code: "mcp_server_down",
    message: expect.stringContaining("it sent a message larger than 65536 bytes"),
  });
  expect(successOf(echo)).toBe("echo: again");
});

test("[MC32] an answer that says it is an error is a failed call", async () => {
  const { session } = await stage({
    servers: { own: ownServer() },
    script: [callTool("mcp__own__fail"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  expect(output?.outcome).toMatchObject({
    kind: "failure",
    code: "mcp_tool_error",
    class: "execution",
    message: "no such record",
  });
});

test("[MC33] a call that takes too long fails, and is cancelled at the server", async () => {
  const log = join(folder(), "log");
  const { session } = await stage({
    servers: { own: ownServer({ LOG: log }, { timeoutMs: 300 }) },
    script: [callTool("mcp__own__slow"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  expect(output?.outcome).toMatchObject({
    kind: "failure",
    code: "mcp_timeout",
    class: "timeout",
    retry: { kind: "never" },
    message: expect.stringContaining("own did not answer the call of slow within 300 ms"),
  });
  await until(() => linesOf(log).includes("cancelled slow"), "the server to be told");
});

test("[MC33] progress begins the time again where the options say so, and not elsewhere", async () => {
  const steps = { steps: 6, ms: 250 };
  const { session } = await stage({
    servers: {
      patient: ownServer({}, { timeoutMs: 900, progressExtends: true }),
      strict: ownServer({}, { timeoutMs: 900 }),
    },
    script: [
      callTools([
        ["mcp__patient__steps", steps],
        ["mcp__strict__steps", steps],
      ]),
      say("Done."),
    ],
  });
  const [patient, strict] = await outputsOf(session.turn("go"));
  expect(successOf(patient)).toBe("all steps done");
  expect(failureOf(strict).code).toBe("mcp_timeout");
});

test("[MC33] what a call says about its progress is told in order", async () => {
  const { session } = await stage({
    servers: { own: ownServer() },
    script: [callTool("mcp__own__steps", { steps: 3, ms: 1 }), say("Done.")],
  });
  const progress: string[] = [];
  for await (const event of session.turn("go"))
    if (event.kind === "tool_progress") progress.push(event.message);
  expect(progress).toEqual(["1/3 step 1", "2/3 step 2", "3/3 step 3"]);
});

test("[MC34] a turn that is cancelled cancels the call at the server", async () => {
  const log = join(folder(), "log");
  const { session } = await stage({
    servers: { own: ownServer({ LOG: log }) },
    script: [callTool("mcp__own__slow"), say("Never.")],
  });
  const turn = session.turn("go");
  await until(() => linesOf(log).includes("call slow"), "the call to run");
  await session.cancel(turn.id);
  expect((await turn.result).outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  await until(() => linesOf(log).includes("cancelled slow"), "the server to be told");
});

test("[MC53] arguments are checked before they are sent, and patterns of a server are not run here", async () => {
  const log = join(folder(), "log");
  const { session } = await stage({
    servers: { own: ownServer({ LOG: log }) },
    script: [
      callTools([
        ["mcp__own__echo", { text: 5 }],
        ["mcp__own__patterned", { text: `${"a".repeat(64)}!` }],
      ]),
      say("Done."),
    ],
  });
  const [echo, patterned] = await outputsOf(session.turn("go"));
  expect(failureOf(echo).code).toBe("invalid_tool_args");
  expect(successOf(patterned)).toBe("patterned done");
  expect(linesOf(log).filter((line) => line.startsWith("call"))).toEqual(["call patterned"]);
});

test("[MC30] resources are listed and read by tools of their own, where the host wants them", async () => {
  const { session, model } = await stage({
    servers: { own: ownServer({}, { resources: true }), other: ownServer() },
    script: [
      callTools([
        ["mcp__own__list_resources", {}],
        ["mcp__own__read_resource", { uri: "own://a" }],
      ]),
      say("Done."),
    ],
  });
  const [listed, read] = await outputsOf(session.turn("go"));
  expect(successOf(listed)).toEqual({ resources: [{ uri: "own://a", name: "a", mimeType: "text/plain" }] });
  expect(successOf(read)).toEqual({
    contents: [{ uri: "own://a", mimeType: "text/plain", text: "content of own://a" }],
  });
  expect(model.requests[0]?.tools.some(({ name }) => name === "mcp__other__read_resource")).toBe(false);
});
