// What sessions read and change of themselves and of those below them, and what they are told about any other.

import { createRuntime, memoryStore, type Plugin } from "marling";
import { say } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { type HostServices, unavailableHost } from "../../src/plugin/host-services.ts";
import { BACKINGS, live, quickTool } from "./durable-support.ts";
import { act, acting, answering, codeOf, hostTool } from "./services-support.ts";
import { play, plugin } from "./tools-support.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

const CALLS = {
  create: (host: HostServices, request: unknown) => host.createSession(request as object),
  close: (host: HostServices, id: unknown) => host.closeSession(id as string).then(() => "closed"),
  take: async (host: HostServices, id: unknown) => (await host.takeFirstTurnInput(id as string)) ?? "none",
  snapshot: async (host: HostServices, id: unknown) => (await host.snapshotSession(id as string)).sessionId,
  current: async (host: HostServices) => (await host.snapshotCurrent()).sessionId,
  catalog: async (host: HostServices, id: unknown) =>
    (await host.toolCatalog(id as string)).map(({ name }) => name),
  state: async (host: HostServices, id: unknown) => (await host.toolState(id as string)).generation,
  apply: (host: HostServices, id: unknown) =>
    host.toolState(id as string).then((state) => host.applyToolState(id as string, state)),
  many: (host: HostServices, given: unknown) => {
    const { id, names } = given as { readonly id: string; readonly names: readonly string[] };
    return host.setToolsAvailability(id, names, "off");
  },
  one: (host: HostServices, given: unknown) => {
    const { id, name } = given as { readonly id: string; readonly name: string };
    return host.setToolAvailability(id, name, "off");
  },
  membership: (host: HostServices, given: unknown) => {
    const { id, name } = given as { readonly id: string; readonly name: string };
    return host.setToolMembership(id, [name], false);
  },
  append: (host: HostServices, id: unknown) => host.appendSessionNodes(id as string, { nodes: [] }),
  turn: (host: HostServices, id: unknown) => host.startTurn(id as string, "Hi").then(({ text }) => text),
} as const;

/** Calls a service and says how that ended: a value, or the code of the failure. */
function asked(
  calls: Readonly<Record<string, (host: HostServices, args: unknown) => Promise<unknown>>>,
): Plugin {
  return acting(
    Object.fromEntries(
      Object.entries(calls).map(([name, call]) => [
        `ask.${name}`,
        (host, args) => codeOf(Promise.resolve().then(() => call(host, args))),
      ]),
    ),
  );
}

describe.each(BACKINGS)("on $name", ({ open }) => {
  const options = (tools = [quickTool("look")]) => ({
    store: open()(),
    tools,
    plugins: [asked(CALLS)],
    script: answering({}),
  });

  test("[K107] the current session and one below it can be read; an unknown one is an error", async () => {
    const { session } = await live(options());
    await act(session, "ask.create", { sessionId: "c" });
    expect(await act(session, "ask.current")).toBe("s");
    expect(await act(session, "ask.snapshot", "s")).toBe("s");
    expect(await act(session, "ask.snapshot", "c")).toBe("c");
    expect(await act(session, "ask.snapshot", "nobody")).toBe("unknown_session");
  });

  test("[K107] inside a turn the current session is what was committed before it", async () => {
    const seen: unknown[] = [];
    const look = hostTool("look", async (host) => {
      const view = await host.snapshotCurrent();
      seen.push([view.turnIndex, view.messages.length]);
      return "seen";
    });
    const { session } = await live({
      ...options([look as never]),
      script: answering({
        One: [say("Hi.")],
        Two: [{ kind: "call_tools", calls: [["look", {}]], options: {} }],
      }),
    });
    await session.turn("One").result;
    await session.turn("Two").result;
    expect(seen).toEqual([[1, 2]]);
  });

  test("[K163] the tools of an unknown session are an error, those of a known one are listed", async () => {
    const { session } = await live(options());
    await act(session, "ask.create", { sessionId: "c", toolAccess: { hiddenTools: ["batch"] } });
    expect(await act(session, "ask.catalog", "nobody")).toBe("unknown_session");
    expect(await act(session, "ask.state", "nobody")).toBe("unknown_session");
    expect(await act(session, "ask.catalog", "c")).toEqual(["look"]);
    expect(await act(session, "ask.catalog", "s")).toEqual(["batch", "look"]);
  });

  test("[K163] each change of a child's tools is a generation, that of no tools and of one name included", async () => {
    const { session, runtime } = await live(options());
    await act(session, "ask.create", { sessionId: "c" });
    const first = (await act(session, "ask.state", "c")) as number;
    expect(await act(session, "ask.many", { id: "c", names: [] })).toBe(first + 1);
    expect(await act(session, "ask.one", { id: "c", name: "look" })).toBe(first + 2);
    expect(await act(session, "ask.apply", "c")).toBe(first + 3);
    expect(await act(session, "ask.catalog", "c")).toEqual([]);
    expect((await runtime.session("c")).tools.state().generation).toBe(first + 3);
    expect(await act(session, "ask.catalog", "s")).toEqual(["batch", "look"]);
  });

  test("[K107] a session reaches itself and what is below it, on every service, and nothing else", async () => {
    const { session, runtime } = await live(options());
    const stranger = await runtime.session("stranger");
    await act(session, "ask.create", { sessionId: "a" });
    await act(session, "ask.create", { sessionId: "b" });
    const a = await runtime.session("a");
    await act(a, "ask.create", { sessionId: "aa" });
    const outside = ["s", "b", "stranger", "nobody"];
    const services: readonly (readonly [string, (id: string) => unknown])[] = [
      ["snapshot", (id) => id],
      ["catalog", (id) => id],
      ["state", (id) => id],
      ["apply", (id) => id],
      ["many", (id) => ({ id, names: [] })],
      ["one", (id) => ({ id, name: "look" })],
      ["membership", (id) => ({ id, name: "look" })],
      ["append", (id) => id],
      ["turn", (id) => id],
    ];
    for (const [service, args] of services)
      for (const id of outside)
        expect([service, id, await act(a, `ask.${service}`, args(id) as never)]).toEqual([
          service,
          id,
          "unknown_session",
        ]);
    expect(await act(session, "ask.snapshot", "aa")).toBe("aa");
    expect(await act(session, "ask.turn", "aa")).toBe("Answer to Hi.");
    expect(await act(a, "ask.turn", "aa")).toBe("Answer to Hi.");
    expect(await act(stranger, "ask.snapshot", "a")).toBe("unknown_session");
    expect(await act(a, "ask.close", "b")).toBe("unknown_session");
    expect(await act(a, "ask.take", "b")).toBe("unknown_session");
  });

  test("[K108] the first input of a session is there once, and gone when it was closed", async () => {
    const { session } = await live(options());
    const firstTurnInput = { role: "user", content: "Begin." } as const;
    await act(session, "ask.create", { sessionId: "c", firstTurnInput });
    expect(await act(session, "ask.take", "c")).toMatchObject({ role: "user" });
    expect(await act(session, "ask.take", "c")).toBe("none");
    await act(session, "ask.create", { sessionId: "d", firstTurnInput });
    expect(await act(session, "ask.close", "d")).toBe("closed");
    expect(await act(session, "ask.take", "d")).toBe("none");
    expect(await act(session, "ask.take", "nobody")).toBe("none");
  });
});

