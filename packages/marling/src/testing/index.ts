export type { StoreConformance, StoreHarness, SuiteApi } from "./conformance/store.ts";
export { storeConformance } from "./conformance/store.ts";
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
