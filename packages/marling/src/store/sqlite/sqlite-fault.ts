// What SQLite throws, as errors of marling: by its result code. One method of one driver leaves the code out; there the
// texts stand in for it that SQLite has had for its codes ever since.

import { type ErrorCode, MarlingError, messageOf } from "../../base/errors.ts";

/** Primary result codes; everything else is `io_failed`. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  5: "store_busy",
  6: "store_busy",
  11: "store_corrupt",
  26: "store_corrupt",
};

const CODES_BY_TEXT: Readonly<Record<string, number>> = {
  "database is locked": 5,
  "database table is locked": 6,
  "database disk image is malformed": 11,
  "file is not a database": 26,
};

const EXPECTED: Readonly<Partial<Record<ErrorCode, string>>> = {
  store_busy: "expected the file to be free, found it locked by somebody else",
  store_corrupt: "expected an intact database, found a damaged one",
};

/** An error of marling for whatever was thrown while the store at `path` was used. */
export function sqliteFault(thrown: unknown, path: string): MarlingError {
  if (MarlingError.is(thrown)) return thrown;
  const code = CODES[resultCode(thrown) ?? 0] ?? "io_failed";
  const expected = EXPECTED[code] ?? "the database failed";
  return new MarlingError(code, `store ${path}: ${expected}: ${messageOf(thrown)}`, {
    cause: thrown,
    details: { path },
  });
}

export function isBusy(thrown: unknown): boolean {
  return CODES[resultCode(thrown) ?? 0] === "store_busy";
}

/** The primary result code of an error of the driver. */
function resultCode(thrown: unknown): number | undefined {
  if (!(thrown instanceof Error)) return undefined;
  if ("errcode" in thrown && typeof thrown.errcode === "number") return thrown.errcode & 0xff;
  return CODES_BY_TEXT[thrown.message];
}

/** A stored value that nothing of ours can have written. */
export function damaged(
  path: string,
  what: string,
  options: { readonly cause?: unknown } = {},
): MarlingError {
  return new MarlingError("store_corrupt", `store ${path}: ${what}`, { ...options, details: { path } });
}
