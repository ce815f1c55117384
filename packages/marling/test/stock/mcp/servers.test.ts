// Servers that come, go, break and change while sessions run.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MarlingError } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { mcp } from "../../../src/mcp.ts";
import { gate, gatedStep } from "../../kernel/durable-support.ts";
import { failureOf, rejectionOf, successOf } from "../../kernel/tools-support.ts";
import { folder, isAlive, linesOf, outputsOf, ownServer, stage, toolNames, until } from "./mcp-support.ts";

test("[MC20] sessions share one connection to a server, which begins with the first of them", async () => {
  const log = join(folder(), "log");
  const { servers, runtime, session } = await stage({
    servers: { own: ownServer({ LOG: log }) },
    script: () => say("Done."),
  });
  const others = await Promise.all(["a", "b", "c"].map((id) => runtime.session(id)));
  await Promise.all([session, ...others].map((each) => each.turn("go").result));
  expect(linesOf(log).filter((line) => line.startsWith("start"))).toHaveLength(1);
  expect(servers.status().own).toMatchObject({ state: "ready", transport: "stdio", failures: 0 });
});

test("[MC40] a server that is attached in the middle of a turn is there in its next round, one that is detached is not", async () => {
  const at = gate();
  const { servers, session, model } = await stage({
    servers: { first: ownServer() },
    script: [
      gatedStep(at, callTool("mcp__first__echo", { text: "1" })),
      callTool("mcp__second__echo", { text: "2" }),
      say("Done."),
    ],
  });
  const turn = session.turn("go");
  await at.begun;
  servers.attach("second", ownServer());
  await until(() => servers.status().second?.state === "ready", "the second server to be ready");
  const pid = servers.status().first?.pid ?? 0;
  await servers.detach("first");
  expect(isAlive(pid)).toBe(false);
  at.open();
  const [first, second] = await outputsOf(turn);
  expect(failureOf(first).code).toBe("tool_unavailable");
  expect(successOf(second)).toBe("echo: 2");
  expect(toolNames(model, 0)).toContain("mcp__first__echo");
  expect(toolNames(model, 1)).toContain("mcp__second__echo");
  expect(toolNames(model, 1)).not.toContain("mcp__first__echo");
  expect(Object.keys(servers.status())).toEqual(["second"]);
});

test("[MC40] a call that runs when its server is detached fails as mcp_server_down", async () => {
  const log = join(folder(), "log");
  const { servers, session } = await stage({
    servers: { own: ownServer({ LOG: log }) },
    script: [callTool("mcp__own__slow"), say("Done.")],
  });
  const turn = session.turn("go");
  await until(() => linesOf(log).includes("call slow"), "the call to run");
  await servers.detach("own");
  const [output] = await outputsOf(turn);
  expect(failureOf(output).code).toBe("mcp_server_down");
});

test("[MC24] a tool that a server adds in the middle of a turn is there in the next round", async () => {
  const at = gate();
  const { servers, session, model } = await stage({
    servers: { own: ownServer() },
    script: [
      callTool("mcp__own__grow"),
      gatedStep(at, callTool("mcp__own__echo", { text: "x" })),
      callTool("mcp__own__grown_1"),
      say("Done."),
    ],
  });
  const turn = session.turn("go");
  await at.begun;
  await until(() => servers.status().own?.tools?.grown_1 !== undefined, "the list to be read again");
  at.open();
  const [, , grown] = await outputsOf(turn);
  expect(successOf(grown)).toBe("grown_1 done");
  expect(toolNames(model, 0)).not.toContain("mcp__own__grown_1");
  expect(toolNames(model, 2)).toContain("mcp__own__grown_1");
});

test("[MC23] [MC35] a server that dies in the middle of a call fails it, is connected to again, and answers the next one", async () => {
  const log = join(folder(), "log");
  const { session, model, servers } = await stage({
    servers: { own: ownServer({ LOG: log }) },
    script: [callTool("mcp__own__crash"), callTool("mcp__own__echo", { text: "back" }), say("Done.")],
  });
  const [crash, echo] = await outputsOf(session.turn("go"));
  expect(crash?.outcome).toMatchObject({
    kind: "failure",
    code: "mcp_server_down",
    class: "unavailable",
    retry: { kind: "never" },
    message: expect.stringMatching(
      /own is down: the process ended with code 9\. The call may have taken effect/,
    ),
  });
  expect(successOf(echo)).toBe("echo: back");
  expect(linesOf(log).filter((line) => line === "call crash")).toHaveLength(1);
  expect(toolNames(model, 1)).toEqual(toolNames(model, 0));
  expect(servers.status().own?.state).toBe("ready");
});

test("[MC22] a server that is gone for good keeps its tools, and calling them says which server and why", async () => {
  const marker = join(folder(), "gone");
  const { session, model, servers } = await stage({
    servers: {
      own: {
        ...ownServer(),
        command: "sh",
        args: [
          "-c",
          `test -e ${marker} && exit 4; exec "$0" "$1"`,
          process.execPath,
          ownServer().args?.[0] ?? "",
        ],
      },
    },
    reconnect: { minMs: 5, maxMs: 10, attempts: 2 },
    script: [callTool("mcp__own__crash"), callTool("mcp__own__echo", { text: "x" }), say("Done.")],
    plugins: [],
  });
  await servers.ready();
  writeFileSync(marker, "");
  const [, echo] = await outputsOf(session.turn("go"));
  expect(echo?.outcome).toMatchObject({
    code: "mcp_server_down",
    retry: { kind: "safe" },
    message: expect.stringContaining("The MCP server own is down: the process ended with code 4."),
  });
  expect(toolNames(model, 2)).toEqual(toolNames(model, 0));
  await until(() => {
    const { state, nextAttemptAt } = servers.status().own ?? {};
    return state === "down" && nextAttemptAt === undefined;
  }, "the attempts to be over");
  expect(servers.status().own).toMatchObject({ state: "down", reason: "the process ended with code 4" });
  expect(Object.keys(servers.status().own?.tools ?? {})).toContain("echo");
});

