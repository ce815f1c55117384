// Tools that come with marling.

export type { ApplyPatchOptions } from "./stock/tools/apply-patch/apply-patch.ts";
export { applyPatchTool } from "./stock/tools/apply-patch/apply-patch.ts";
export { ask } from "./stock/tools/ask/ask.ts";
export type { AskedQuestion, AskOptions } from "./stock/tools/ask/ask-tool.ts";
export { askTool, checkAnswer } from "./stock/tools/ask/ask-tool.ts";
export type { FileLimits } from "./stock/tools/files/file-limits.ts";
export type { FileToolsOptions } from "./stock/tools/files/file-tools.ts";
export { fileTools } from "./stock/tools/files/file-tools.ts";
export type { LlmQueryOptions } from "./stock/tools/llm-query/llm-query-tool.ts";
export { llmQueryTool } from "./stock/tools/llm-query/llm-query-tool.ts";
export { shell } from "./stock/tools/shell/shell.ts";
export type {
  ShellAnswer,
  ShellOptions,
  ShellSettings,
  ShellToolsOptions,
} from "./stock/tools/shell/shell-options.ts";
export { shellTools } from "./stock/tools/shell/shell-tools.ts";
export type { WebFetchOptions } from "./stock/tools/web-fetch/fetch-options.ts";
export { webFetchTool } from "./stock/tools/web-fetch/web-fetch-tool.ts";
