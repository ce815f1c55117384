// The texts of the SQLite store: whatever goes in comes out.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { EffectKey, InputId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { Json } from "../../src/model/json.ts";
import type { InboxRow, SessionHead } from "../../src/store/contract.ts";
import { HeadFold, type HeadImage, patchHead } from "../../src/store/sqlite/head-patch.ts";
import { decodeSettled, encodeSettled } from "../../src/store/sqlite/input-codec.ts";
import { parseRepeated, stringifyRepeated, textOf } from "../../src/store/sqlite/repeated-text.ts";
import { restoreText, shortenText } from "../../src/store/sqlite/session-text.ts";
import { head, id, report } from "../../src/testing/conformance/store-case.ts";

const texts = fc.oneof(
  fc.string(),
  fc.constantFrom(
    "~",
    "~~",
    "~0",
    "~1",
    "a long sentence that is worth sharing, one",
    "another long sentence that is worth sharing",
    "~a long one that begins with a tilde, indeed",
  ),
);
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    texts,
    fc.array(tie("json"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom("1", "0", "b", "a", "__proto__"), fc.string()), tie("json"), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
  ),
}));

test("[ST7] a text with references to another gives the same value", () => {
  fc.assert(
    fc.property(json, json, (known, value) => {
      const { text, strings } = textOf(known);
      expect(text).toBe(JSON.stringify(known));
      const { strings: again } = textOf(JSON.parse(text));
      expect(again).toEqual(strings);
      const plain = JSON.stringify(value);
      expect(JSON.stringify(parseRepeated(stringifyRepeated(value, strings), again))).toBe(plain);
    }),
  );
});

const rows: fc.Arbitrary<Omit<InboxRow, "sequence" | "inputId">> = fc
  .record({ submitted: json, input: json, key: texts, turn: fc.nat(3), hasKey: fc.boolean() })
  .map(({ submitted, input, key, turn, hasKey }) => ({
    sessionId: id("chat"),
    submitted,
    input,
    turnId: `chat:turn:${turn}` as TurnId,
    ...(hasKey ? { key } : {}),
  }));

test("[ST33] settled inputs, alone or with others that joined their turn, come back as they were", () => {
  const joining = rows.map((row) => ({
    ...row,
    deliver: "active_turn" as const,
    claimed: { turnId: "chat:turn:1" as TurnId, key: "0.checkpoint" as EffectKey },
  }));
  fc.assert(
    fc.property(rows, fc.array(joining, { maxLength: 3 }), json, (first, others, nodes) => {
      const [row, ...joined] = [first, ...others].map((input, index): InboxRow => {
        const sequence = index + 1;
        return { ...input, sequence, inputId: `chat:input:${sequence}` as InputId };
      }) as [InboxRow, ...InboxRow[]];
      const { strings } = textOf(nodes);
      const text = encodeSettled(
        { row, joined },
        report("a long sentence that is worth sharing, one"),
        strings,
      );
      const settled = decodeSettled(id("chat"), text, { sequence: 1, strings });
      expect(settled.map(({ report: found, ...input }) => [found?.text, input])).toEqual(
        [row, ...joined].map((input) => ["a long sentence that is worth sharing, one", input]),
      );
    }),
  );
});

test("[SL9] a settled input has the text that version 1 gave it", () => {
  const row: InboxRow = {
    sessionId: id("chat"),
    key: "k",
    turnId: "chat:turn:1" as TurnId,
    inputId: "chat:input:1" as InputId,
    sequence: 1,
    submitted: { text: "one" },
    input: { text: "ONE" },
  };
  const { text, ...rest } = report("done");
  expect(encodeSettled({ row, joined: [] }, { text, ...rest }, [])).toBe(
    `{"names":{"key":"k"},"submitted":{"text":"one"},"input":{"text":"ONE"},"report":${JSON.stringify({ text, ...rest })}}`,
  );
});

test("[SL5] a long string is written once", () => {
  const long = "a sentence of more than thirty-two characters";
  expect(stringifyRepeated([long, long, { again: long }], [])).toBe(`["${long}","~0",{"again":"~0"}]`);
  expect(stringifyRepeated([long, "short", "~1"], ["something else that is long enough", long])).toBe(
    '["~1","short","~~1"]',
  );
});

test("[ST7] a reference to a string that is not there is no text of ours", () => {
  expect(() => parseRepeated('["~3"]', [])).toThrow(SyntaxError);
});

test("[ST7] a text without the id of its session gives the same text again", () => {
  const ids = fc.oneof(
    fc.string({ minLength: 1 }),
    fc.constantFrom("chat", '"q"\\', "\\u0001", "$&$1", "tttt", "nnnn"),
  );
  fc.assert(
    fc.property(ids, json, (id, value) => {
      const text = JSON.stringify({ id, value, derived: `n_${id}/${id}:turn:1` });
      expect(restoreText(shortenText(text, id as SessionId), id as SessionId)).toBe(text);
      const long = text.repeat(Math.ceil(40_000 / text.length)); // It is put together in another way.
      expect(restoreText(shortenText(long, id as SessionId), id as SessionId)).toBe(long);
    }),
  );
  expect(shortenText('{"id":"n_chat-1/0"}', "chat-1" as SessionId)).toBe('{"id":"n_\u0001/0"}');
});

const heads: fc.Arbitrary<SessionHead> = fc
  .record({
    turnIndex: fc.nat(3),
    leaf: fc.constantFrom(null, "n1", "n2"),
    currentFrameId: fc.constantFrom("f1", "f2"),
    frames: fc.array(fc.record({ id: fc.constantFrom("f1", "f2"), status: fc.constantFrom("a", "b") }), {
      maxLength: 4,
    }),
    ledger: fc.array(fc.record({ source: fc.constantFrom("s", "t"), usage: fc.nat(2) }), { maxLength: 4 }),
    lastPromptUsage: fc.constantFrom(null, { input: 1 }),
    operations: fc.nat(2),
  })
  .chain((changes) =>
    fc.constantFrom({}, { later: 1 }, { later: [1] }).map((more) => ({ ...head(changes as never), ...more })),
  );

test("[ST6] folding patches gives the newest head, remembered or not, and from one that is whole on", () => {
  const step = fc.record({
    head: heads,
    hasNode: fc.boolean(),
    isRemembered: fc.boolean(),
    isWhole: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (steps) => {
      let fold = new HeadFold();
      let image: HeadImage | undefined;
      for (const { head: next, hasNode, isRemembered, isWhole } of steps) {
        const lastNode = hasNode ? "n1" : undefined;
        const apart = { parentSessionId: null, leaf: (lastNode ?? null) as never };
        const before =
          isRemembered || image === undefined
            ? image
            : patchHead(undefined, fold.head(apart), { lastNode: undefined }).image;
        const patched = patchHead(before, next, { lastNode, isWhole });
        const patch = JSON.parse(JSON.stringify(patched.patch));
        fold.add(patch);
        image = patched.image;
        expect(fold.head(apart)).toEqual(next);
        if (!isWhole) continue;
        fold = new HeadFold();
        fold.add(patch);
        expect(fold.head(apart)).toEqual(next);
      }
    }),
  );
});

test("[SL5] a head that did not change has a patch of its turn index only", () => {
  const { image } = patchHead(undefined, head({ turnIndex: 4 }), { lastNode: "n1" });
  const { patch } = patchHead(image, head({ turnIndex: 5, leaf: "n2" as never }), { lastNode: "n2" });
  expect(patch).toEqual({ set: { turnIndex: 5 } });
});
