// Whether an id of a call is taken: SPEC.md T7, T27.

import { expect, test } from "vitest";
import type { TurnRecord } from "../../src/turn/effect.ts";
import { hasCallIn } from "../../src/turn/tool-results.ts";
import { message, record, user } from "./fixtures.ts";

const input = (): TurnRecord => record(user("in", "hello"));
const calling = (id: string): TurnRecord =>
  record(message(`m-${id}`, "assistant", { kind: "tool_call", callId: id, name: "add", args: {} } as never));

test("[T7] looking for an id costs the records that came since the last look, however many rounds there were", () => {
  let reads = 0;
  const counted = (id: string): TurnRecord => {
    const made = calling(id);
    const { parts } = (made as Extract<TurnRecord, { kind: "message" }>).message;
    const said = Object.defineProperty(message(`m-${id}`, "assistant"), "parts", {
      get: () => {
        reads += 1;
        return parts;
      },
    });
    return record(said);
  };
  let records: readonly TurnRecord[] = [input()];
  for (let round = 0; round < 200; round += 1) {
    expect(hasCallIn(records, `c${round}`)).toBe(false);
    if (round > 0) expect(hasCallIn(records, "c0")).toBe(true);
    records = [...records, counted(`c${round}`)];
  }
  expect(hasCallIn(records, "c199")).toBe(true);
  expect(reads).toBe(200);
});

test("[T27] a list of records has its own calls and no others: an earlier one, another branch, another turn", () => {
  const first = input();
  const short = [first, calling("a")];
  const one = [...short, calling("b"), calling("c")];
  const other = [...short, calling("d"), calling("e"), calling("f")];
  const has = (records: readonly TurnRecord[]): string =>
    ["a", "b", "c", "d", "e", "f"].filter((id) => hasCallIn(records, id)).join("");
  expect([has(one), has(short), has(other), has(one), has(short), has([first]), has([])]).toEqual([
    "abc",
    "a",
    "adef",
    "abc",
    "a",
    "",
    "",
  ]);
  expect(has([input(), calling("b")])).toBe("b");
});
