// `ask` as a plugin, which also sees that an answer is one of the choices.
//   AS6  an answer that is none of the choices fails the call with what was expected; the model may ask again.

import { type Directive, definePlugin, directive, type Plugin, toolFailure } from "../../../index.ts";
import type { ToolResultHookContext } from "../../../plugin/index.ts";
import { ASK_TOOL, type AskOptions, askTool, checkAnswer } from "./ask-tool.ts";

/** Lets the model ask the person. Throws `invalid_options`. */
export function ask(options: AskOptions): Plugin {
  const tool = askTool(options);
  return definePlugin({
    id: "ask",
    build: () => ({ tools: [tool], toolCalls: { after: checkChoice } }),
  })();
}

function checkChoice({ toolName, args, result }: ToolResultHookContext): readonly Directive[] {
  if (toolName !== ASK_TOOL || result.outcome.kind !== "success") return [];
  const asked = args as Parameters<typeof checkAnswer>[0]; // checked by the schema of the tool
  const problem = checkAnswer(asked, result.outcome.value);
  if (problem === undefined) return [];
  const message = `The answer was not one of those offered: ${problem}.`;
  return [
    directive.shortCircuitTool(toolFailure({ code: "invalid_answer", class: "invalid_request", message })),
  ];
}
