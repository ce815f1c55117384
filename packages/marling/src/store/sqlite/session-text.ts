// JSON text of a session in which the id of the session, which most ids contain, takes one character. JSON has that
// character in escaped form only, so that putting the id back gives the same text again.

import type { SessionId } from "../../model/ids.ts";

const MARK = "\u0001";
/** Shorter ids are left as they are. */
const SHORTEST = 4;

/** A text without the id of its session. */
export function shortenText(text: string, id: SessionId): string {
  return id.length < SHORTEST ? text : text.replaceAll(escaped(id), MARK);
}

/** The text that was shortened. */
export function restoreText(text: string, id: SessionId): string {
  if (!text.includes(MARK)) return text;
  const replacement = escaped(id);
  return text.replaceAll(MARK, () => replacement);
}

function escaped(id: SessionId): string {
  return JSON.stringify(id).slice(1, -1);
}
