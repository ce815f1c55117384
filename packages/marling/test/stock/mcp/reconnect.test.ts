// How attempts are spaced, and what is not repeated about servers.

import { ManualClock, say } from "marling/testing";
import { expect, test } from "vitest";
import { mcp } from "../../../src/mcp.ts";
import { backoffDelay, backoffOf } from "../../../src/stock/mcp/backoff.ts";
import { McpConnection } from "../../../src/stock/mcp/connection.ts";
import { readServer } from "../../../src/stock/mcp/options.ts";
import { Redaction } from "../../../src/stock/mcp/redaction.ts";
import { ToolsRefresh } from "../../../src/stock/mcp/tools-refresh.ts";
import { rejectionOf } from "../../kernel/tools-support.ts";
import { ownServer, stage, until } from "./mcp-support.ts";

test("[MC21] delays double from the shortest to the longest, between half and all of each", () => {
  const backoff = backoffOf({ minMs: 500, maxMs: 3_000 });
  const delays = (random: number): readonly number[] =>
    [1, 2, 3, 4, 5].map((failures) => backoffDelay(backoff, failures, () => random));
  expect(delays(1)).toEqual([500, 1_000, 2_000, 3_000, 3_000]);
  expect(delays(0)).toEqual([250, 500, 1_000, 1_500, 1_500]);
  expect(backoffDelay(backoff, 10_000, () => 1)).toBe(3_000);
});

test("[MC21] attempts follow the clock, their number is bounded, and `reconnect` begins them again", async () => {
  const clock = new ManualClock();
  const servers = mcp({
    servers: { gone: ownServer({ DIES: "1" }) },
    reconnect: { minMs: 1_000, maxMs: 4_000, attempts: 2 },
    clock,
    random: () => 1,
  });
  const state = (): unknown => {
    const { state: now, failures, nextAttemptAt } = servers.status().gone ?? {};
    return [now, failures, nextAttemptAt === undefined ? undefined : nextAttemptAt - clock.now()];
  };
  await servers.ready();
  expect(state()).toEqual(["down", 1, 1_000]);
  clock.advance(999);
  expect(state()).toEqual(["down", 1, 1]);
  clock.advance(1);
  await until(() => servers.status().gone?.failures === 2, "the second attempt");
  expect(state()).toEqual(["down", 2, 2_000]);
  clock.advance(2_000);
  await until(() => servers.status().gone?.failures === 3, "the third attempt");
  expect(state()).toEqual(["down", 3, undefined]);
  await servers.reconnect("gone");
  expect(state()).toEqual(["down", 1, 1_000]);
  await servers.close();
  expect(state()).toEqual(["idle", 1, undefined]);
});

test("[MC21] without the library a server is down, says what to install, and is not tried again", async () => {
  const connection = new McpConnection("own", {
    settings: readServer("own", ownServer()),
    backoff: backoffOf(),
    clock: new ManualClock(),
    random: () => 1,
    load: () => Promise.reject(new Error("Cannot find package")),
    onMoved: () => undefined,
  });
  await connection.connect();
  expect(connection.fault?.code).toBe("provider_unavailable");
  expect(connection.reason).toContain("npm install @modelcontextprotocol/client");
  expect([connection.state, connection.nextAttemptAt]).toEqual(["down", undefined]);
});

test("[MC42] of changes that come together the last is read, and a change that moves no tool is none", async () => {
  let moved = (): void => undefined;
  let list: readonly [] = Object.freeze([] as const);
  const waiting: (() => void)[] = [];
  const refresh = new ToolsRefresh(
    { manifests: () => list },
    {
      listen: (listener) => {
        moved = listener;
        return () => undefined;
      },
      refresh: () => new Promise<void>((resolve) => void waiting.push(resolve)),
    },
  );
  moved();
  expect(waiting).toHaveLength(0);
  for (let change = 0; change < 5; change += 1) {
    list = Object.freeze([] as const);
    moved();
  }
  expect(waiting).toHaveLength(1);
  waiting[0]?.();
  await until(() => waiting.length === 2, "the last change to be read");
  refresh.stop();
  waiting[1]?.();
  list = Object.freeze([] as const);
  moved();
  expect(waiting).toHaveLength(2);
});

test("values of headers and variables are not repeated", () => {
  const url = new URL("http://127.0.0.1/");
  const http = new Redaction({
    kind: "http",
    url,
    headers: { authorization: "Bearer abcdefgh12", "x-k": "short" },
  });
  expect(http.clean("401 for abcdefgh12 (Bearer abcdefgh12), short")).toBe(
    "401 for [redacted] ([redacted]), short",
  );
  const env = { KEY: "key-of-somebody" };
  const stdio = new Redaction({ kind: "stdio", command: "x", args: [], env, cwd: undefined });
  expect(stdio.clean("bad key: key-of-somebody")).toBe("bad key: [redacted]");
});

test("what a server writes to its standard error is shown without the values that it was given", async () => {
  const { session, servers } = await stage({
    servers: {
      gone: {
        command: "sh",
        args: ["-c", "echo token=$TOKEN >&2; exit 1"],
        env: { TOKEN: "very-secret-token" },
      },
    },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  expect(servers.status().gone?.stderr).toContain("token=[redacted]");
});

test.each([
  ["nothing to connect to", { servers: { a: {} } }, "{ command, ... } or { url, ... }"],
  ["an unknown option of a server", { servers: { a: { command: "x", shell: true } } }, 'a": shell'],
  [
    "an address of another kind",
    { servers: { a: { url: "file:///etc/passwd" } } },
    "begins with http: or https:",
  ],
  [
    "a limit that is none",
    { servers: { a: { command: "x", timeoutMs: 0 } } },
    "timeoutMs: expected a positive number",
  ],
  ["an approval that is none", { approve: "maybe" }, "approve: expected one of ask, allow, always"],
  ["an unknown option", { server: {} }, "mcp: server: expected one of"],
])("%s is refused by name", async (_what, options, message) => {
  const error = await rejectionOf(Promise.resolve().then(() => mcp(options as never)));
  expect(error.code).toBe("invalid_options");
  expect(error.message).toContain(message);
});

test("a name is attached once, and only what is attached is detached", async () => {
  const servers = mcp({ servers: { own: ownServer() } });
  expect(() => servers.attach("own", ownServer())).toThrow(/expected a name that is free/);
  expect((await rejectionOf(servers.detach("other"))).message).toContain(
    "expected one of the attached servers (own)",
  );
  expect((await rejectionOf(servers.reconnect("other"))).code).toBe("invalid_options");
});
