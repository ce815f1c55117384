// The line that is being written, as rows of the terminal with the place of the cursor.

import type { LiveRows } from "../screen.ts";
import type { Style } from "../style.ts";
import { fit, graphemesOf, graphemeWidth, widthOf } from "../text-width.ts";

export interface Prompt {
  readonly text: string;
  readonly beforeCursor: string;
  /** Shown while nothing is written. */
  readonly placeholder: string;
}

const MARK = "› ";
const INDENT = "  ";

export function promptRows(
  { text, beforeCursor, placeholder }: Prompt,
  { width, most, style }: { readonly width: number; readonly most: number; readonly style: Style },
): LiveRows {
  if (text === "") {
    const hint = style.dim(fit(placeholder, width - MARK.length));
    return { rows: [style.cyan(MARK) + hint], cursor: { row: 0, column: MARK.length } };
  }
  const room = width - MARK.length;
  const rows = breakHard(text, room);
  const left = breakHard(beforeCursor, room);
  const cursor = { row: left.length - 1, column: MARK.length + widthOf(left.at(-1) ?? "") };
  const from = Math.max(0, Math.min(cursor.row - most + 1, rows.length - most));
  const shown = rows.slice(from, from + most);
  return {
    rows: shown.map((row, at) => (at + from === 0 ? style.cyan(MARK) : INDENT) + row),
    cursor: { row: cursor.row - from, column: cursor.column },
  };
}

/** Broken where the row is full, so that the same beginning is broken the same way. */
function breakHard(text: string, width: number): readonly string[] {
  const rows: string[] = [];
  let row = "";
  let columns = 0;
  for (const grapheme of graphemesOf(text.replaceAll("\t", "  "))) {
    const wide = graphemeWidth(grapheme);
    if (grapheme === "\n" || columns + wide > width) {
      rows.push(row);
      [row, columns] = ["", 0];
    }
    if (grapheme === "\n") continue;
    row += grapheme;
    columns += wide;
  }
  return [...rows, row];
}
