// The end of what a server writes to its standard error: kept for its operator, in bounded memory.

const KEPT = 8_192;

export class StderrTail {
  #text = "";

  add(chunk: Buffer): void {
    this.#text = (this.#text + chunk.toString("utf8")).slice(-KEPT);
  }

  get text(): string {
    return this.#text;
  }
}
