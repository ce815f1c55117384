// Texts as lines that keep their ends, so that joining them gives the text again.

/** The lines of a text, each with its end; the last one may have none. */
export function splitLines(text: string): readonly string[] {
  if (text === "") return [];
  const lines: string[] = [];
  let start = 0;
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
    lines.push(text.slice(start, end + 1));
    start = end + 1;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** A line without its end. */
export function bareLine(line: string): string {
  if (!line.endsWith("\n")) return line;
  return line.endsWith("\r\n") ? line.slice(0, -2) : line.slice(0, -1);
}

/** The end that most lines of a text have. */
export function lineEnd(text: string): "\n" | "\r\n" {
  let windows = 0;
  let all = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    all += 1;
    if (text[at - 1] === "\r") windows += 1;
  }
  return windows * 2 > all ? "\r\n" : "\n";
}
