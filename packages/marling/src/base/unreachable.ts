/** Closes a `switch` over a union: a new variant does not compile until it is answered. */
export function unreachable(value: never): never {
  throw new TypeError(`unreachable: ${JSON.stringify(value)}`);
}
