// The composition root: options become parts, defaults are chosen here and nowhere else.

import { hostname } from "node:os";
import { systemClock } from "../base/clock.ts";
import type { EffectHost } from "../effects/contract.ts";
import { inlineEffects } from "../effects/inline.ts";
import { journalEffects } from "../effects/journal.ts";
import { definePlugin } from "../plugin/define-plugin.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { createPluginHost } from "../plugin/plugin-host.ts";
import type { Store } from "../store/contract.ts";
import { memoryStore } from "../store/memory.ts";
import { Approvals } from "./approvals.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { Runtime } from "./runtime.ts";
import { bindModels, checkRuntimeOptions, type RuntimeOptions } from "./runtime-options.ts";
import { StoreWatch } from "./store-watch.ts";
import { Waits } from "./waits.ts";

const DEFAULT_TURN_BUDGET = 50;
const DEFAULT_HOOK_TIMEOUT_MS = 30_000;
const DEFAULT_TOOL_CONCURRENCY = 16;
const DEFAULT_LEASE_MS = 30_000;
const DEFAULT_COMMIT_BYTES = 16 * 1024 * 1024;

/** Makes a runtime. Synchronous; a wrong option is an `invalid_options` that names it. */
export function createRuntime(options: RuntimeOptions = {}): Runtime {
  checkRuntimeOptions(options);
  const clock = options.clock ?? systemClock;
  const store = options.store ?? memoryStore();
  const effects = options.effects ?? defaultEffects(store);
  const watch = new StoreWatch(store, clock);
  const owner = options.owner ?? `${hostname()}:${process.pid}`;
  const plugins = [...hostTools(options), ...(options.plugins ?? [])];
  return new Runtime({
    store,
    effects,
    clock,
    trace: options.trace,
    models: bindModels(options),
    plugins: createPluginHost(plugins, {
      hookTimeoutMs: options.hookTimeoutMs ?? DEFAULT_HOOK_TIMEOUT_MS,
      clock,
    }),
    waits: new Waits(store, watch),
    approvals: new Approvals(store, watch, clock),
    watch,
    leases: new LeaseKeeper({ store, clock, owner, ttlMs: options.leaseMs ?? DEFAULT_LEASE_MS }),
    owner,
    instructions: options.instructions,
    turnBudget: options.turnBudget ?? DEFAULT_TURN_BUDGET,
    toolConcurrency: options.toolConcurrency ?? DEFAULT_TOOL_CONCURRENCY,
    attachmentPolicy: options.attachmentPolicy,
    commitBytes: options.commitBudget?.bytes ?? DEFAULT_COMMIT_BYTES,
    probe: options.probe,
  });
}

/** What nobody can read after the process has ended need not be written. */
function defaultEffects({ isDurable, journal }: Store): EffectHost {
  return isDurable && journal !== undefined ? journalEffects(journal) : inlineEffects();
}

/** The tools given to the runtime are a plugin like any other. */
function hostTools({ tools }: RuntimeOptions): readonly Plugin[] {
  if (tools === undefined || (Array.isArray(tools) && tools.length === 0)) return [];
  return [definePlugin({ id: "host_tools", build: () => ({ tools }) })()];
}
