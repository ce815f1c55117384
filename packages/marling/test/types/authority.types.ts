// Compile-time tests: nothing that plugins and tools are given changes what a session may do. Nothing here runs.

import type { AppendNode, AuthorityLimits, Session, SessionOptions, ToolContext } from "marling";
import type { Directive } from "../../src/plugin/directive.ts";
import type { HostServices } from "../../src/plugin/host-services.ts";
import type { PluginBuildContext } from "../../src/plugin/plugin.ts";

type Door = "authorize" | "authority";
type Has<T, Name> = T extends unknown ? Extract<keyof T, Name> : never;

/** Fails to compile unless there is nothing of the kind. */
const none = <T extends never>(..._found: T[]): void => undefined;

none<Has<HostServices, Door>>();
none<Has<ToolContext, Door>>();
none<Has<ToolContext["host"], Door>>();
none<Has<PluginBuildContext, Door>>();
none<Extract<AppendNode["kind"], "authority_change">>();
none<Extract<Directive["kind"], `${string}authori${string}`>>();

// @ts-expect-error the public session has both
none<Has<Session, Door>>();

export async function host(session: Session): Promise<void> {
  await session.authorize({ tools: ["read"], paths: undefined }, { reason: "as agreed", actor: "ada" });
  // @ts-expect-error there is no change without a reason
  await session.authorize({ tools: ["read"] }, {});
  // @ts-expect-error there is no change without a reason
  await session.authorize({ tools: ["read"] });
  // @ts-expect-error plugin options are no authority
  await session.authorize({ pluginOptions: {} }, { reason: "as agreed" });
  // @ts-expect-error what a session may do is read, and not set
  session.authority = {};
}

export const options: SessionOptions = { authority: { budget: { tokens: 5 } } satisfies AuthorityLimits };
