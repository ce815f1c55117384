// Bytes that tools return: stored before anything mentions them, and only where the policy allows.

import { attachment, defineTool, directive, type RuntimeOptions, toolFailure, toolSuccess } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { memoryStore } from "../../src/store/memory.ts";
import { failureOf, play, plugin, type Stage, stage } from "./tools-support.ts";

const PIXEL = { kind: "inline", mediaType: "image/png", base64: "aGVsbG8=" } as const;
/** sha256 of the bytes of "hello". */
const REF = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const STORED = { kind: "stored", mediaType: "image/png", ref: REF, bytes: 5 };

async function returning(value: () => unknown, options: Omit<RuntimeOptions, "model"> = {}): Promise<Stage> {
  const camera = defineTool({
    name: "camera",
    description: "Takes pictures.",
    input: { type: "object" },
    execute: value,
  });
  return stage({ tools: [camera], script: [callTool("camera"), say("Seen.")], ...options });
}

test("[K106] inline bytes are stored, and the result, the record and the history have references", async () => {
  const store = memoryStore();
  const { session, model } = await returning(
    () => ({ first: attachment(PIXEL), list: [1, attachment(PIXEL)] }),
    { store },
  );
  const { report } = await play(session.turn("Look"));
  const tagged = { $marling: "attachment", source: STORED };
  expect(report.toolCalls[0]?.output.outcome).toEqual({
    kind: "success",
    value: { first: tagged, list: [1, tagged] },
  });
  expect(new TextDecoder().decode(await store.blobs.get(REF))).toBe("hello");
  expect(JSON.stringify([await session.history(), report, model.requests])).not.toContain("aGVsbG8=");
  const shown = model.requests[1]?.messages
    .flatMap(({ parts }) => parts)
    .filter(({ kind }) => kind === "attachment");
  expect(shown).toMatchObject([{ source: STORED }, { source: STORED }]);
});

test("[K106] bytes that a tool puts into the store itself are references from the beginning", async () => {
  const store = memoryStore();
  const camera = defineTool({
    name: "camera",
    description: "Takes pictures.",
    input: { type: "object" },
    execute: (_input, context) => context.attachments.put(new TextEncoder().encode("hello"), "image/png"),
  });
  const { session } = await stage({ tools: [camera], store, script: [callTool("camera"), say("Seen.")] });
  const { report } = await play(session.turn("Look"));
  expect(report.toolCalls[0]?.output.outcome).toEqual({
    kind: "success",
    value: { $marling: "attachment", source: STORED },
  });
});

test("[K106] a source that the policy denies fails the call, and nothing is stored", async () => {
  const store = memoryStore();
  const asked: unknown[] = [];
  const { session } = await returning(() => [attachment(PIXEL)], {
    store,
    attachmentPolicy: (source, producer) => {
      asked.push([source.kind, producer]);
      return false;
    },
  });
  const { report } = await play(session.turn("Look"));
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    class: "permission_denied",
    code: "attachment_source_policy_denied",
    source: "policy",
    message: "The attachment of camera is not allowed: inline, image/png.",
  });
  expect(asked).toEqual([["inline", "camera"]]);
  expect(await store.blobs.get(REF)).toBeUndefined();
  expect(report.outcome.kind).toBe("finished");
});

test("[K106] a policy that throws denies", async () => {
  const { session } = await returning(() => attachment(PIXEL), {
    attachmentPolicy: () => {
      throw new Error("who knows");
    },
  });
  const { report } = await play(session.turn("Look"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("attachment_source_policy_denied");
});

test("[K106] references of other kinds are asked about and kept as they are", async () => {
  const url = { kind: "external_url", mediaType: "image/png", url: "https://example.org/a.png" } as const;
  const { session } = await returning(() => attachment(url), {
    attachmentPolicy: ({ kind }) => kind === "external_url",
  });
  const { report } = await play(session.turn("Look"));
  expect(report.toolCalls[0]?.output.outcome).toEqual({
    kind: "success",
    value: { $marling: "attachment", source: url },
  });
});

test("[K106] bytes in a failure are stored too", async () => {
  const { session } = await returning(() => toolFailure({ message: "Blurred.", raw: attachment(PIXEL) }));
  const { report } = await play(session.turn("Look"));
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    message: "Blurred.",
    raw: { $marling: "attachment", source: STORED },
  });
});

test("[K106] a store that fails fails the call", async () => {
  const store = memoryStore();
  const broken = { ...store.blobs, put: () => Promise.reject(new Error("disk full")) };
  const { session } = await returning(() => attachment(PIXEL), {
    storeRetryMs: 0,
    store: new Proxy(store, {
      get: (target, name) => {
        const member: unknown = name === "blobs" ? broken : Reflect.get(target, name);
        return typeof member === "function" ? member.bind(target) : member;
      },
    }),
  });
  const { report } = await play(session.turn("Look"));
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "attachment_store_failed",
    message: "The attachment could not be stored: disk full",
  });
});

test.each(["before", "after"] as const)(
  "[K106] bytes that a hook %s the call puts in its place are stored too",
  async (when) => {
    const replacing = plugin("hook", {
      toolCalls: { [when]: () => directive.shortCircuitTool(toolSuccess(attachment(PIXEL))) },
    });
    const { session } = await returning(() => "plain", { plugins: [replacing] });
    const { report } = await play(session.turn("Look"));
    expect(report.toolCalls[0]?.output.outcome).toEqual({
      kind: "success",
      value: { $marling: "attachment", source: STORED },
    });
  },
);

test("[K106] bytes that a provider gives while preparing are stored too", async () => {
  const early = defineTool({
    name: "camera",
    description: "Takes pictures.",
    input: { type: "object" },
    prepare: () => toolSuccess(attachment(PIXEL)),
    execute: () => null,
  });
  const { session } = await stage({ tools: [early], script: [callTool("camera"), say("Seen.")] });
  const { report } = await play(session.turn("Look"));
  expect(JSON.stringify(report)).not.toContain("aGVsbG8=");
});

test("[K106] bytes of a call in a batch stay attachments, once stored", async () => {
  const camera = defineTool({
    name: "camera",
    description: "Takes pictures.",
    input: { type: "object" },
    execute: () => attachment(PIXEL),
  });
  const { session } = await stage({
    tools: [camera],
    script: [callTool("batch", { calls: [{ tool: "camera" }] }), say("Seen.")],
  });
  const { report } = await play(session.turn("Look"));
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    value: { results: [{ success: true, result: { $marling: "attachment", source: STORED } }] },
  });
});
