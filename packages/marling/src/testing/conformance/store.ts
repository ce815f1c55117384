// The suite that every store passes. It asserts by itself and takes the test runner as an argument, so that it runs
// under any.

import assert from "node:assert/strict";
import type { Store } from "../../store/contract.ts";
import { admissionCases } from "./store-admission.ts";
import { announcementCases } from "./store-announcements.ts";
import { cancelCases } from "./store-cancel.ts";
import type { StoreCase } from "./store-case.ts";
import { commitCases } from "./store-commits.ts";
import { fenceCases } from "./store-fences.ts";
import { forkCases } from "./store-forks.ts";
import { inboxCases } from "./store-inbox.ts";
import { journalCases } from "./store-journal.ts";
import { leaseCases } from "./store-leases.ts";
import { parkingCases } from "./store-parking.ts";
import { queueCases } from "./store-queues.ts";
import { refusalCases } from "./store-refusals.ts";
import { reopenCases } from "./store-reopen.ts";
import { sessionCases } from "./store-sessions.ts";
import { tickAndAgeCases } from "./store-ticks.ts";
import { triggerCases } from "./store-triggers.ts";
import { vacuumCases } from "./store-vacuum.ts";
import { valueCases } from "./store-values.ts";
import { waitCases } from "./store-waits.ts";
import { withdrawCases } from "./store-withdraw.ts";
import { workCases } from "./store-work.ts";

/** One store for one case. */
export interface StoreHarness {
  readonly store: Store;
  /** Closes the store and opens the same data again; missing when nothing outlives the store. */
  reopen?(): Promise<Store>;
  /** Another store on the same data, both open at once; missing when there can be none. Closed by `close`. */
  second?(): Promise<Store>;
  close(): Promise<void>;
}

export interface StoreConformance {
  open(): Promise<StoreHarness>;
  /** Reasons why cases are not run, by rule or by what they need (`journal`, `triggers`, `reopen`, `second`). They show in the report. */
  readonly skip?: Readonly<Record<string, string>>;
}

/** The part of a test runner that the suite needs; vitest, jest and `node:test` have it. */
export interface SuiteApi {
  describe(name: string, body: () => void): void;
  readonly test: {
    (name: string, body: () => Promise<void>): void;
    skip(name: string, body: () => Promise<void>): void;
  };
}

const CASES: readonly StoreCase[] = [
  ...commitCases,
  ...refusalCases,
  ...admissionCases,
  ...inboxCases,
  ...sessionCases,
  ...forkCases,
  ...valueCases,
  ...journalCases,
  ...leaseCases,
  ...fenceCases,
  ...cancelCases,
  ...queueCases,
  ...withdrawCases,
  ...waitCases,
  ...parkingCases,
  ...workCases,
  ...announcementCases,
  ...triggerCases,
  ...tickAndAgeCases,
  ...vacuumCases,
  ...reopenCases,
];

/** Declares the tests of `store/SPEC.md` for one store. Each case gets a store of its own. */
export function storeConformance(name: string, conformance: StoreConformance, api: SuiteApi): void {
  api.describe(`store: ${name}`, () => {
    for (const item of CASES) declare(item, conformance, api);
  });
}

function declare(item: StoreCase, { open, skip = {} }: StoreConformance, { test }: SuiteApi): void {
  const reason = skip[item.rule] ?? (item.needs === undefined ? undefined : skip[item.needs]);
  const title = `[${item.rule}] ${item.title}`;
  if (reason === undefined) test(title, () => runCase(item, open));
  else test.skip(`${title} (${reason})`, () => runCase(item, open));
}

async function runCase({ needs, run }: StoreCase, open: StoreConformance["open"]): Promise<void> {
  const harness = await open();
  const { store } = harness;
  try {
    if (needs === "journal")
      assert.ok(store.journal, "a store without a journal skips `journal` with a reason");
    if (needs === "triggers")
      assert.ok(store.triggers, "a store without triggers skips `triggers` with a reason");
    if (needs === "reopen")
      assert.ok(harness.reopen, "a store that ends with its process skips `reopen` with a reason");
    if (needs === "second")
      assert.ok(harness.second, "a store whose data no other can open skips `second` with a reason");
    await run({
      store,
      reopen: async () => (await harness.reopen?.()) ?? store,
      second: async () => (await harness.second?.()) ?? store,
    });
  } finally {
    await harness.close();
  }
}
