import type { TurnContext } from "../plugin/hook-context.ts";

/** What a turn carries beside its input, for hooks and tools to read. */
export function createTurnContext(turnId: string, pluginInputs: Readonly<Record<string, unknown>>): TurnContext {
  const pluginIds = Object.freeze(Object.keys(pluginInputs));
  return Object.freeze({
    turnId,
    pluginIds,
    hasPluginInputs: pluginIds.length > 0,
    pluginInput: (pluginId: string) => (Object.hasOwn(pluginInputs, pluginId) ? pluginInputs[pluginId] : undefined),
  });
}
