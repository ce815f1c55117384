/** The names of all members of an object, those of its classes included. */
export function memberNames(target: object): readonly string[] {
  const names = new Set<string>();
  for (let at: object | null = target; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at)) names.add(name);
  names.delete("constructor");
  return [...names];
}
