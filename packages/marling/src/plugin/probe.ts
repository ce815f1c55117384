// Who watches phases. A probe is told the name of a hook phase when it begins and when it ends, failures included.

/** Contract: `beginNamed` and `endNamed` come in pairs, are synchronous and never throw. */
export interface PhaseProbe {
  beginNamed(name: string): void;
  endNamed(name: string): void;
}

/** The name of one handler's run in a probe. */
export function hookPhaseName(phase: string, pluginId: string): string {
  return `plugin_hook.${phase}.${pluginId}`;
}
