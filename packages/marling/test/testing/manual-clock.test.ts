import { ManualClock } from "marling/testing";
import { expect, test } from "vitest";

test("time passes only when it is told to, and timers fire in the order they are due", () => {
  const clock = new ManualClock({ startsAt: 1_000 });
  const fired: string[] = [];
  clock.after(20, () => fired.push("late"));
  clock.after(10, () => fired.push("early"));
  const cancel = clock.after(10, () => fired.push("cancelled"));
  cancel();
  clock.advance(9);
  expect([clock.now(), clock.monotonic(), clock.pending, fired]).toEqual([1_009, 9, 2, []]);
  clock.advance(100);
  expect([clock.now(), clock.pending, fired]).toEqual([1_109, 0, ["early", "late"]]);
});

test("a sleep ends when its time has come or its signal aborts", async () => {
  const clock = new ManualClock();
  const { signal } = new AbortController();
  const slept = clock.sleep(5, { signal });
  clock.advance(5);
  await expect(slept).resolves.toBeUndefined();
  const control = new AbortController();
  const cut = clock.sleep(5, { signal: control.signal });
  control.abort(new Error("enough"));
  await expect(cut).rejects.toThrow("enough");
  await expect(clock.sleep(5, { signal: control.signal })).rejects.toThrow("enough");
  expect(clock.pending).toBe(0);
});
