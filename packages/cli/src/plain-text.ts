// Text of a model, a tool or a file, made safe to print.
//   PT1  no escape sequence and no control character but line ends and tabs reaches a terminal, however it is split.
//   PT2  marks that turn the direction of text are left out: what is shown is in the order it was written.

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: control characters are what this file is about
const SEQUENCE =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])|\x9b[0-?]*[ -/]*[@-~]/g;
const CUT = /(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*)$/;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above

/** What is kept of a sequence that has not ended yet; one that grows longer is no sequence. */
const MOST_HELD = 4_096;

const TAB = "  ";

/** A whole text without escapes and control characters; tabs become two spaces. */
export function plainText(text: string): string {
  return clean(text.replace(CUT, ""));
}

/** The same for a text that arrives in pieces. */
export class PlainTextStream {
  #held = "";

  /** What is safe to print now. */
  push(piece: string): string {
    const text = this.#held + piece;
    const cut = CUT.exec(text.replace(SEQUENCE, (found) => "\0".repeat(found.length)));
    const isCut = cut !== null && text.length - cut.index <= MOST_HELD;
    this.#held = isCut ? text.slice(cut.index) : "";
    return clean(isCut ? text.slice(0, cut.index) : text);
  }
}

/** One line of a text, for places that have only one. */
export function oneLine(text: string): string {
  return plainText(text).replaceAll(/\s+/g, " ").trim();
}

function clean(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(SEQUENCE, "").replace(CONTROL, "").replaceAll("\t", TAB);
}
