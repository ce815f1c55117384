// The line that is being written: its text, the place in it, and the lines that were sent before. No input and no output.
//   LE1  the place is between graphemes, so that a character is deleted whole.
//   LE2  Up and Down walk through what was sent; what was being written is kept at the end of it.

import type { KeyName } from "./key-reader.ts";
import { graphemesOf } from "./text-width.ts";

const MOST_REMEMBERED = 500;

export class LineEditor {
  #before: readonly string[] = [];
  #after: readonly string[] = [];
  readonly #sent: string[];
  /** Which of the lines that were sent is shown; their number when none is. */
  #shown: number;
  #draft = "";

  constructor(sent: readonly string[] = []) {
    this.#sent = sent.slice(-MOST_REMEMBERED);
    this.#shown = this.#sent.length;
  }

  get text(): string {
    return [...this.#before, ...this.#after].join("");
  }

  get isEmpty(): boolean {
    return this.#before.length === 0 && this.#after.length === 0;
  }

  /** What is left of the place. */
  get beforeCursor(): string {
    return this.#before.join("");
  }

  get sent(): readonly string[] {
    return this.#sent;
  }

  insert(text: string): void {
    // What is typed may join the character before it: a mark, or the second half of an emoji.
    this.#before = graphemesOf(this.beforeCursor + text);
  }

  /** Takes the line out and remembers it. */
  take(): string {
    const { text } = this;
    this.set("");
    if (text.trim() !== "" && this.#sent.at(-1) !== text) this.#sent.push(text);
    if (this.#sent.length > MOST_REMEMBERED) this.#sent.shift();
    this.#shown = this.#sent.length;
    this.#draft = "";
    return text;
  }

  set(text: string): void {
    this.#before = graphemesOf(text);
    this.#after = [];
  }

  /** Edits or moves; false when the key is none of its own. */
  apply(name: KeyName): boolean {
    const edit = EDITS[name];
    if (edit !== undefined) {
      const [before, after] = edit(this.#before, this.#after);
      this.#before = before;
      this.#after = after;
      return true;
    }
    if (name !== "up" && name !== "down") return false;
    this.#walk(name === "up" ? -1 : 1);
    return true;
  }

  #walk(by: number): void {
    const next = this.#shown + by;
    if (next < 0 || next > this.#sent.length) return;
    if (this.#shown === this.#sent.length) this.#draft = this.text;
    this.#shown = next;
    this.set(this.#sent[next] ?? this.#draft);
  }
}

type Halves = readonly [before: readonly string[], after: readonly string[]];
type Edit = (before: readonly string[], after: readonly string[]) => Halves;

const moveTo = (before: readonly string[], after: readonly string[], at: number): Halves => {
  const all = [...before, ...after];
  return [all.slice(0, at), all.slice(at)];
};

const EDITS: { readonly [N in KeyName]?: Edit } = {
  newline: (before, after) => [[...before, "\n"], after],
  backspace: (before, after) => [before.slice(0, -1), after],
  delete: (before, after) => [before, after.slice(1)],
  delete_word: (before, after) => [before.slice(0, wordStart(before)), after],
  delete_to_start: (_before, after) => [[], after],
  delete_to_end: (before) => [before, []],
  left: (before, after) => moveTo(before, after, Math.max(0, before.length - 1)),
  right: (before, after) => moveTo(before, after, before.length + 1),
  word_left: (before, after) => moveTo(before, after, wordStart(before)),
  word_right: (before, after) => moveTo(before, after, before.length + wordLength(after)),
  home: (before, after) => moveTo(before, after, 0),
  end: (before, after) => [[...before, ...after], []],
};

function wordStart(before: readonly string[]): number {
  let at = before.length;
  while (at > 0 && before[at - 1]?.trim() === "") at -= 1;
  while (at > 0 && before[at - 1]?.trim() !== "") at -= 1;
  return at;
}

function wordLength(after: readonly string[]): number {
  let at = 0;
  while (at < after.length && after[at]?.trim() === "") at += 1;
  while (at < after.length && after[at]?.trim() !== "") at += 1;
  return at;
}
