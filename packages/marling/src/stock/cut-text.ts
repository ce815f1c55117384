// Cutting text without cutting a character that takes two code units in two.

/** At most the first `length` code units. */
export function headOf(text: string, length: number): string {
  if (text.length <= length) return text;
  return text.slice(0, isInsidePair(text, length) ? length - 1 : length);
}

/** At most the last `length` code units. */
export function tailOf(text: string, length: number): string {
  if (text.length <= length) return text;
  const start = text.length - length;
  return text.slice(isInsidePair(text, start) ? start + 1 : start);
}

/** Whether the place before `index` is in the middle of a character. */
export function isInsidePair(text: string, index: number): boolean {
  if (index <= 0 || index >= text.length) return false;
  return isHigh(text.charCodeAt(index - 1)) && isLow(text.charCodeAt(index));
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
