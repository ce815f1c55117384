// Errors of the machinery as they come back out of user code, perhaps as the cause of another one: the refusals of a shutdown,
// and that a lease was lost. They leave the turn, and are recorded nowhere (E9).

import { MarlingError } from "../base/errors.ts";

/** Causes are followed this far; an error may be its own cause. */
const DEPTH = 8;

const SHUTDOWN: ReadonlySet<string> = new Set(["runtime_closed", "session_closed"]);
const LOST: ReadonlySet<string> = new Set(["lease_lost"]);

/** The refusal of a closed runtime or session in a thrown value or its causes; undefined for any other value. */
export function shutdownIn(thrown: unknown): MarlingError | undefined {
  return errorIn(thrown, SHUTDOWN, DEPTH);
}

/** A lost lease in a thrown value or its causes: of the session itself, or of one below that a turn waited for. */
export function lostLeaseIn(thrown: unknown): MarlingError | undefined {
  return errorIn(thrown, LOST, DEPTH);
}

function errorIn(thrown: unknown, codes: ReadonlySet<string>, depth: number): MarlingError | undefined {
  if (depth === 0 || typeof thrown !== "object" || thrown === null) return undefined;
  if (MarlingError.is(thrown) && codes.has(thrown.code)) return thrown;
  const { cause, errors } = thrown as { readonly cause?: unknown; readonly errors?: unknown };
  const causes = [cause, ...(Array.isArray(errors) ? (errors as readonly unknown[]) : [])];
  for (const one of causes) {
    const found = errorIn(one, codes, depth - 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
