import { messageOf } from "../base/errors.ts";
import type { CallId } from "../model/ids.ts";
import { decodeJson } from "../model/json.ts";
import type { NestedCall } from "../tool/contract.ts";
import type { DispatchCall } from "./dispatch.ts";

/** Calls that a tool or code asks for, with ids derived from the call that asks. */
export function nestedCalls(calls: readonly NestedCall[], { parentCallId, from }: { readonly parentCallId: string; readonly from: number }): readonly DispatchCall[] {
  return calls.map((call, index) => {
    const callId = `${parentCallId}:${call.id ?? String(from + index).padStart(2, "0")}` as CallId;
    const name = call.grant?.manifest.name ?? call.name;
    const grant = call.grant === undefined ? {} : { grant: call.grant };
    try {
      return { callId, name, args: decodeJson(call.args ?? {}, "arguments"), ...grant };
    } catch (thrown) {
      return { callId, name, args: null, malformed: messageOf(thrown), ...grant };
    }
  });
}