test("[K107] a session below one that is not open is reached all the same", async () => {
  const { session, runtime } = await live({
    store: memoryStore(),
    plugins: [asked(CALLS)],
    script: answering({}),
  });
  await act(session, "ask.create", { sessionId: "a" });
  await act(await runtime.session("a"), "ask.create", { sessionId: "aa" });
  await (await runtime.session("a")).close();
  expect(await act(session, "ask.snapshot", "aa")).toBe("aa");
  expect(await act(session, "ask.turn", "aa")).toBe("Answer to Hi.");
});

describe("traces", () => {
  test("[K125] a trace has the session, and the turn when there is one", async () => {
    const records: CustomTrace[] = [];
    const trace = customTraces(records);
    const emit = (host: HostServices, name: string): Promise<void> =>
      host.emitTrace({ name, payload: { is: name }, context: { round: 1 } });
    const { session } = await live({
      store: memoryStore(),
      trace,
      owner: "me",
      plugins: [acting({ "ask.trace": (host) => emit(host, "beside").then(() => "done") })],
      tools: [hostTool("tell", (host) => emit(host, "inside").then(() => "told"))],
      script: answering({ Go: [{ kind: "call_tools", calls: [["tell", {}]], options: {} }] }),
    });
    await act(session, "ask.trace");
    await session.turn("Go", { id: "t" }).result;
    expect(records.map(({ at: _at, ...record }) => record)).toEqual([
      { name: "beside", owner: "me", sessionId: "s", context: { round: 1 }, payload: { is: "beside" } },
      {
        name: "inside",
        owner: "me",
        sessionId: "s",
        turnId: "t",
        context: { round: 1 },
        payload: { is: "inside" },
      },
    ]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("full disk");
      },
    ],
    ["rejects, against its contract", () => Promise.reject(new Error("full disk")) as unknown as undefined],
  ])("[K125] a sink that %s harms nobody", async (_how, record) => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", onUnhandled);
    onTestFinished(() => void process.off("unhandledRejection", onUnhandled));
    const { session } = await live({
      store: memoryStore(),
      trace: { record },
      tools: [hostTool("tell", (host) => host.emitTrace({ name: "x" }).then(() => "told"))],
      script: answering({ Go: [{ kind: "call_tools", calls: [["tell", {}]], options: {} }, say("Done.")] }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});

test("[K126] a host that offers nothing says so, and does nothing where nothing is needed", async () => {
  const host = unavailableHost();
  const input = { nodes: [] };
  const refused = [
    host.snapshotCurrent(),
    host.snapshotSession("s"),
    host.toolCatalog("s"),
    host.toolState("s"),
    host.applyToolState("s", { generation: 1, tools: {} } as never),
    host.setToolsAvailability("s", [], null),
    host.setToolAvailability("s", "x", null),
    host.setToolMembership("s", [], true),
    host.createSession({}),
    host.closeSession("s"),
    host.startTurnStream("s", "Hi"),
    host.awaitTurn("t"),
    host.cancelTurn("t"),
    host.startTurn("s", "Hi"),
    host.appendSessionNodes("s", input),
    host.directCompletion({ messages: "Hi" }, "x"),
    host.directLlmCompletion({ messages: "Hi" }, "x"),
  ];
  expect(await Promise.all(refused.map(codeOf))).toEqual(refused.map(() => "host_service_unavailable"));
  expect(await host.takeFirstTurnInput("s")).toBeUndefined();
  expect(await host.emitTrace({ name: "x" })).toBeUndefined();
});

test("[K126] a plugin that asks while its session is being built is told so", async () => {
  let early: unknown;
  const eager = plugin("eager", {
    ready: ({ host }: { readonly host: HostServices }) => {
      host.snapshotCurrent().catch((thrown: unknown) => {
        early = (thrown as { readonly code: string }).code;
      });
    },
  } as never);
  const runtime = createRuntime({ plugins: [eager] });
  onTestFinished(() => runtime.close());
  await runtime.session("s");
  expect(early).toBe("host_service_unavailable");
});
