import type { TurnContext } from "../plugin/hook-context.ts";

/** What a turn carries beside its input, for hooks and tools to read. */
export function createTurnContext(
  turnId: string,
  pluginInputs: Readonly<Record<string, unknown>>,
): TurnContext {
  const inputs = new Map(Object.entries(pluginInputs));
  return Object.freeze({
    turnId,
    pluginIds: Object.freeze([...inputs.keys()].sort()),
    hasPluginInputs: inputs.size > 0,
    pluginInput: <T>(pluginId: string, is?: (value: unknown) => value is T): T | undefined => {
      const input = inputs.get(pluginId);
      return is === undefined || is(input) ? (input as T) : undefined;
    },
  });
}
