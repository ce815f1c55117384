// How many columns a text takes on a terminal, and how it is broken into rows.
//   TW1  a grapheme is never cut; wide ones take two columns, marks on top of others none.
//   TW2  colour sequences of our own take no column.
//   TW3  no row is wider than asked for, and rows before the last do not change when text is added.

const GRAPHEMES = new Intl.Segmenter(undefined, { granularity: "grapheme" });

// biome-ignore lint/suspicious/noControlCharactersInRegex: our own colours
const COLOUR = /\x1b\[[0-9;]*m/g;

/** Marks, joiners and selectors. */
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const EMOJI = /\p{Emoji_Presentation}/u;

const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

export function graphemesOf(text: string): readonly string[] {
  if (isSimple(text)) return text.split("");
  return [...GRAPHEMES.segment(text)].map(({ segment }) => segment);
}

export function widthOf(text: string): number {
  const bare = text.includes("\x1b") ? text.replace(COLOUR, "") : text;
  if (isSimple(bare)) return bare.length;
  let width = 0;
  for (const { segment } of GRAPHEMES.segment(bare)) width += graphemeWidth(segment);
  return width;
}

export function graphemeWidth(grapheme: string): number {
  if (EMOJI.test(grapheme) || grapheme.includes("\ufe0f")) return 2;
  for (const character of grapheme) {
    if (ZERO.test(character)) continue;
    return isWide(character.codePointAt(0) ?? 0) ? 2 : 1;
  }
  return 0;
}

/** Breaks one line at spaces, or inside a word that is too long. Text without colours. */
export function wrapLine(line: string, width: number): readonly string[] {
  const most = Math.max(2, width);
  const rows: string[] = [];
  let row = "";
  let columns = 0;
  let space = -1;
  for (const grapheme of graphemesOf(line)) {
    const wide = graphemeWidth(grapheme);
    if (columns + wide > most) {
      if (grapheme === " ") {
        rows.push(row);
        [row, columns, space] = ["", 0, -1];
        continue;
      }
      const at = space > 0 && row.slice(0, space).trim() !== "" ? space : row.length;
      rows.push(row.slice(0, at));
      row = at === row.length ? "" : row.slice(at + 1);
      [columns, space] = [widthOf(row), -1];
    }
    if (grapheme === " " && row !== "") space = row.length;
    row += grapheme;
    columns += wide;
  }
  rows.push(row);
  return rows;
}

/** As much of a text as fits, with a mark when some is left out. Text without colours. */
export function fit(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let columns = 0;
  for (const grapheme of graphemesOf(text)) {
    const wide = graphemeWidth(grapheme);
    if (columns + wide > width - 1) break;
    kept += grapheme;
    columns += wide;
  }
  return `${kept}…`;
}

function isSimple(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text);
}

function isWide(codePoint: number): boolean {
  return WIDE.some(([from, to]) => codePoint >= from && codePoint <= to);
}
