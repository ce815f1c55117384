// Every effect host passes the one suite.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { effectHostConformance } from "marling/testing";
import { describe, test } from "vitest";
import type { EffectHost } from "../../src/effects/contract.ts";
import { inlineEffects } from "../../src/effects/inline.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { JournalStore } from "../../src/model/journal.ts";
import type { Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

effectHostConformance(
  "inline",
  {
    open: async () => ({ effects: inlineEffects(), close: async () => undefined }),
    skip: { remembers: "nothing outlives the process" },
  },
  { describe, test },
);

effectHostConformance(
  "journal in SQLite",
  {
    open: async () => {
      const folder = mkdtempSync(join(tmpdir(), "marling-effects-"));
      const open = (): Store => sqliteStore({ path: join(folder, "effects.db") });
      let store = open();
      return {
        effects: over(store),
        reopen: async () => {
          await store.close();
          store = open();
          return over(store);
        },
        close: async () => {
          await store.close();
          rmSync(folder, { recursive: true, force: true });
        },
      };
    },
  },
  { describe, test },
);

function over(store: Store): EffectHost {
  return journalEffects(store.journal as JournalStore); // SQLite has one
}
