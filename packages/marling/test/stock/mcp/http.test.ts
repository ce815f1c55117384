// Servers behind an address. All of them are on this machine.

import { join } from "node:path";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { gate, gatedStep } from "../../kernel/durable-support.ts";
import { failureOf, successOf } from "../../kernel/tools-support.ts";
import { folder, httpServer, linesOf, outputsOf, ownServer, stage, toolNames, until } from "./mcp-support.ts";

test("[MC1] tools of a server behind an address are called like others, beside those of a process", async () => {
  const { url } = await httpServer();
  const { session, servers } = await stage({
    servers: { web: { url, approve: "always" }, own: ownServer() },
    script: [
      callTools([
        ["mcp__web__echo", { text: "a" }],
        ["mcp__own__echo", { text: "b" }],
      ]),
      callTool("mcp__web__media"),
      say("Done."),
    ],
  });
  const [web, own, media] = await outputsOf(session.turn("go"));
  expect([successOf(web), successOf(own)]).toEqual(["echo: a", "echo: b"]);
  expect(successOf(media)).toContainEqual(expect.objectContaining({ $marling: "attachment" }));
  expect(servers.status().web).toMatchObject({ transport: "http", state: "ready" });
});

test("[MC24] [MC33] progress and changes of the list arrive over http too", async () => {
  const { url } = await httpServer();
  const at = gate();
  const { session, servers, model } = await stage({
    servers: { web: { url, approve: "always" } },
    script: [
      callTools([
        ["mcp__web__steps", { steps: 2, ms: 5 }],
        ["mcp__web__grow", {}],
      ]),
      gatedStep(at, callTool("mcp__web__echo", { text: "x" })),
      say("Done."),
    ],
  });
  const progress: string[] = [];
  const turn = session.turn("go");
  const watched = (async () => {
    for await (const event of turn) if (event.kind === "tool_progress") progress.push(event.message);
  })();
  await at.begun;
  await until(() => servers.status().web?.tools?.grown_1 !== undefined, "the list to be read again");
  at.open();
  await watched;
  expect(progress).toEqual(["1/2 step 1", "2/2 step 2"]);
  expect(toolNames(model, 2)).toContain("mcp__web__grown_1");
});

test("headers are sent with every request and shown nowhere", async () => {
  const log = join(folder(), "log");
  const { url } = await httpServer({ LOG: log });
  const { session, servers } = await stage({
    servers: { web: { url, headers: { authorization: "Bearer very-secret-token" }, approve: "always" } },
    script: [callTool("mcp__web__echo", { text: "a" }), say("Done.")],
  });
  await session.turn("go").result;
  const requests = linesOf(log).filter((line) => /^(GET|POST) /.test(line));
  expect(requests.length).toBeGreaterThan(2);
  expect(requests.every((line) => line.endsWith("Bearer very-secret-token"))).toBe(true);
  expect(JSON.stringify(servers.status())).not.toContain("very-secret-token");
});

test("[MC13] a redirect to another origin is not followed, and what was sent with the request stays here", async () => {
  const log = join(folder(), "log");
  const away = await httpServer({ LOG: log });
  const { port } = await httpServer({ AWAY: away.url });
  const { session, servers } = await stage({
    servers: {
      web: { url: `http://127.0.0.1:${port}/away`, headers: { authorization: "Bearer very-secret-token" } },
    },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  expect(servers.status().web?.reason).toContain("redirect");
  expect(linesOf(log)).toEqual([]);
});

test("[MC14] a message beyond the limit is not read to its end", async () => {
  const { url } = await httpServer();
  const { session } = await stage({
    servers: { web: { url, approve: "always", maxMessageBytes: 64 * 1024, timeoutMs: 20_000 } },
    script: [
      callTool("mcp__web__huge", { bytes: 5_000_000 }),
      callTool("mcp__web__echo", { text: "x" }),
      say("Done."),
    ],
  });
  const [huge, echo] = await outputsOf(session.turn("go"));
  expect(failureOf(huge)).toMatchObject({
    code: "mcp_server_down",
    message: expect.stringContaining("it sent a message larger than 65536 bytes"),
  });
  expect(successOf(echo)).toBe("echo: x");
});

test("[MC23] a server that dies in the middle of a call fails it, and one that comes back at its address is used again", async () => {
  const log = join(folder(), "log");
  const first = await httpServer({ LOG: log });
  const at = gate();
  const { session, servers, model } = await stage({
    servers: { web: { url: first.url, approve: "always", timeoutMs: 30_000 } },
    script: [
      callTool("mcp__web__slow"),
      gatedStep(at, callTool("mcp__web__echo", { text: "back" })),
      say("Done."),
    ],
  });
  const turn = session.turn("go");
  await until(() => linesOf(log).includes("call slow"), "the call to run");
  await first.kill();
  await at.begun;
  expect(servers.status().web?.state).not.toBe("ready");
  await httpServer({ PORT: String(first.port) });
  at.open();
  const [slow, echo] = await outputsOf(turn);
  expect(failureOf(slow)).toMatchObject({
    code: "mcp_server_down",
    message: expect.stringContaining("web is down"),
  });
  expect(successOf(echo)).toBe("echo: back");
  expect(toolNames(model, 1)).toEqual(toolNames(model, 0));
});

test("[MC37] a call in a session that the server has forgotten is made in a new one, once", async () => {
  const log = join(folder(), "log");
  const { url, port } = await httpServer({ LOG: log });
  const { session } = await stage({
    servers: { web: { url, approve: "always" } },
    script: [say("Done."), callTool("mcp__web__echo", { text: "new" }), say("Done.")],
  });
  await session.turn("one").result;
  await fetch(`http://127.0.0.1:${port}/forget`);
  expect(successOf((await outputsOf(session.turn("two")))[0])).toBe("echo: new");
  expect(linesOf(log).filter((line) => line === "call echo")).toHaveLength(1);
});

test("[MC41] the session of a server ends with the runtime", async () => {
  const log = join(folder(), "log");
  const { url } = await httpServer({ LOG: log });
  const { session, runtime } = await stage({ servers: { web: { url } }, script: [say("Done.")] });
  await session.turn("go").result;
  await runtime.close();
  expect(linesOf(log)).toContain("closed true");
});

test("an address where nobody listens is down with a reason", async () => {
  const gone = await httpServer();
  await gone.kill();
  const { session, servers, model } = await stage({
    servers: { web: { url: gone.url } },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  expect(servers.status().web).toMatchObject({
    state: expect.stringMatching(/down|connecting/),
    reason: expect.stringContaining("it cannot be reached"),
  });
  expect(model.requests[0]?.system).toContain("could not be reached");
});
