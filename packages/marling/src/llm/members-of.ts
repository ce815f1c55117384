/** The members of an object of a provider, each to be checked by whoever reads it; none when it is no object. */
export function membersOf(value: unknown): { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null ? (value as { readonly [name: string]: unknown }) : {};
}
