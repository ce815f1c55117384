export { callTool, callTools, failWith, say, scriptedModel } from "./scripted-model.ts";
export type { CallOptions, SayOptions, ScriptFunction, ScriptStep, ScriptedFailure, ScriptedModel } from "./scripted-model.ts";
