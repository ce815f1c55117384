// A protocol whose model answers with code: a text that begins with `run` is a cell, any other ends the turn.

import type { Plugin } from "marling";
import type { CodeExecutionContext, ExecResponse } from "../../src/plugin/protocol.ts";
import type { DriverAction, ProtocolDriver } from "../../src/turn/protocol.ts";
import { plugin } from "./tools-support.ts";

export type Cell = (context: CodeExecutionContext, code: string) => Promise<Partial<ExecResponse>>;

export function codeProtocol(cell: Cell): Plugin {
  return plugin("code", {
    protocol: {
      session: {},
      driver: {
        buildPreamble: () => ({
          driver,
          syncsEnvironment: true,
          executionPrompt: "",
          promptContributions: [],
        }),
      },
    },
    execution: {
      codeExecutor: {
        executeCode: async (context, { code }) => ({ observations: [], ...(await cell(context, code)) }),
      },
    },
  });
}

const driver: ProtocolDriver = {
  prepareRound: () => [{ kind: "start_model" }],
  onModelResponse: (_view, response) => {
    const text = response.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
    if (text.startsWith("run")) return [{ kind: "start_code", language: "js", code: text }];
    return [{ kind: "finish", outcome: { kind: "finished", by: "message", text } }];
  },
  onToolResults: () => [{ kind: "finish", outcome: { kind: "stopped", reason: "runtime_error" } }],
  onCodeResult: (): readonly DriverAction[] => [
    { kind: "advance_round" },
    { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
  ],
};
