// How a locked file is waited for: store/sqlite/when-free.ts, rule WQ3.

import { expect, test } from "vitest";
import { whenFree } from "../../src/store/sqlite/when-free.ts";

const busy = (): Error => Object.assign(new Error("database is locked"), { errcode: 5 });

test("[WQ3] a file that is free costs no promise", () => {
  expect(whenFree(() => "done", 1_000)).toBe("done");
});

test("[WQ3] a file that is locked is tried once, and then waited for without blocking", async () => {
  let attempts = 0;
  const done = whenFree(() => {
    attempts += 1;
    if (attempts < 3) throw busy();
    return "done";
  }, 10_000);
  expect(attempts).toBe(1);
  expect(await done).toBe("done");
  expect(attempts).toBe(3);
});

test("[WQ3] when the time is over, what the last attempt threw is thrown; other failures are at once", async () => {
  const last = busy();
  await expect(
    whenFree(() => {
      throw last;
    }, 0),
  ).rejects.toBe(last);
  const other = new Error("disk full");
  expect(() =>
    whenFree(() => {
      throw other;
    }, 10_000),
  ).toThrow(other);
});
