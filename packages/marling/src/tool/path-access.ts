// Paths that a session may reach: text that is compared, never a file that is looked at.
//   PA1  paths are relative to the root of the tools, with `/`; one that leaves the root reaches nothing.
//   PA2  a path is inside itself and everything above it.

import { MarlingError } from "../base/errors.ts";

/** A path without `.`, `..` and doubled slashes; `.` is the root. Throws `invalid_input` for one that leaves the root. */
export function plainPath(path: string): string {
  const plain = plainOrNothing(path);
  if (plain !== undefined) return plain;
  const message = `path: expected one inside the root, relative to it, found ${JSON.stringify(path)}`;
  throw new MarlingError("invalid_input", message, { details: { path } });
}

/** Whether a path is inside one of these, which are plain. */
export function isReachable(path: string, paths: readonly string[]): boolean {
  const plain = plainOrNothing(path);
  if (plain === undefined) return false;
  return paths.some((above) => above === "." || plain === above || plain.startsWith(`${above}/`));
}

function plainOrNothing(path: string): string | undefined {
  if (path.startsWith("/") || path.includes("\\") || path.includes("\0") || /^[a-zA-Z]:/.test(path))
    return undefined;
  const names: string[] = [];
  for (const name of path.split("/")) {
    if (name === "" || name === ".") continue;
    if (name !== "..") names.push(name);
    else if (names.pop() === undefined) return undefined;
  }
  return names.length === 0 ? "." : names.join("/");
}
