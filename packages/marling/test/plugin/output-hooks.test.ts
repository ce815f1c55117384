// Hooks on what the model says, on requests, inputs and failures of calls; and the two projectors.

import { expect, test } from "vitest";
import type { ModelRequest } from "../../src/llm/contract.ts";
import type { ModelResponse } from "../../src/model/model-response.ts";
import { toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import type { TurnInput } from "../../src/model/turn.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { plugin, rejection, sessionOf } from "./samples.ts";

const said = (text: string): ModelResponse => ({
  parts: [{ kind: "text", text }],
  usage: NO_USAGE,
  finish: "stop",
});

/** What a hook throws at once, as a rejection. */
const asked = async <T>(ask: () => T): Promise<Awaited<T>> => await ask();

test("[K48] stream hooks are chained, and every transform is returned with its owner", async () => {
  const session = sessionOf([
    plugin("upper", {
      output: { stream: ({ chunk }) => ({ chunk: chunk.toUpperCase(), reasoningDeltas: ["loud"] }) },
    }),
    plugin("suffix", {
      output: {
        stream: async ({ chunk }) => ({
          chunk: `${chunk}!`,
          events: [{ kind: "status", key: "k", label: "L" }],
          abortStream: true,
        }),
      },
    }),
  ]);
  expect(await session.transformAssistantStream("s", "hi")).toEqual([
    { pluginId: "upper", value: { chunk: "HI", reasoningDeltas: ["loud"] } },
    {
      pluginId: "suffix",
      value: { chunk: "HI!", events: [{ kind: "status", key: "k", label: "L" }], abortStream: true },
    },
  ]);
});

test("[K50] response hooks are chained, the last response holds", async () => {
  const rewrite =
    (mark: string) =>
    ({ response }: { response: ModelResponse }) => {
      const [part] = response.parts;
      return { response: said(`${part?.kind === "text" ? part.text : ""}${mark}`) };
    };
  const session = sessionOf([
    plugin("a", { output: { response: rewrite("a") } }),
    plugin("b", { output: { response: rewrite("b") } }),
  ]);
  const transforms = await session.transformAssistantResponse("s", said("-"));
  expect(transforms.map(({ pluginId, value }) => [pluginId, value.response])).toEqual([
    ["a", said("-a")],
    ["b", said("-ab")],
  ]);
});

test("[K51] stream-finished hooks are told the reason, in order", async () => {
  const log: string[] = [];
  const tell = (name: string) => (ctx: { readonly sessionId: string; readonly reason: string }) => {
    log.push(`${name} ${ctx.sessionId} ${ctx.reason}`);
  };
  const session = sessionOf([
    plugin("a", { output: { streamFinished: tell("a") } }),
    plugin("b", { output: { streamFinished: tell("b") } }),
  ]);
  for (const reason of ["attempt_reset", "complete", "aborted", "cancelled", "provider_error"] as const) {
    await session.finishAssistantStream("s", reason);
  }
  expect(log).toEqual([
    "a s attempt_reset",
    "b s attempt_reset",
    "a s complete",
    "b s complete",
    "a s aborted",
    "b s aborted",
    "a s cancelled",
    "b s cancelled",
    "a s provider_error",
    "b s provider_error",
  ]);
});

test("[K52] each predicate is true only when its hook is registered", () => {
  const nothing = () => undefined;
  const predicates = (session: ReturnType<typeof sessionOf>) => [
    session.hasAssistantStreamHooks,
    session.hasAssistantStreamFinishedHooks,
    session.hasRuntimeEventHooks,
  ];
  expect(predicates(sessionOf([]))).toEqual([false, false, false]);
  expect(predicates(sessionOf([plugin("a", { output: { stream: nothing } })]))).toEqual([true, false, false]);
  expect(predicates(sessionOf([plugin("a", { output: { streamFinished: nothing } })]))).toEqual([
    false,
    true,
    false,
  ]);
  expect(predicates(sessionOf([plugin("a", { session: { onEvent: nothing } })]))).toEqual([
    false,
    false,
    true,
  ]);
});

test("[K150] without hooks there are no transforms", async () => {
  const session = sessionOf([]);
  expect(await session.transformAssistantStream("s", "hi")).toEqual([]);
  expect(await session.transformAssistantResponse("s", said("hi"))).toEqual([]);
});

test("[K150] an error discards the transforms before it", async () => {
  const fail = () => {
    throw new Error("broken");
  };
  const session = sessionOf([
    plugin("a", { output: { stream: () => ({ chunk: "x" }), response: () => ({ response: said("x") }) } }),
    plugin("b", { output: { stream: fail, response: fail } }),
  ]);
  expect((await rejection(asked(() => session.transformAssistantStream("s", "hi")))).details).toEqual({
    pluginId: "b",
    hook: "output.stream",
  });
  expect((await rejection(session.transformAssistantResponse("s", said("hi")))).details).toEqual({
    pluginId: "b",
    hook: "output.response",
  });
});

test("[K150] an abort or an empty chunk does not stop the hooks after it", async () => {
  const seen: string[] = [];
  const session = sessionOf([
    plugin("swallow", { output: { stream: () => ({ chunk: "", abortStream: true }) } }),
    plugin("next", {
      output: {
        stream: ({ chunk }) => {
          seen.push(`<${chunk}>`);
        },
      },
    }),
  ]);
  expect(await session.transformAssistantStream("s", "secret")).toEqual([
    { pluginId: "swallow", value: { chunk: "", abortStream: true } },
    { pluginId: "next", value: { chunk: "" } },
  ]);
  expect(seen).toEqual(["<>"]);
});

test("[K151] the first failing stream-finished hook stops the later ones and is named", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("a", {
      output: {
        streamFinished: () => {
          log.push("a");
        },
      },
    }),
    plugin("b", { output: { streamFinished: () => Promise.reject(new Error("no")) } }),
    plugin("c", {
      output: {
        streamFinished: () => {
          log.push("c");
        },
      },
    }),
  ]);
  const error = await rejection(session.finishAssistantStream("s", "complete"));
  expect([error.code, error.details, log]).toEqual([
    "hook_failed",
    { pluginId: "b", hook: "output.stream_finished" },
    ["a"],
  ]);
});

