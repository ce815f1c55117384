// Callbacks that a plugin brings in a slot: the protocol, the code executor, the prose projector. They are no hooks of
// the table, but what goes wrong in them is told the same way: with the plugin and the callback in the message.

import { isPromise } from "../base/deferred.ts";
import { type ErrorCode, MarlingError, messageOf } from "../base/errors.ts";
import type { SlotName } from "../plugin/slots.ts";
import type { ResidentSession } from "./resident-session.ts";

export interface SlotSite {
  readonly slot: SlotName;
  readonly callback: string;
  /** By default `protocol_failed`. */
  readonly code?: ErrorCode;
}

/** Runs a callback that may take its time. */
export async function callSlot<T>(
  session: ResidentSession,
  site: SlotSite,
  call: () => T | Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    throw slotFailure(session, site, thrown);
  }
}

/** Runs a callback that is synchronous by contract; a promise from it is an error that says so. */
export function callSlotNow<T>(session: ResidentSession, site: SlotSite, call: () => T): T {
  const returned = attempt(session, site, call);
  if (!isPromise(returned)) return returned;
  returned.then(undefined, () => {}); // Whatever it comes to, the error below is what is told.
  const { pluginId, name } = nameOf(session, site);
  const message = `${name} returned a promise; expected a value, because it is synchronous`;
  throw new MarlingError("hook_must_be_synchronous", message, { details: { pluginId, hook: site.callback } });
}

/** The failure of a callback, named after its owner. */
export function slotFailure(session: ResidentSession, site: SlotSite, cause: unknown): MarlingError {
  const { pluginId, name } = nameOf(session, site);
  const { code = "protocol_failed", callback } = site;
  session.running?.control.onThrown?.(cause);
  return new MarlingError(code, `${name} failed: ${messageOf(cause)}`, {
    cause,
    details: { pluginId, hook: callback, sessionId: session.id },
  });
}

function attempt<T>(session: ResidentSession, site: SlotSite, call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw slotFailure(session, site, thrown);
  }
}

function nameOf(
  session: ResidentSession,
  { slot, callback }: SlotSite,
): { readonly pluginId: string; readonly name: string } {
  const pluginId = session.plugins.slotOwner(slot) ?? "unknown";
  return { pluginId, name: `session ${session.id}: plugin ${pluginId}: ${callback}` };
}
