// The composition root: options become parts, defaults are chosen here and nowhere else.

import { hostname } from "node:os";
import { systemClock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import type { RetryTerms } from "../base/retry-refused.ts";
import { SharedValues } from "../base/shared-values.ts";
import type { EffectHost } from "../effects/contract.ts";
import { inlineEffects } from "../effects/inline.ts";
import { journalEffects } from "../effects/journal.ts";
import { tenantOf } from "../model/tenant-ids.ts";
import { definePlugin } from "../plugin/define-plugin.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { createPluginHost } from "../plugin/plugin-host.ts";
import type { Store } from "../store/contract.ts";
import { memoryStore } from "../store/memory.ts";
import { tenantStore, withoutTenants } from "../store/tenant-store.ts";
import { triggeredSessions } from "../store/tenant-triggers.ts";
import { Approvals } from "./approvals.ts";
import { HOST_TOOLS } from "./environment-names.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { Runtime, type RuntimePlace } from "./runtime.ts";
import { answerLimitsOf, bindModels, checkRuntimeOptions, type RuntimeOptions } from "./runtime-options.ts";
import { StoreWatch } from "./store-watch.ts";
import type { Tenancy } from "./tenants.ts";
import { Waits } from "./waits.ts";

const DEFAULT_TURN_BUDGET = 50;
const DEFAULT_HOOK_TIMEOUT_MS = 30_000;
const DEFAULT_TOOL_CONCURRENCY = 16;
const DEFAULT_LEASE_MS = 30_000;
const DEFAULT_COMMIT_BYTES = 16 * 1024 * 1024;
const DEFAULT_STORE_RETRY_MS = 60_000;
/** So many prompts and environments are kept for sessions that have the same. */
const MOST_SHARED = 64;

/** Makes a runtime. Synchronous; a wrong option is an `invalid_options` that names it. */
export function createRuntime(options: RuntimeOptions = {}): Runtime {
  checkRuntimeOptions(options);
  const store = options.store ?? memoryStore();
  const tenancy: Tenancy = {
    workable: async (now) => (await store.workable(now)).map((id) => tenantOf(id) ?? { id }),
    resumable: async (now) => (await store.resumable(now)).map((id) => tenantOf(id) ?? { id }),
    triggered: (now) => triggeredTenants(store, now),
    make: (tenant, onClosed) =>
      runtimeOn(tenantStore(store, tenant), tenantOptions(options, tenant), {
        kind: "tenant",
        tenant,
        onClosed,
      }),
  };
  return runtimeOn(withoutTenants(store), options, { kind: "whole", tenancy });
}

async function triggeredTenants({ triggers }: Store, now: number): Promise<readonly string[]> {
  const sessions = triggers === undefined ? [] : await triggeredSessions(triggers, now);
  return [...new Set(sessions.flatMap((id) => tenantOf(id)?.tenant ?? []))];
}

/** What a tenant's runtime does is told of with its tenant. */
function tenantOptions(options: RuntimeOptions, tenant: string): RuntimeOptions {
  const { trace, effects } = options;
  if (effects?.remembers === true) {
    const message = `scope ${tenant}: expected the effect host that comes with the store, found one that sessions of all tenants would share`;
    throw new MarlingError("not_of_tenants", message, { details: { tenant, option: "effects" } });
  }
  if (trace === undefined) return options;
  const { wantsContent = false } = trace;
  return { ...options, trace: { wantsContent, record: (record) => trace.record({ ...record, tenant }) } };
}

function runtimeOn(store: Store, options: RuntimeOptions, place: RuntimePlace): Runtime {
  const clock = options.clock ?? systemClock;
  const retry = { clock, limitMs: options.storeRetryMs ?? DEFAULT_STORE_RETRY_MS };
  const effects = options.effects ?? defaultEffects(store, retry);
  const watch = new StoreWatch(store, clock);
  const owner = options.owner ?? `${hostname()}:${process.pid}`;
  const plugins = [...hostTools(options), ...(options.plugins ?? [])];
  return new Runtime(
    {
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
      tenant: place.kind === "tenant" ? place.tenant : undefined,
      instructions: options.instructions,
      prompts: new SharedValues(MOST_SHARED),
      environments: new SharedValues(MOST_SHARED),
      turnBudget: options.turnBudget ?? DEFAULT_TURN_BUDGET,
      toolConcurrency: options.toolConcurrency ?? DEFAULT_TOOL_CONCURRENCY,
      toolTimeoutMs: options.toolTimeoutMs,
      attachmentPolicy: options.attachmentPolicy,
      answerLimits: answerLimitsOf(options),
      commitBytes: options.commitBudget?.bytes ?? DEFAULT_COMMIT_BYTES,
      retry,
      probe: options.probe,
      retired: new Map(Object.entries(options.retired ?? {})),
      readers: createPluginHost([], { clock }),
    },
    place,
  );
}

/** What nobody can read after the process has ended need not be written. */
function defaultEffects({ isDurable, journal }: Store, retry: RetryTerms): EffectHost {
  return isDurable && journal !== undefined ? journalEffects(journal, retry) : inlineEffects();
}

/** The tools given to the runtime are a plugin like any other. */
function hostTools({ tools }: RuntimeOptions): readonly Plugin[] {
  if (tools === undefined || (Array.isArray(tools) && tools.length === 0)) return [];
  return [definePlugin({ id: HOST_TOOLS, build: () => ({ tools }) })()];
}