test.each([
  ["a chunk that is no text", { chunk: 3 }],
  ["a bare string", "HI"],
  ["events that are none", { chunk: "x", events: [{ kind: "boom" }] }],
])("[P6] a stream hook that returns %s is named", async (_name, answer) => {
  const session = sessionOf([plugin("a", { output: { stream: () => answer as never } })]);
  const error = await rejection(asked(() => session.transformAssistantStream("s", "x")));
  expect([error.code, error.details]).toEqual([
    "hook_returned_nonsense",
    { pluginId: "a", hook: "output.stream" },
  ]);
});

const request: ModelRequest = {
  model: "default",
  system: "",
  messages: [],
  tools: [],
  toolChoice: "auto",
  parameters: { temperature: 1 },
  providerOptions: {},
  headers: {},
  scope: { sessionId: "s", frameId: "f", requestId: "r" },
};

test("[P2] request hooks see the request with the changes of those before", async () => {
  const seen: unknown[] = [];
  const session = sessionOf([
    plugin("a", { model: { request: () => ({ parameters: { temperature: 0 } }) } }),
    plugin("b", {
      model: {
        request: (ctx) => {
          seen.push(ctx.request.parameters);
          return { toolChoice: "none" };
        },
      },
    }),
  ]);
  const result = await session.transformModelRequest(
    { sessionId: "s", round: 0, request },
    (before, patch) => ({
      ...before,
      ...(patch.parameters === undefined ? {} : { parameters: patch.parameters }),
      ...(patch.toolChoice === undefined ? {} : { toolChoice: patch.toolChoice }),
    }),
  );
  expect(seen).toEqual([{ temperature: 0 }]);
  expect(result).toEqual({ ...request, parameters: { temperature: 0 }, toolChoice: "none" });
});

