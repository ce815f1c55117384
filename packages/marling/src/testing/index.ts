export type { EffectHarness, EffectHostConformance } from "./conformance/effect-host.ts";
export { effectHostConformance } from "./conformance/effect-host.ts";
export type { ModelConformance, ModelHarness, ModelPlay } from "./conformance/model.ts";
export { modelConformance } from "./conformance/model.ts";
export type { StoreConformance, StoreHarness, SuiteApi } from "./conformance/store.ts";
export { storeConformance } from "./conformance/store.ts";
export type { CrashFailure, CrashOptions, CrashReport } from "./crash/crash-at-every-effect.ts";
export { crashAtEveryEffect } from "./crash/crash-at-every-effect.ts";
export type { CrashRuntimeOptions, CrashScenario, CrashWatch } from "./crash/scenario.ts";
export { defineCrashScenario } from "./crash/scenario.ts";
export type { FaultyStoreOptions, StoreFault } from "./faulty-store.ts";
export { faultyStore, randomDelays, randomFaults } from "./faulty-store.ts";
export { ManualClock } from "./manual-clock.ts";
export type {
  CallOptions,
  SayOptions,
  ScriptedFailure,
  ScriptedModel,
  ScriptFunction,
  ScriptStep,
} from "./scripted-model.ts";
export { callTool, callTools, failWith, say, scriptedModel } from "./scripted-model.ts";
