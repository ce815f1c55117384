import fc from "fast-check";
import { expect, test } from "vitest";
import type { AttachmentSource } from "../../src/model/attachment.ts";
import type { Json, JsonObject } from "../../src/model/json.ts";
import {
  attachment,
  encodeToolValue,
  mapAttachments,
  readTagged,
  ToolAttachment,
} from "../../src/model/tool-value.ts";
import { refusal } from "../base/refusal.ts";

const SOURCE: AttachmentSource = { kind: "stored", mediaType: "image/png", ref: "abc", bytes: 3 };

const noAttachment = (): Json => "attachment!";

test("an attachment is tagged wherever it stands", () => {
  expect(encodeToolValue({ images: [attachment(SOURCE)], note: "two" })).toEqual({
    images: [{ $marling: "attachment", source: SOURCE }],
    note: "two",
  });
});

test("an attachment of another copy of the library is one too", () => {
  const foreign = {
    [Symbol.for("marling.tool_attachment")]: true,
    source: SOURCE,
    toJSON: () => attachment(SOURCE).toJSON(),
  };
  expect(ToolAttachment.is(foreign)).toBe(true);
  expect(encodeToolValue([foreign])).toEqual([{ $marling: "attachment", source: SOURCE }]);
});

test("a user's own object that looks like a tag is escaped and comes back", () => {
  const value = { $marling: "attachment", source: { deep: { $marling: 1 } } };
  const wire = encodeToolValue(value);
  expect(wire).toEqual({
    $marling: "object",
    entries: {
      $marling: "attachment",
      source: { deep: { $marling: "object", entries: { $marling: 1 } } },
    },
  });
  expect(mapAttachments(wire, noAttachment)).toEqual(value);
});

test("a look-alike from an object's own toJSON is escaped too", () => {
  const wire = encodeToolValue({ toJSON: () => ({ $marling: "attachment" }) });
  expect(wire).toEqual({ $marling: "object", entries: { $marling: "attachment" } });
});

test("any JSON comes back as it was, tags included", () => {
  const key = fc.constantFrom("$marling", "entries", "source", "a");
  const { value } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.constantFrom("attachment", "object", 1, null, true),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 3, noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(value, (json) => {
      expect(mapAttachments(encodeToolValue(json), noAttachment)).toEqual(json);
    }),
  );
});

test("attachments are replaced in their places", () => {
  const wire = encodeToolValue({ a: [1, attachment(SOURCE)], b: attachment(SOURCE) });
  expect(mapAttachments(wire, ({ mediaType }) => `<${mediaType}>`)).toEqual({
    a: [1, "<image/png>"],
    b: "<image/png>",
  });
});

test("a wire object says what it stands for", () => {
  expect(readTagged({ a: 1 })).toEqual({ kind: "json", value: { a: 1 } });
  expect(readTagged({ $marling: "attachment", source: { ...SOURCE } })).toEqual({
    kind: "attachment",
    source: SOURCE,
  });
  expect(readTagged({ $marling: "object", entries: { $marling: 1 } })).toEqual({
    kind: "json",
    value: { $marling: 1 },
  });
});

test.each<[string, JsonObject, string, string]>([
  [
    "an unknown tag",
    { $marling: "file" },
    "invalid_tool_value",
    'tool value: expected the tag attachment or object, found "file"',
  ],
  [
    "a tag that is null",
    { $marling: null },
    "invalid_tool_value",
    "tool value: expected the tag attachment or object, found null",
  ],
  [
    "an escaped object without entries",
    { $marling: "object" },
    "invalid_tool_value",
    "tool value: expected an object in `entries` beside the tag object",
  ],
  [
    "entries that are a list",
    { $marling: "object", entries: [] },
    "invalid_tool_value",
    "tool value: expected an object in `entries` beside the tag object",
  ],
  [
    "an attachment without a source",
    { $marling: "attachment" },
    "invalid_attachment",
    "tool value: expected an object with a `kind`",
  ],
])("%s is refused", (_name, value, code, message) => {
  expect(refusal(() => readTagged(value))).toEqual({ code, message });
});

test.each<[string, unknown, string]>([
  ["a function", { f: () => 1 }, "tool value.f: expected a JSON value, found a function"],
  ["a class instance", [new Map()], "tool value[0]: expected a plain object, found an instance of Map"],
  ["a hole", new Array(1), "tool value[0]: expected a JSON value, found undefined"],
  [
    "a member named __proto__",
    JSON.parse('{"__proto__":1}'),
    "tool value: expected no member named __proto__, found one",
  ],
])("%s is no tool value", (_name, value, message) => {
  expect(refusal(() => encodeToolValue(value))).toEqual({ code: "invalid_json", message });
});

test("cycles and endless depth are refused, not followed", () => {
  const cycle: { self?: unknown } = {};
  cycle.self = [cycle];
  expect(refusal(() => encodeToolValue(cycle)).message).toContain("without cycles");
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  expect(refusal(() => encodeToolValue(deep)).message).toContain("at most 512 levels");
});

test("an attachment with a bad source is refused where it is made", () => {
  const source = { kind: "stored", mediaType: "image", ref: "abc", bytes: 3 } as const;
  expect(refusal(() => attachment(source))).toEqual({
    code: "invalid_attachment",
    message: 'attachment.mediaType: expected type/subtype, found "image"',
  });
});
