// A turn that slept is told from its beginning: section Chat of SPEC.md.

import type { TurnEvent } from "marling";
import { expect, test } from "vitest";
import { SeenEvents } from "../src/seen-events.ts";

const output = { outcome: { kind: "success", value: "done" } } as const;
const record = { callId: "a", name: "read_file", args: {}, output, durationMs: 1 };
const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
const call = { round: 0, attempt: 1, model: "m", outcome: "completed", usage } as const;

const FIRST: readonly TurnEvent[] = [
  { kind: "turn_started", turnId: "t" },
  { kind: "model_call", phase: "started", round: 0, model: "m" },
  { kind: "text_delta", round: 0, text: "Let me " },
  { kind: "text_delta", round: 0, text: "look." },
  { kind: "model_call", phase: "finished", round: 0, record: call },
  { kind: "tool_started", callId: "a", name: "read_file", args: {} },
  { kind: "tool_finished", record },
  { kind: "waiting", callId: "b", name: "shell" },
];

test("[CS1] what was shown before a turn slept is not shown again, and what is new is", () => {
  const seen = new SeenEvents();
  expect(FIRST.filter((event) => seen.isNew(event))).toEqual(FIRST);
  seen.beginAgain();
  const more: readonly TurnEvent[] = [
    { kind: "tool_finished", record: { ...record, callId: "b" } },
    { kind: "text_delta", round: 1, text: "Done." },
  ];
  expect([...FIRST, ...more].filter((event) => seen.isNew(event))).toEqual(more);
});

test("[CS1] text of a call that was cut is shown again, because it is made again", () => {
  const seen = new SeenEvents();
  for (const event of FIRST.slice(0, 3)) seen.isNew(event);
  seen.beginAgain();
  expect(seen.isNew({ kind: "text_delta", round: 0, text: "Let me look." })).toBe(true);
});
