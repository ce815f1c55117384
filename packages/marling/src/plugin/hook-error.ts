// What goes wrong in a hook, always with the plugin and the hook in the message and in the details.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { TurnIssue } from "../model/turn.ts";
import type { HookName } from "./hooks.ts";
import type { SlotName } from "./slots.ts";

/** Where a handler stands: its plugin, and its hook or slot. */
export interface HookSite {
  readonly pluginId: string;
  readonly hook: HookName | SlotName;
}

export function hookFailed(site: HookSite, thrown: unknown): MarlingError {
  return new MarlingError("hook_failed", `${nameOf(site)} failed: ${messageOf(thrown)}`, {
    cause: thrown,
    details: { ...site },
  });
}

export function hookTimeout(site: HookSite, limitMs: number): MarlingError {
  return new MarlingError("hook_timeout", `${nameOf(site)} did not settle within ${limitMs} ms`, {
    details: { ...site, limitMs },
  });
}

export function hookMustBeSynchronous(site: HookSite): MarlingError {
  const message = `${nameOf(site)} returned a promise; expected a value, because this hook is synchronous`;
  return new MarlingError("hook_must_be_synchronous", message, { details: { ...site } });
}

export function hookReturnedNonsense(site: HookSite, expected: string, cause?: unknown): MarlingError {
  return new MarlingError("hook_returned_nonsense", `${nameOf(site)} returned nonsense: ${expected}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { ...site },
  });
}

/** A failure that did not have to end anything, as a report shows it. */
export function issueOf(site: HookSite, thrown: unknown, kind: string): TurnIssue {
  const code = MarlingError.is(thrown) ? thrown.code : "hook_failed";
  return Object.freeze({ kind, code, message: messageOf(thrown), pluginId: site.pluginId, hook: site.hook });
}

function nameOf({ pluginId, hook }: HookSite): string {
  return `plugin ${pluginId}: hook ${hook}`;
}
