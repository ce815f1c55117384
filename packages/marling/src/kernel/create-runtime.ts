// The composition root: options become parts, defaults are chosen here and nowhere else.

import { hostname } from "node:os";
import { systemClock } from "../base/clock.ts";
import { inlineEffects } from "../effects/inline.ts";
import { journalEffects } from "../effects/journal.ts";
import { definePlugin } from "../plugin/define-plugin.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { createPluginHost } from "../plugin/plugin-host.ts";
import { memoryStore } from "../store/memory.ts";
import { Runtime } from "./runtime.ts";
import { bindModels, checkRuntimeOptions, type RuntimeOptions } from "./runtime-options.ts";
import { Waits } from "./waits.ts";

const DEFAULT_TURN_BUDGET = 50;
const DEFAULT_HOOK_TIMEOUT_MS = 30_000;
const DEFAULT_TOOL_CONCURRENCY = 16;

/** Makes a runtime. Synchronous; a wrong option is an `invalid_options` that names it. */
export function createRuntime(options: RuntimeOptions = {}): Runtime {
  checkRuntimeOptions(options);
  const clock = options.clock ?? systemClock;
  const store = options.store ?? memoryStore();
  const plugins = [...hostTools(options), ...(options.plugins ?? [])];
  return new Runtime({
    store,
    effects:
      options.effects ?? (store.journal === undefined ? inlineEffects() : journalEffects(store.journal)),
    clock,
    trace: options.trace,
    models: bindModels(options),
    plugins: createPluginHost(plugins, {
      hookTimeoutMs: options.hookTimeoutMs ?? DEFAULT_HOOK_TIMEOUT_MS,
      clock,
    }),
    waits: new Waits(),
    owner: options.owner ?? `${hostname()}:${process.pid}`,
    instructions: options.instructions,
    turnBudget: options.turnBudget ?? DEFAULT_TURN_BUDGET,
    toolConcurrency: options.toolConcurrency ?? DEFAULT_TOOL_CONCURRENCY,
    attachmentPolicy: options.attachmentPolicy,
    probe: options.probe,
  });
}

/** The tools given to the runtime are a plugin like any other. */
function hostTools({ tools }: RuntimeOptions): readonly Plugin[] {
  if (tools === undefined || (Array.isArray(tools) && tools.length === 0)) return [];
  return [definePlugin({ id: "host_tools", build: () => ({ tools }) })()];
}
