// How much the file tools read, return and write.

import { MarlingError } from "../../../index.ts";

export interface FileLimits {
  /** Lines that one `read_file` returns. */
  readonly readLines: number;
  /** Bytes of text that one `read_file`, one `grep` or one diff returns. */
  readonly readBytes: number;
  /** Bytes that one `read_file` looks through to find its lines. */
  readonly scanBytes: number;
  /** Characters of a line that are shown. */
  readonly lineLength: number;
  /** Bytes of an image that is returned as an attachment. */
  readonly imageBytes: number;
  /** Bytes of a file that is written, edited or patched. */
  readonly writeBytes: number;
  /** Names that `list_files` and `glob` return. */
  readonly results: number;
  /** Files and folders that one walk looks at. */
  readonly visits: number;
  /** Matches that `grep` returns. */
  readonly matches: number;
  /** Bytes of a file that `grep` searches. */
  readonly searchBytes: number;
  /** Milliseconds that the expression of one `grep` may take, over all files. */
  readonly searchMs: number;
  /** Lines of a diff that is returned. */
  readonly diffLines: number;
}

const DEFAULTS: FileLimits = Object.freeze({
  readLines: 2_000,
  readBytes: 50_000,
  scanBytes: 64 * 1024 * 1024,
  lineLength: 2_000,
  imageBytes: 5 * 1024 * 1024,
  writeBytes: 10 * 1024 * 1024,
  results: 500,
  visits: 100_000,
  matches: 200,
  searchBytes: 5 * 1024 * 1024,
  searchMs: 5_000,
  diffLines: 400,
});

/** The limits of a host over the defaults. Throws `invalid_options` for one that is unknown or no whole number above 0. */
export function fileLimits(given: Partial<FileLimits> | undefined, where: string): FileLimits {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined) continue;
    if (!Object.hasOwn(DEFAULTS, name))
      throw refuse(`${where}: limits`, `one of ${Object.keys(DEFAULTS).join(", ")}`, name);
    if (!Number.isSafeInteger(value) || value < 1)
      throw refuse(`${where}: limits.${name}`, "a whole number above 0", String(value));
  }
  const stated = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...DEFAULTS, ...Object.fromEntries(stated) });
}

function refuse(where: string, expected: string, found: string): MarlingError {
  return new MarlingError("invalid_options", `${where}: expected ${expected}, found ${found}`, {
    details: { where },
  });
}
