// What a crash in the middle of a call may do is said by every tool that comes with marling, and not left to a default.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, type Plugin, type ToolDefinition, type ToolManifest } from "marling";
import * as plugins from "marling/plugins";
import { say, scriptedModel } from "marling/testing";
import * as tools from "marling/tools";
import { expect, onTestFinished, test } from "vitest";

const EXPECTED: Readonly<Record<string, string>> = {
  apply_patch: "unsafe",
  ask: "safe",
  batch: "safe",
  edit_file: "unsafe",
  glob: "safe",
  grep: "safe",
  list_files: "safe",
  llm_query: "safe",
  read_file: "safe",
  read_output: "safe",
  search_tools: "safe",
  shell: "unsafe",
  shell_output: "safe",
  shell_stop: "idempotent",
  spawn: "safe",
  update_plan: "safe",
  web_fetch: "safe",
  write_file: "idempotent",
};

test("every tool declares its replay policy", async () => {
  const root = mkdtempSync(join(tmpdir(), "marling-replay-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const given: readonly ToolDefinition[] = [
    ...tools.fileTools({ root }),
    tools.applyPatchTool({ root }),
    tools.llmQueryTool(),
    tools.webFetchTool(),
  ];
  const added: readonly Plugin[] = [
    tools.shell({ cwd: root }),
    tools.ask({ onQuestion: () => undefined }),
    plugins.updatePlan(),
    plugins.toolDiscovery(),
    plugins.toolOutputBudget(),
    plugins.subagents(),
  ];
  const runtime = createRuntime({ model: scriptedModel(() => say("Hi.")), tools: given, plugins: added });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const found = session.tools.list().map(({ name, replay }: ToolManifest) => [name, replay] as const);
  expect(Object.fromEntries(found)).toEqual(EXPECTED);
});
