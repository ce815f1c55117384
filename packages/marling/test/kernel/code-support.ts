// A protocol whose model writes cells of code as "run <code>", and an executor that a test brings.

import { definePlugin, type Message, type MessagePart, type Plugin } from "marling";
import { responseText } from "../../src/model/model-response.ts";
import type { CodeExecutor } from "../../src/plugin/protocol.ts";
import type { DriverAction, DriverView, ProtocolDriver } from "../../src/turn/protocol.ts";

const append = (view: DriverView, role: Message["role"], part: MessagePart): DriverAction => ({
  kind: "append",
  records: [{ kind: "message", message: { id: view.messageId(role), role, parts: [part] } }],
});

const finish = (text: string): DriverAction => ({
  kind: "finish",
  outcome: { kind: "finished", by: "message", text },
});

const driver: ProtocolDriver = {
  prepareRound: () => [{ kind: "start_model" }],
  onModelResponse: (view, response) => {
    const text = responseText(response);
    if (!text.startsWith("run ")) return [append(view, "assistant", { kind: "prose", text }), finish(text)];
    const code = text.slice(4);
    const said = append(view, "assistant", { kind: "code", language: "js", code });
    return [said, { kind: "start_code", language: "js", code }];
  },
  onToolResults: () => [finish("")],
  onCodeResult: (view, { output, error, finish: value }) => {
    if (value !== undefined) {
      return [{ kind: "finish", outcome: { kind: "finished", by: "value", text: output, value } }];
    }
    const seen = append(
      view,
      "user",
      error === undefined ? { kind: "output", text: output } : { kind: "error", text: error },
    );
    const event: DriverAction = {
      kind: "append",
      records: [{ kind: "protocol_event", pluginId: "code", payload: { ran: output } }],
    };
    return [
      seen,
      event,
      { kind: "advance_round" },
      { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
    ];
  },
};

/** The protocol of cells, with or without somebody to run them. */
export function codeProtocol(codeExecutor?: CodeExecutor): Plugin {
  const preamble = { driver, syncsEnvironment: true, executionPrompt: "", promptContributions: [] };
  return definePlugin({
    id: "code",
    build: () => ({
      protocol: { session: {}, driver: { buildPreamble: () => preamble } },
      ...(codeExecutor === undefined ? {} : { execution: { codeExecutor } }),
    }),
  })();
}
