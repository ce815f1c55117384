// Pieces of JSON that are stored as a character or two: store/sqlite/text-fragments.ts, rules TF1 and TF2.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import { restoreText, shortenText } from "../../src/store/sqlite/session-text.ts";

const CHAT = "chat-1" as SessionId;

/** Texts as the kernel makes them, and what they have been stored as since version 2. */
const STORED: readonly (readonly [text: string, stored: string])[] = [
  [
    '[{"kind":"message","message":{"id":"m_chat-1:input:1","role":"user","parts":[{"kind":"text","text":"hi"}]},"id":"n_chat-1/turn:chat-1:turn:1/0","parentId":"n_chat-1//0","generation":1,"frameId":"chat-1:frame:initial"}]',
    '[\u00021\u0003hi"}\u00071/0","parentId":"n_\u0001//0\t1\n]',
  ],
  [
    '{"ok":1,"usage":{"input":3,"output":4,"cacheRead":0,"cacheWrite":0,"reasoning":0}}',
    '{"ok":1\u00103\u00114\u0012}',
  ],
  [
    '{"ok":1,"usage":{"input":3,"output":4,"cacheRead":5,"cacheWrite":6,"reasoning":7}}',
    '{"ok":1\u00103\u00114\u00135\u00146\u00157}}',
  ],
  ['["chat-1:turn:2","0.tool.c.1","started"]', '\u001fU2","0.tool.c.1\u001fW'],
  ['["chat-1:turn:2","0.tool.c.1","done"]', '\u001fU2","0.tool.c.1\u001fV'],
];

test.each(STORED)("[TF1] %s is stored as it always was", (text, stored) => {
  expect(shortenText(text, CHAT)).toBe(stored);
  expect(restoreText(stored, CHAT)).toBe(text);
});

test("[TF2] texts of other shapes stay as they are", () => {
  for (const text of ['{"kind":"message"}', '{"usage":{"input":3}}', '["done"]', '"\\u0002\\u001fA"'])
    expect(shortenText(text, CHAT)).toBe(text);
});

test("[TF2] texts that consist of pieces come back whole, whatever the strings and the session are called", () => {
  const strings = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("\u0002", "\u001fA", '","name":"', '{"round":', "\\", '\\","args":', "n_s/turn:s:turn:"),
  );
  const ids = fc.oneof(
    fc.string({ minLength: 1 }),
    fc.constantFrom("s", "text", "kind", "message", "input", '":"n_', ":turn:", "initial", "\\u0001", "$&"),
  );
  const node = fc.record({ text: strings, callId: strings, name: strings, number: fc.nat() });
  fc.assert(
    fc.property(ids, fc.array(node, { maxLength: 4 }), (id, nodes) => {
      const text = JSON.stringify(
        nodes.map(({ text: said, callId, name, number }) => ({
          kind: "message",
          message: {
            id: `m_${id}:input:${number}`,
            role: "assistant",
            parts: [
              { kind: "prose", text: said },
              { kind: "tool_call", callId, name, args: { text: said } },
            ],
          },
          id: `n_${id}/turn:${id}:turn:${number}/0`,
          parentId: `n_${id}/turn:${id}:turn:${number}/1`,
          generation: number,
          frameId: `${id}:frame:initial`,
        })),
      );
      for (const whole of [text, text.repeat(Math.ceil(40_000 / text.length))])
        expect(restoreText(shortenText(whole, id as SessionId), id as SessionId)).toBe(whole);
    }),
  );
});
