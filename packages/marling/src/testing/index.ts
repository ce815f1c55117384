export { storeConformance } from "./conformance/store.ts";
export { callTool, callTools, failWith, say, scriptedModel } from "./scripted-model.ts";
export type { CallOptions, SayOptions, ScriptFunction, ScriptStep, ScriptedFailure, ScriptedModel } from "./scripted-model.ts";
export type { StoreConformance, StoreHarness, SuiteApi } from "./conformance/store.ts";
