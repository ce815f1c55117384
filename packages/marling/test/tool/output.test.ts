// Outputs: rules TO1 to TO4.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { MarlingError } from "../../src/base/errors.ts";
import type { AttachmentSource } from "../../src/model/attachment.ts";
import {
  failureOf,
  finishTurn,
  pendingResult,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../../src/model/tool-output.ts";
import { attachment } from "../../src/model/tool-value.ts";
import {
  checkToolOutput,
  failureFromThrown,
  projectToolOutput,
  storeAttachments,
  toToolResult,
} from "../../src/tool/output.ts";
import { compileSchema } from "../../src/tool/schema.ts";

const png: AttachmentSource = { kind: "inline", mediaType: "image/png", base64: "AAAA" };
const pdf: AttachmentSource = {
  kind: "external_url",
  mediaType: "application/pdf",
  url: "https://example.com/a.pdf",
};
const text = (words: string): object => ({ kind: "text", text: words });
const shown = (source: AttachmentSource): object => ({ kind: "attachment", source });

describe("what the model is shown", () => {
  const parts = (output: ToolOutput): unknown =>
    projectToolOutput({ callId: "c", toolName: "t", output }).parts;
  const rows: readonly [string, ToolOutput, readonly object[]][] = [
    ["a string as it is", toolSuccess('say "hi"'), [text('say "hi"')]],
    ["an empty string as nothing", toolSuccess(""), []],
    ["null as JSON", toolSuccess(undefined), [text("null")]],
    ["a number as JSON", toolSuccess(5), [text("5")]],
    [
      "an object with sorted keys",
      toolSuccess({ b: [1, { d: 1, c: 2 }], a: "x" }),
      [text('{"a":"x","b":[1,{"c":2,"d":1}]}')],
    ],
    ["an attachment alone", toolSuccess(attachment(png)), [shown(png)]],
    [
      "attachments where they stood",
      toolSuccess({ z: 1, list: ["a", attachment(png), attachment(pdf)] }),
      [text('{"list":["a",'), shown(png), text(","), shown(pdf), text('],"z":1}')],
    ],
    [
      "a look-alike as the object it is",
      toolSuccess({ $marling: "attachment", x: 1 }),
      [text('{"$marling":"attachment","x":1}')],
    ],
    ["a failure", toolFailure("No such file."), [text("[tool failed]\nNo such file.")]],
    ["a failure without words", toolFailure(""), [text("[tool failed]")]],
    [
      "a failure with attachments in its raw value",
      toolFailure({ message: "Bad page.", raw: { page: [attachment(png)], why: "x" } }),
      [text("[tool failed]\nBad page."), shown(png)],
    ],
    ["a cancellation", toolCancelled("Stopped."), [text("[tool cancelled]\nStopped.")]],
  ];
  test.each(rows)("[K53] %s", (_name, output, expected) => {
    expect(parts(output)).toEqual(expected);
  });
  test("[K53] carries the call and the tool", () => {
    expect(projectToolOutput({ callId: "c", toolName: "t", output: toolSuccess("x") })).toEqual({
      callId: "c",
      toolName: "t",
      parts: [{ kind: "text", text: "x" }],
    });
  });
});

describe("[TO1] what a tool returned", () => {
  test("marked results pass, everything else that is JSON is success", () => {
    const output = toolFailure("no");
    const pending = pendingResult();
    expect(toToolResult(output, "t")).toBe(output);
    expect(toToolResult(pending, "t")).toBe(pending);
    expect(toToolResult(undefined, "t")).toEqual(toolSuccess(null));
    expect(toToolResult({ outcome: { kind: "failure" } }, "t")).toEqual(
      toolSuccess({ outcome: { kind: "failure" } }),
    );
    expect(toToolResult({ kind: "pending" }, "t")).toEqual(toolSuccess({ kind: "pending" }));
    expect(toToolResult({ a: undefined, b: new Date(0) }, "t")).toEqual(
      toolSuccess({ b: "1970-01-01T00:00:00.000Z" }),
    );
  });

  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  test.each([
    ["a function", () => 1],
    ["a bigint", { n: 1n }],
    ["not a number", [Number.NaN]],
    ["a class instance", new Map()],
    ["a cycle", cyclic],
    ["a member named __proto__", JSON.parse('{"__proto__":1}')],
  ])("what is not JSON is a failure that names the tool: %s", (_name, returned) => {
    expect(toToolResult(returned, "lookup")).toMatchObject({
      outcome: {
        kind: "failure",
        class: "internal",
        code: "invalid_tool_output",
        message: expect.stringMatching(/^The tool lookup returned something that is not JSON: tool value/),
      },
    });
  });
});

describe("[TO2] what a tool threw", () => {
  const rows: readonly [string, unknown, string, string][] = [
    ["an error", new TypeError("No such file."), "tool_error", "No such file."],
    ["an error of marling", new MarlingError("session_busy", "Busy."), "session_busy", "Busy."],
    ["an error without words", new Error(), "tool_error", "The tool t failed without saying why."],
    ["a string", "no", "tool_error", "no"],
    [
      "an object with a message",
      { message: "from afar", stack: "at secret.ts:1" },
      "tool_error",
      "from afar",
    ],
    ["another object", { status: 500 }, "tool_error", '{"status":500}'],
    ["nothing", undefined, "tool_error", "undefined"],
  ];
  test.each(rows)("%s", (_name, thrown, code, message) => {
    const output = failureFromThrown(thrown, "t");
    expect(output.outcome).toEqual({
      kind: "failure",
      class: "execution",
      code,
      message,
      source: "tool",
      retry: { kind: "never" },
    });
  });
  test("an output is that output", () => {
    const output = toolFailure({ message: "Later.", retry: { safe: true } });
    expect(failureFromThrown(output, "t")).toBe(output);
  });
});

test("[TD5] the output schema sees attachments in their wire form and objects as the tool wrote them", async () => {
  const schema = z.object({
    file: z.looseObject({ $marling: z.literal("attachment") }),
    own: z.object({ $marling: z.number() }),
  });
  const validator = compileSchema(schema, "test");
  const good = toolSuccess({ file: attachment(png), own: { $marling: 1 } });
  const wire = await checkToolOutput(good, "t", { validator });
  expect(wire.outcome).toMatchObject({ kind: "success" });
});

describe("[TO4] attachments", () => {
  const stored: AttachmentSource = { kind: "stored", mediaType: "image/png", ref: "sha", bytes: 3 };

  test("inline ones are replaced in place, others stay, and control is kept", async () => {
    const asked: AttachmentSource[] = [];
    const control = finishTurn(1).control;
    const output = toolSuccess(
      { b: [attachment(png)], a: attachment(pdf), $own: { $marling: "attachment", n: 1 } },
      control,
    );
    const result = await storeAttachments(output, async (source) => {
      asked.push(source);
      return stored;
    });
    expect(asked).toEqual([png]);
    expect(result).toEqual(
      toolSuccess(
        { a: attachment(pdf), b: [attachment(stored)], $own: { $marling: "attachment", n: 1 } },
        control,
      ),
    );
  });

  test("are stored in reading order, each for its own place", async () => {
    const other: AttachmentSource = { kind: "inline", mediaType: "image/gif", base64: "BBBB" };
    const output = toolSuccess({ z: attachment(png), a: attachment(other) });
    const order: string[] = [];
    const result = await storeAttachments(output, async (source) => {
      order.push(source.mediaType);
      return { kind: "stored", mediaType: source.mediaType, ref: source.base64, bytes: 3 };
    });
    expect(order).toEqual(["image/gif", "image/png"]);
    expect(result).toEqual(
      toolSuccess({
        a: attachment({ kind: "stored", mediaType: "image/gif", ref: "BBBB", bytes: 3 }),
        z: attachment({ kind: "stored", mediaType: "image/png", ref: "AAAA", bytes: 3 }),
      }),
    );
  });

  test("in the raw value of a failure are stored too", async () => {
    const output = toolFailure({ message: "m", raw: [attachment(png)] });
    const result = await storeAttachments(output, async () => stored);
    expect(result).toEqual(toolFailure({ message: "m", raw: [attachment(stored)] }));
  });

  test("the first refusal becomes the outcome and nothing more is stored", async () => {
    let puts = 0;
    const failure = failureOf({
      class: "external",
      code: "attachment_store_failed",
      message: "Full.",
      source: "runtime",
    });
    const output = toolSuccess([attachment(png), attachment(png)]);
    const result = await storeAttachments(output, async () => {
      puts += 1;
      return failure;
    });
    expect(result.outcome).toEqual(failure);
    expect(puts).toBe(1);
  });

  test("a policy sees every source before it is stored", async () => {
    const denied = failureOf({
      class: "permission_denied",
      code: "attachment_source_policy_denied",
      message: "No.",
      source: "policy",
    });
    const put = async (): Promise<never> => expect.fail("nothing is stored");
    const allow = (source: AttachmentSource): typeof denied | undefined =>
      source.kind === "external_url" ? denied : undefined;
    expect(
      (await storeAttachments(toolSuccess([attachment(pdf), attachment(png)]), put, { allow })).outcome,
    ).toEqual(denied);
  });

  test("an output without any is passed on as it is", async () => {
    const output = toolSuccess({ a: 1 });
    expect(await storeAttachments(output, async () => stored)).toBe(output);
  });
});
