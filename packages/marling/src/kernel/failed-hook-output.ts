import { MarlingError } from "../base/errors.ts";
import { type ToolOutput, toolFailure } from "../model/tool-output.ts";

/**
 * The output of a call whose hook failed. It names the plugin and the hook; what the hook threw may hold secrets, so it
 * is for the turn's issues and not for the model.
 */
export function failedHookOutput(
  code: "before_tool_call_failed" | "after_tool_call_failed",
  thrown: unknown,
): ToolOutput {
  const { pluginId, hook } = MarlingError.is(thrown) ? thrown.details : {};
  const who = typeof pluginId === "string" ? `plugin ${pluginId}` : "a plugin";
  const where = typeof hook === "string" ? `hook ${hook}` : "a hook";
  const message = `The call failed because ${where} of ${who} failed.`;
  return toolFailure({ code, class: "internal", source: "plugin", message });
}
