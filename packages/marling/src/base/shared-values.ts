import { keepNewest } from "./keep-newest.ts";

/** Values of which many have the same one, kept once by what they are made from. Bounded: the oldest makes room. */
export class SharedValues<Value> {
  readonly #values = new Map<string, Value>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** The value that was made from this before, or else is now. */
  get(source: string, make: () => Value): Value {
    const known = this.#values.get(source);
    if (known !== undefined) return known;
    const value = make();
    keepNewest(this.#values, [source, value], this.#most);
    return value;
  }

  /** What is made from this is made anew the next time. Those who have it keep it. */
  drop(source: string): void {
    this.#values.delete(source);
  }
}
