import { MarlingError, messageOf } from "../base/errors.ts";
import { type CallId, callId } from "../model/ids.ts";
import { decodeJson } from "../model/json.ts";
import type { NestedCall } from "../tool/contract.ts";
import type { DispatchCall } from "./dispatch.ts";

export interface NestedNaming {
  readonly parentCallId: string;
  /** How many calls were asked for before. */
  readonly from: number;
  /** The ids that are taken; those given here are added. */
  readonly taken?: Set<string>;
}

/**
 * Calls that a tool or code asks for, with ids derived from the call that asks. Throws `invalid_id` when two of them
 * would have the same: their effects could not be told apart.
 */
export function nestedCalls(
  calls: readonly NestedCall[],
  { parentCallId, from, taken = new Set() }: NestedNaming,
): readonly DispatchCall[] {
  return calls.map((call, index) => {
    const id = callId(`${parentCallId}:${call.id ?? String(from + index).padStart(2, "0")}`);
    if (taken.has(id)) {
      const message = `call ${parentCallId}: expected an id of its own for each call it makes, found ${id} twice`;
      throw new MarlingError("invalid_id", message, { details: { callId: id } });
    }
    taken.add(id);
    return nestedCall(call, id);
  });
}

function nestedCall(call: NestedCall, id: CallId): DispatchCall {
  const name = call.grant?.manifest.name ?? call.name;
  const grant = call.grant === undefined ? {} : { grant: call.grant };
  try {
    return { callId: id, name, args: decodeJson(call.args ?? {}, "arguments"), ...grant };
  } catch (thrown) {
    return { callId: id, name, args: null, malformed: messageOf(thrown), ...grant };
  }
}
