/** Longer texts are counted by the platform; for shorter ones the call costs more than the loop. */
const LONGEST_LOOP = 32;

/** How many bytes a text has in UTF-8. A surrogate counts two, so that a pair that is cut counts as the pair does. */
export function utf8Length(text: string): number {
  const units = text.length;
  if (units > LONGEST_LOOP) return Buffer.byteLength(text);
  let bytes = units;
  for (let at = 0; at < units; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