test("[P6] a request hook cannot change messages", async () => {
  const session = sessionOf([plugin("a", { model: { request: () => ({ messages: [] }) as never } })]);
  const error = await rejection(
    session.transformModelRequest({ sessionId: "s", round: 0, request }, (before) => before),
  );
  expect(error.code).toBe("hook_returned_nonsense");
  expect(error.message).toContain("the answer.messages");
});

test("[P2] input hooks see what the one before made of the input, and the first refusal ends it", async () => {
  const log: string[] = [];
  const decode = (raw: TurnInput | string): TurnInput => (typeof raw === "string" ? { text: raw } : raw);
  const trim = plugin("trim", { input: { before: ({ input }) => ({ input: (input.text ?? "").trim() }) } });
  const refuse = plugin("refuse", {
    input: {
      before: ({ input }) =>
        input.text === "" ? { reject: { code: "empty", message: "Say something." } } : undefined,
    },
  });
  const last = plugin("last", {
    input: {
      before: ({ input }) => {
        log.push(input.text ?? "");
      },
    },
  });
  const session = sessionOf([trim, refuse, last]);
  expect(await session.transformInput({ sessionId: "s", input: { text: " hi " } }, decode)).toEqual({
    kind: "accepted",
    input: { text: "hi" },
  });
  expect(await session.transformInput({ sessionId: "s", input: { text: "  " } }, decode)).toEqual({
    kind: "rejected",
    pluginId: "refuse",
    code: "empty",
    message: "Say something.",
  });
  expect(log).toEqual(["hi"]);
});

test("[P3] the first decision on a failed call or a cut attempt holds", async () => {
  const session = sessionOf([
    plugin("silent", { model: { error: () => undefined }, recovery: { decide: () => undefined } }),
    plugin("first", {
      model: { error: async () => ({ kind: "fall_back", model: "small" }) },
      recovery: { decide: () => ({ kind: "use", output: toolSuccess("done") }) },
    }),
    plugin("second", { model: { error: () => ({ kind: "fail" }) } }),
  ]);
  const failure = { kind: "overloaded", message: "busy", retryable: true } as const;
  expect(
    await session.decideOnModelError({ sessionId: "s", round: 0, attempt: 1, model: "big", failure }),
  ).toEqual({
    kind: "fall_back",
    model: "small",
  });
  const cut = { sessionId: "s", toolName: "pay", callId: "c", args: {}, replay: "unsafe" } as const;
  expect(await session.decideOnRecovery(cut)).toEqual({ kind: "use", output: toolSuccess("done") });
});

const projection = {
  sessionId: "s",
  callId: "c",
  toolName: "add",
  args: {},
  output: toolSuccess("three"),
  durationMs: 1,
};

test("[SL2] without a projector a result is shown as the tools module shows it", async () => {
  expect(await sessionOf([]).projectToolResult(projection)).toEqual({
    callId: "c",
    toolName: "add",
    parts: [{ kind: "text", text: "three" }],
  });
});

test("[SL2] a projector may answer with parts or with a text", async () => {
  const parts = sessionOf([
    plugin("a", {
      toolResults: { projector: (ctx) => ({ callId: ctx.callId, toolName: ctx.toolName, parts: [] }) },
    }),
  ]);
  expect(await parts.projectToolResult(projection)).toEqual({ callId: "c", toolName: "add", parts: [] });
  const text = sessionOf([plugin("a", { toolResults: { projector: async () => "3" } })]);
  expect((await text.projectToolResult(projection)).parts).toEqual([{ kind: "text", text: "3" }]);
});

test("[SL2] a projector that fails or answers with nonsense is named", async () => {
  const failing = sessionOf([
    plugin("a", {
      toolResults: {
        projector: () => {
          throw new Error("no");
        },
      },
    }),
  ]);
  expect((await rejection(failing.projectToolResult({ ...projection, output: toolFailure("x") }))).code).toBe(
    "hook_failed",
  );
  const nonsense = sessionOf([plugin("a", { toolResults: { projector: () => 3 as never } })]);
  const error = await rejection(nonsense.projectToolResult(projection));
  expect([error.code, error.details]).toEqual([
    "hook_returned_nonsense",
    { pluginId: "a", hook: "tool_results.projector" },
  ]);
});
