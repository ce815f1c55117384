// Signals that follow another one: base/linked-signal.ts.

import { expect, test } from "vitest";
import { LinkedSignal } from "../../src/base/linked-signal.ts";

const parents = (): { readonly parent: AbortController; readonly linked: LinkedSignal } => {
  const parent = new AbortController();
  return { parent, linked: new LinkedSignal(parent.signal) };
};

test.each([true, false])("a signal follows the other one, looked at before: %s", (isLookedAt) => {
  const { parent, linked } = parents();
  const before = isLookedAt ? linked.signal : undefined;
  parent.abort("enough");
  expect(linked.signal.aborted).toBe(true);
  expect(linked.signal.reason).toBe("enough");
  if (isLookedAt) expect(linked.signal).toBe(before);
});

test.each([true, false])("one that was let go follows it no more, looked at before: %s", (isLookedAt) => {
  const { parent, linked } = parents();
  if (isLookedAt) expect(linked.signal.aborted).toBe(false);
  linked.release();
  parent.abort("enough");
  expect(linked.signal.aborted).toBe(false);
});

test.each([true, false])(
  "one that was let go after the other was aborted is aborted, looked at before: %s",
  (isLookedAt) => {
    const { parent, linked } = parents();
    if (isLookedAt) expect(linked.signal.aborted).toBe(false);
    parent.abort("enough");
    linked.release();
    linked.release();
    expect(linked.signal.reason).toBe("enough");
  },
);

test("one is aborted on its own account, and the other one is not", () => {
  const { parent, linked } = parents();
  linked.abort("late");
  expect([linked.signal.reason, parent.signal.aborted]).toEqual(["late", false]);
});
