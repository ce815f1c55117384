// What a terminal in raw mode sends, as keys.
//   KR1  text is given as it was typed, whole characters only; a paste is one key, whatever is in it.
//   KR2  an escape that nothing follows is the key Esc, after a moment; sequences that nobody knows are left out.

import { StringDecoder } from "node:string_decoder";

export type KeyName =
  | "enter"
  | "newline"
  | "tab"
  | "escape"
  | "backspace"
  | "delete"
  | "delete_word"
  | "delete_to_start"
  | "delete_to_end"
  | "left"
  | "right"
  | "word_left"
  | "word_right"
  | "up"
  | "down"
  | "home"
  | "end"
  | "interrupt"
  | "end_of_input"
  | "redraw";

export type Key =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "paste"; readonly text: string }
  | { readonly kind: "key"; readonly name: KeyName };

const PASTE_BEGINS = "\x1b[200~";
const PASTE_ENDS = "\x1b[201~";
const ESCAPE_MS = 40;

const SEQUENCES: Readonly<Record<string, KeyName>> = {
  "\x1b[A": "up",
  "\x1b[B": "down",
  "\x1b[C": "right",
  "\x1b[D": "left",
  "\x1bOA": "up",
  "\x1bOB": "down",
  "\x1bOC": "right",
  "\x1bOD": "left",
  "\x1b[H": "home",
  "\x1b[F": "end",
  "\x1bOH": "home",
  "\x1bOF": "end",
  "\x1b[1~": "home",
  "\x1b[4~": "end",
  "\x1b[7~": "home",
  "\x1b[8~": "end",
  "\x1b[3~": "delete",
  "\x1b[1;5C": "word_right",
  "\x1b[1;5D": "word_left",
  "\x1b[1;3C": "word_right",
  "\x1b[1;3D": "word_left",
  "\x1b[13;2u": "newline",
  "\x1bb": "word_left",
  "\x1bf": "word_right",
  "\x1b\r": "newline",
  "\x1b\n": "newline",
  "\x1b\x7f": "delete_word",
};

const CONTROLS: Readonly<Record<string, KeyName>> = {
  "\r": "enter",
  "\n": "newline",
  "\t": "tab",
  "\x7f": "backspace",
  "\b": "backspace",
  "\x01": "home",
  "\x02": "left",
  "\x03": "interrupt",
  "\x04": "end_of_input",
  "\x05": "end",
  "\x06": "right",
  "\x0b": "delete_to_end",
  "\x0c": "redraw",
  "\x0e": "down",
  "\x10": "up",
  "\x15": "delete_to_start",
  "\x17": "delete_word",
};

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: what terminals send
const CSI = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])/;
const PARTIAL_CSI = /^\x1b(?:\[[0-?]*[ -/]*|O)?$/;
const PRINTABLE = /^[^\x00-\x1f\x7f\x80-\x9f]+/;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above

/** Turns bytes into keys, told one by one. */
export class KeyReader {
  readonly #onKey: (key: Key) => void;
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #timer: NodeJS.Timeout | undefined;

  constructor(onKey: (key: Key) => void) {
    this.#onKey = onKey;
  }

  push(bytes: Buffer): void {
    clearTimeout(this.#timer);
    this.#rest += this.#decoder.write(bytes);
    this.#readAll();
    if (this.#rest.startsWith("\x1b") && !this.#rest.startsWith(PASTE_BEGINS))
      this.#timer = setTimeout(() => this.#giveUp(), ESCAPE_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #readAll(): void {
    while (this.#rest !== "") {
      const length = this.#readOne(this.#rest);
      if (length === 0) return;
      this.#rest = this.#rest.slice(length);
    }
  }

  /** How much of the text one key took; 0 when more has to arrive. */
  #readOne(text: string): number {
    if (text.startsWith(PASTE_BEGINS)) return this.#readPaste(text);
    if (text.startsWith("\x1b")) return this.#readEscape(text);
    const printable = PRINTABLE.exec(text)?.[0];
    if (printable !== undefined) {
      this.#onKey({ kind: "text", text: printable });
      return printable.length;
    }
    this.#tell(CONTROLS[text.charAt(0)]);
    return 1;
  }

  #readPaste(text: string): number {
    const end = text.indexOf(PASTE_ENDS);
    if (end === -1) return 0;
    this.#onKey({ kind: "paste", text: text.slice(PASTE_BEGINS.length, end) });
    return end + PASTE_ENDS.length;
  }

  #readEscape(text: string): number {
    const csi = CSI.exec(text)?.[0];
    if (csi !== undefined) {
      this.#tell(SEQUENCES[csi]);
      return csi.length;
    }
    if (PARTIAL_CSI.test(text)) return 0;
    const known = SEQUENCES[text.slice(0, 2)];
    this.#tell(known ?? "escape");
    return known === undefined ? 1 : 2;
  }

  /** Nothing followed: what was held is the key Esc. */
  #giveUp(): void {
    this.#rest = this.#rest.slice(1);
    this.#tell("escape");
    this.#readAll();
  }

  #tell(name: KeyName | undefined): void {
    if (name !== undefined) this.#onKey({ kind: "key", name });
  }
}
