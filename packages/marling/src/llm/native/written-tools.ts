// The tools of requests as texts. Those of a session are the same list in all of its requests, and may be long.

import type { Json } from "../../model/json.ts";
import type { ModelRequest } from "../contract.ts";

type Tools = ModelRequest["tools"];

/** Writes each list once, as the members that `toWire` makes of it. */
export class WrittenTools {
  readonly #toWire: (tools: Tools) => Json;
  readonly #texts = new WeakMap<Tools, string>();

  constructor(toWire: (tools: Tools) => Json) {
    this.#toWire = toWire;
  }

  textOf(tools: Tools): string {
    const known = this.#texts.get(tools);
    if (known !== undefined) return known;
    const text = JSON.stringify(this.#toWire(tools));
    this.#texts.set(tools, text);
    return text;
  }
}
