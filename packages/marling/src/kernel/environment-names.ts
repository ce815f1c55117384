// The names that an environment is kept with: plugins and tool sources of the runtime that made it (E3, E19).

import { isJsonObject, type Json } from "../model/json.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import type { Store } from "../store/contract.ts";
import type { KernelParts } from "./parts.ts";

export interface EnvironmentNames {
  /** Plugins that the runtime was given. */
  readonly plugins: readonly string[];
  /** Plugins that offer the tools the model is told of, those that the runtime adds by itself included. */
  readonly sources: readonly string[];
}

/** The names of an environment that tells the model of these tools. A tool added to the open session has no source. */
export function namesOf(
  session: PluginSession,
  plugins: ReadonlySet<string>,
  tools: readonly { readonly name: string }[],
): EnvironmentNames {
  const owners = new Set(tools.map(({ name }) => session.ownerOfTool(name)));
  const sources = [...plugins, HOST_TOOLS].filter((id) => owners.has(id));
  return { plugins: [...plugins], sources };
}

/** The plugins that a runtime was given. */
export function givenTo({ plugins }: Pick<KernelParts, "plugins">): ReadonlySet<string> {
  return new Set(plugins.plugins.map(({ id }): string => id).filter((id) => id !== HOST_TOOLS));
}

/** The plugin that holds the option `tools`; the runtime adds it by itself. */
export const HOST_TOOLS = "host_tools";

/** What a kept environment names; `{}` for one of a version that named nothing, nothing when it was not kept. */
export async function environmentNames(
  { blobs }: Pick<Store, "blobs">,
  ref: string,
): Promise<Partial<EnvironmentNames> | undefined> {
  const bytes = await blobs.get(ref);
  if (bytes === undefined) return undefined;
  const json = JSON.parse(Buffer.from(bytes).toString()) as Json;
  const names = isJsonObject(json) ? json.names : undefined;
  return isJsonObject(names) ? (names as unknown as EnvironmentNames) : {};
}
