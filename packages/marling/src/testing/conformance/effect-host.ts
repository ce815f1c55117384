// The suite that every effect host passes. It asserts by itself and takes the test runner as an argument, so that it
// runs under any. The rules are those of `effects/SPEC.md`.

import assert from "node:assert/strict";
import type { EffectHost } from "../../effects/contract.ts";
import { callCases } from "./effect-host-calls.ts";
import type { EffectCase } from "./effect-host-case.ts";
import { memoryCases } from "./effect-host-memory.ts";
import type { SuiteApi } from "./store.ts";

/** One effect host for one case. */
export interface EffectHarness {
  readonly effects: EffectHost;
  /** The same data as another process finds it; missing when nothing outlives the host. */
  reopen?(): Promise<EffectHost>;
  close(): Promise<void>;
}

export interface EffectHostConformance {
  open(): Promise<EffectHarness>;
  /** Reasons why cases are not run, by rule or by what they need (`remembers`). They show in the report. */
  readonly skip?: Readonly<Record<string, string>>;
}

const CASES: readonly EffectCase[] = [...callCases, ...memoryCases];

/** Declares the tests of `effects/SPEC.md` for one effect host. Each case gets a host of its own. */
export function effectHostConformance(name: string, conformance: EffectHostConformance, api: SuiteApi): void {
  api.describe(`effect host: ${name}`, () => {
    for (const item of CASES) declare(item, conformance, api);
  });
}

function declare(item: EffectCase, { open, skip = {} }: EffectHostConformance, { test }: SuiteApi): void {
  const reason = skip[item.rule] ?? (item.needs === undefined ? undefined : skip[item.needs]);
  const title = `[${item.rule}] ${item.title}`;
  if (reason === undefined) test(title, () => runCase(item, open));
  else test.skip(`${title} (${reason})`, () => runCase(item, open));
}

async function runCase({ needs, run }: EffectCase, open: EffectHostConformance["open"]): Promise<void> {
  const harness = await open();
  const { effects } = harness;
  try {
    if (needs === "remembers")
      assert.ok(
        effects.remembers === true && harness.reopen !== undefined,
        "a host whose outcomes end with its process skips `remembers` with a reason",
      );
    await run({ effects, reopen: async () => (await harness.reopen?.()) ?? effects });
  } finally {
    await harness.close();
  }
}
