// The crash test of the guide.

// #region test
import { crashAtEveryEffect } from "marling/testing";
import { expect, test } from "vitest";

test("mail is sent, wherever the process is killed", async () => {
  const scenario = new URL("./scenarios/mail.mjs", import.meta.url);
  const report = await crashAtEveryEffect(scenario, { distinct: true });
  expect(report.kills).toBeGreaterThan(10);
}, 120_000);
// #endregion
