// JSON text of a session in which the id of the session, which most ids contain, and the pieces that most texts consist of
// take a character or two. JSON has those characters in escaped form only, so that putting everything back gives the same
// text again.

import type { SessionId } from "../../model/ids.ts";
import { packFragments, piecesOf, SESSION_MARK, unpackFragments } from "./text-fragments.ts";

/** Shorter ids are left as they are. */
const SHORTEST = 4;
/** Stands between texts: no JSON has it, nor any mark. */
const BETWEEN = "\u0000";
/** For a longer text it pays to put the id into all pieces first, and to go over the text once. */
const SHORT = 16 * 1024;

/** A text without the id of its session. */
export function shortenText(text: string, id: SessionId): string {
  return packFragments(id.length < SHORTEST ? text : text.replaceAll(escaped(id), SESSION_MARK));
}

/** As `shortenText`, of several at once. */
export function shortenTexts(texts: readonly string[], id: SessionId): readonly string[] {
  return shortenText(texts.join(BETWEEN), id).split(BETWEEN);
}

/** The text that was shortened. */
export function restoreText(text: string, id: SessionId): string {
  if (text.length > SHORT) return unpackFragments(text, piecesOf(escaped(id)));
  const unpacked = unpackFragments(text);
  if (!unpacked.includes(SESSION_MARK)) return unpacked;
  const replacement = escaped(id);
  return unpacked.replaceAll(SESSION_MARK, () => replacement);
}

function escaped(id: SessionId): string {
  return JSON.stringify(id).slice(1, -1);
}
