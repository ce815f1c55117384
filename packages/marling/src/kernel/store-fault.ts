import { MarlingError, messageOf } from "../base/errors.ts";

/** What a store threw, as an error of marling: its own as they are, text that is no JSON, and anything else. */
export function storeFault(thrown: unknown, sessionId: string): MarlingError {
  if (MarlingError.is(thrown)) return thrown;
  const options = { cause: thrown, details: { sessionId } };
  if (thrown instanceof SyntaxError) {
    const message = `session ${sessionId}: expected the store to hold JSON, found text that is not: ${messageOf(thrown)}`;
    return new MarlingError("json_failed", message, options);
  }
  return new MarlingError(
    "io_failed",
    `session ${sessionId}: the store failed: ${messageOf(thrown)}`,
    options,
  );
}
