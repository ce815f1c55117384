// What a crash test is told: what to run, how the model answers, and what counts as the end.

import type { Runtime, RuntimeOptions } from "../../index.ts";
import type { ModelRequest } from "../../llm/contract.ts";
import type { Store } from "../../store/contract.ts";
import type { ScriptStep } from "../scripted-model.ts";

/**
 * A scenario: the export `scenario` of a module that both processes load.
 * Contract: `run` is called again in every life of the process, so it gives every turn a key, and repeats nothing else
 * that a life before may have done. Run again after its end, it comes to the same end. Sessions have ids of their own,
 * whatever tenant they are of.
 */
export interface CrashScenario {
  /**
   * Answers a model call, in the process that is never killed. It goes by the request; `asked` is how often this very
   * request was made before, in this life or an earlier one.
   */
  answer(request: ModelRequest, past: { readonly asked: number }): ScriptStep | Promise<ScriptStep>;
  /** What the runtime is made with besides its model and its store. Tools and hooks in it are watched. */
  options?(watch: CrashWatch): CrashRuntimeOptions;
  /** Opens the store in a folder of its own; by default SQLite. */
  store?(folder: string): Store;
  /** Finishes what an earlier life left; by default `runtime.recover()`. */
  recover?(runtime: Runtime, watch: CrashWatch): Promise<unknown>;
  /** Does everything, and returns what it came to as plain JSON: that is what is compared. */
  run(runtime: Runtime, watch: CrashWatch): Promise<unknown>;
}

export type CrashRuntimeOptions = Omit<RuntimeOptions, "model" | "store">;

/** The process that is killed, as a scenario sees it. */
export interface CrashWatch {
  /** 1 in the first process, one more in each that recovers. */
  readonly life: number;
  /** Where the store is; it outlives the process, so a scenario may leave itself notes in it. */
  readonly folder: string;
  /** A point to be killed at that nothing else watches. */
  boundary(name: string): void;
}

/** Names the type of a scenario, for modules without types of their own. */
export function defineCrashScenario(scenario: CrashScenario): CrashScenario {
  return scenario;
}
