// A terminal that scrolls, with a few rows at its bottom that change in place.
//   SC1  what is printed goes above those rows and is never touched again.
//   SC2  one change is one write: rows are written over, not wiped first, so that nothing flickers.
//   SC3  no row is wider than the terminal; when that is resized, what the rows became is counted before they are
//        written over, so that no row is left behind or doubled.

import { widthOf } from "./text-width.ts";

export interface ScreenOutput {
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  write(text: string): unknown;
}

/** The rows at the bottom, and where the cursor stands in them. */
export interface LiveRows {
  readonly rows: readonly string[];
  readonly cursor: { readonly row: number; readonly column: number };
}

const BEGIN = "\x1b[?2026h\x1b[?25l";
const END = "\x1b[?25h\x1b[?2026l";
const FRAME_MS = 16;
const NOTHING: LiveRows = { rows: [], cursor: { row: 0, column: 0 } };

export class Screen {
  readonly #output: ScreenOutput;
  readonly #live: () => LiveRows;
  #printed: string[] = [];
  #drawn: LiveRows = NOTHING;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `live` says what the rows at the bottom are now; it is asked at every change. */
  constructor(output: ScreenOutput, live: () => LiveRows) {
    this.#output = output;
    this.#live = live;
  }

  /** The widest row that may be printed: the last column stays free, where terminals differ. */
  get width(): number {
    return Math.max(20, (this.#output.columns ?? 80) - 1);
  }

  get height(): number {
    return Math.max(6, this.#output.rows ?? 24);
  }

  /** Prints rows above the bottom; none is wider than `width`. */
  print(rows: readonly string[]): void {
    this.#printed.push(...rows);
    this.refresh();
  }

  /** Draws what changed, together with whatever else changes in the next moment. */
  refresh(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => this.draw(), FRAME_MS);
  }

  draw(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const live = this.#isClosed ? NOTHING : this.#live();
    const rows = [...this.#printed, ...live.rows];
    this.#printed = [];
    const last = live.rows.length === 0 ? "" : this.#placeCursor(live);
    const text = rows.map((row) => `${row}\x1b[K`).join("\r\n");
    const gap = live.rows.length === 0 && rows.length > 0 ? "\r\n" : "";
    this.#output.write(`${BEGIN}${this.#toStart()}${text}${gap}\x1b[J${last}${END}`);
    this.#drawn = live;
  }

  /** Wipes the terminal and draws the bottom again. */
  clear(): void {
    this.#output.write("\x1b[2J\x1b[H");
    this.#drawn = NOTHING;
    this.draw();
  }

  /** Prints what is left and takes the rows at the bottom away. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.draw();
  }

  /** To the first of the rows that were drawn, as wide as the terminal is now. */
  #toStart(): string {
    const { rows, cursor } = this.#drawn;
    const columns = Math.max(1, this.#output.columns ?? 80);
    let up = Math.floor(cursor.column / columns);
    for (const row of rows.slice(0, cursor.row)) up += Math.max(1, Math.ceil(widthOf(row) / columns));
    return up === 0 ? "\r" : `\r\x1b[${up}A`;
  }

  #placeCursor({ rows, cursor }: LiveRows): string {
    const up = rows.length - 1 - cursor.row;
    const right = cursor.column === 0 ? "" : `\x1b[${cursor.column}C`;
    return `${up === 0 ? "" : `\x1b[${up}A`}\r${right}`;
  }
}
