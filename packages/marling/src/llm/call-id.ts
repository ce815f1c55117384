// Ids of tool calls as providers accept them. An id only pairs a call with its result, so another one serves as well,
// as long as it is the same for both and in every request.
//   LA9  an id that a provider would refuse is replaced by one that derives from it alone.

import { sha256 } from "../base/digest.ts";

/** Letters, digits, `_` and `-` are what Anthropic takes, 40 characters what OpenAI does. */
const ACCEPTED = /^[A-Za-z0-9_-]{1,40}$/;
const ACCEPTED_BY_MISTRAL = /^[A-Za-z0-9]{9}$/;

/** The id to send for a call's id. */
export function acceptedCallId(callId: string, provider: string): string {
  if (provider.startsWith("mistral")) {
    return ACCEPTED_BY_MISTRAL.test(callId) ? callId : sha256(callId).slice(0, 9);
  }
  return ACCEPTED.test(callId) ? callId : `call_${sha256(callId).slice(0, 32)}`;
}
