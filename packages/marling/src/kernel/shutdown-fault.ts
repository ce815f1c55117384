// The error of a shutdown, as it comes back out of user code: perhaps as the cause of another one.

import { MarlingError } from "../base/errors.ts";

/** Causes are followed this far; an error may be its own cause. */
const DEPTH = 8;

const CODES: ReadonlySet<string> = new Set(["runtime_closed", "session_closed"]);

/** The refusal of a closed runtime or session in a thrown value or its causes; undefined for any other value. */
export function shutdownIn(thrown: unknown, depth: number = DEPTH): MarlingError | undefined {
  if (depth === 0 || typeof thrown !== "object" || thrown === null) return undefined;
  if (MarlingError.is(thrown) && CODES.has(thrown.code)) return thrown;
  const { cause, errors } = thrown as { readonly cause?: unknown; readonly errors?: unknown };
  const causes = [cause, ...(Array.isArray(errors) ? (errors as readonly unknown[]) : [])];
  for (const one of causes) {
    const found = shutdownIn(one, depth - 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