test("[MC21] `reconnect` begins again where attempts were given up, with a new process", async () => {
  const { servers, session } = await stage({ servers: { own: ownServer() }, script: () => say("Done.") });
  await session.turn("go").result;
  const before = servers.status().own?.pid ?? 0;
  await servers.reconnect("own");
  expect(servers.status().own?.state).toBe("ready");
  expect(servers.status().own?.pid).not.toBe(before);
  await until(() => !isAlive(before), "the process before to end");
});

test("[MC71] a server that was never reached is told to the model, to the trace and in the status", async () => {
  const traces: unknown[] = [];
  const { session, model, servers } = await stage({
    servers: { gone: ownServer({ DIES: "1" }), own: ownServer() },
    script: [say("Done.")],
    runtime: { trace: { record: (record) => void traces.push(record) } },
  });
  await session.turn("go").result;
  expect(model.requests[0]?.system).toContain(
    "could not be reached, so their tools are not available now: gone.",
  );
  expect(JSON.stringify(traces)).toContain('"server":"gone"');
  const { gone } = servers.status();
  expect(gone?.reason).toBe("the process ended with code 7");
  expect(gone?.tools).toBeUndefined();
  expect(gone?.stderr).toContain("cannot go on: no database");
  expect(toolNames(model, 0)).toContain("mcp__own__echo");
});

test("[MC70] a server that does not answer holds up the first turn no longer than its limit", async () => {
  const { session, servers } = await stage({
    servers: { mute: ownServer({ SILENT: "1" }, { connectTimeoutMs: 300 }) },
    script: [say("Done.")],
  });
  expect((await session.turn("go").result).text).toBe("Done.");
  expect(servers.status().mute?.reason).toBe("it did not answer within 300 ms");
});

test("[MC72] without a required server no turn begins, `ready` says so, and no further session opens", async () => {
  const { session, servers, runtime } = await stage({
    servers: { gone: ownServer({ DIES: "1" }, { required: true }) },
    reconnect: { attempts: 1, minMs: 5 },
    script: [say("Never.")],
  });
  const { outcome } = await session.turn("go").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "plugin_abort", code: "mcp_server_down" });
  expect((await rejectionOf(servers.ready())).code).toBe("mcp_server_down");
  const refused = await rejectionOf(runtime.session("other"));
  expect(refused.code).toBe("mcp_server_down");
  expect(refused.message).toContain("mcp server gone");
});

test("[MC10] the environment of a process is the allow list and what was given, and nothing else of ours", async () => {
  process.env.SECRET_API_KEY = "sk-not-for-servers";
  const { session } = await stage({
    servers: { own: ownServer({ GIVEN: "yes" }) },
    script: [callTool("mcp__own__environment"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  delete process.env.SECRET_API_KEY;
  const names = Object.keys(JSON.parse(String(successOf(output))));
  expect(names).toContain("GIVEN");
  expect(names.filter((name) => !["PATH", "HOME", "LANG", "TZ", "TMPDIR", "GIVEN"].includes(name))).toEqual(
    [],
  );
});

test("[MC25] nothing is offered to servers", async () => {
  const { session } = await stage({
    servers: { own: ownServer() },
    script: [callTool("mcp__own__capabilities"), say("Done.")],
  });
  const [output] = await outputsOf(session.turn("go"));
  expect(successOf(output)).toBe("{}");
});

test("[MC73] instructions of a server are in the prompt only where the host says so", async () => {
  const { session, model } = await stage({
    servers: { own: ownServer(), trusted: ownServer({}, { instructions: true }) },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  const system = model.requests[0]?.system ?? "";
  expect(system.split("Always be kind to the own server.")).toHaveLength(2);
  expect(system).toContain("Instructions of the MCP server trusted");
});

test("[MC41] with `manual` the connections outlive the sessions and end with close()", async () => {
  const { servers, runtime, session } = await stage({
    servers: { own: ownServer() },
    lifetime: "manual",
    script: [say("Done.")],
  });
  await session.turn("go").result;
  const pid = servers.status().own?.pid ?? 0;
  await runtime.close();
  expect(isAlive(pid)).toBe(true);
  await servers.close();
  expect(isAlive(pid)).toBe(false);
});

test("[MC11] a process that does not care is ended with what it started", async () => {
  const at = folder();
  const stubborn = `trap '' TERM; sleep 300 & echo $! > ${at}/child; ${process.execPath} "$0"; sleep 300`;
  const { servers, runtime, session } = await stage({
    servers: { own: { ...ownServer(), command: "sh", args: ["-c", stubborn, ownServer().args?.[0] ?? ""] } },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  const child = Number(linesOf(join(at, "child"))[0]);
  const pid = servers.status().own?.pid ?? 0;
  expect([isAlive(pid), isAlive(child)]).toEqual([true, true]);
  await runtime.close();
  expect(isAlive(pid)).toBe(false);
  await until(() => !isAlive(child), "what it started to end");
});

test.each([
  ["a__b", {}],
  ["a_", {}],
  ["_a", {}],
  ["", {}],
  ["a b", {}],
  ["x".repeat(33), {}],
])("[MC1] the server name %j is refused", (name) => {
  expect(() => mcp({ servers: { [name]: ownServer() } })).toThrow(MarlingError);
});
