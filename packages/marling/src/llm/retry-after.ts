// When a provider says to come back.

import { membersOf } from "./members-of.ts";

/** Milliseconds to wait by the headers of a response, or by its body where the provider says it there. */
export function retryAfterMs(headers: unknown, body: string | undefined): number | undefined {
  const exact = Number.parseFloat(header(headers, "retry-after-ms") ?? "");
  if (exact >= 0) return Math.round(exact);
  return readRetryAfter(header(headers, "retry-after")) ?? readRetryInfo(body);
}

export function header(headers: unknown, name: string): string | undefined {
  const entry = Object.entries(membersOf(headers)).find(([key]) => key.toLowerCase() === name);
  return typeof entry?.[1] === "string" ? entry[1] : undefined;
}

/** Seconds, or a date. */
function readRetryAfter(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (text.trim() !== "" && Number.isFinite(seconds)) return Math.max(0, Math.round(seconds * 1000));
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

/** Google puts `{ "@type": ".../google.rpc.RetryInfo", "retryDelay": "34.5s" }` among the details of the error. */
function readRetryInfo(body: string | undefined): number | undefined {
  const seconds = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(body ?? "")?.[1];
  return seconds === undefined ? undefined : Math.round(Number(seconds) * 1000);
}
