// A mistake in how marling was called or configured: exit code 2, and where to look.

import { MarlingError } from "marling";

export function usageError(command: string, message: string): MarlingError {
  return new MarlingError("invalid_options", message, { details: { command } });
}

/** The command whose help says how it is meant; nothing for any other error. */
export function usageOf(thrown: unknown): string | undefined {
  if (!MarlingError.is(thrown) || thrown.code !== "invalid_options") return undefined;
  return typeof thrown.details.command === "string" ? thrown.details.command : undefined;
}
