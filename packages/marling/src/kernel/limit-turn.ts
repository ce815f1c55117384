// A turn that has begun runs with the plugins it began with; additional ones join at the next turn (ruling 14).

import { HOST_TOOLS } from "./environment-names.ts";
import type { ResidentSession } from "./resident-session.ts";

const UNLIMITED = (): void => undefined;

/** Leaves the hooks of plugins out that the turn did not begin with, until the function it returns is called. */
export function limitTurn(session: ResidentSession): () => void {
  const { turnPlugins, parts, plugins } = session;
  if (turnPlugins === undefined) return UNLIMITED;
  const given = parts.plugins.plugins.map(({ id }): string => id);
  const added = new Set(given.filter((id) => id !== HOST_TOOLS && !turnPlugins.has(id)));
  if (added.size === 0) {
    session.turnPlugins = undefined;
    return UNLIMITED;
  }
  session.madeEnvironment = undefined;
  plugins.runner.limitTurn((pluginId) => !added.has(pluginId));
  return () => {
    session.turnPlugins = undefined;
    session.madeEnvironment = undefined;
    plugins.runner.limitTurn();
  };
}
