// The request that an outcome was recorded for: what is kept of it, and how it is recognised.

import { sha256 } from "../base/digest.ts";
import { TurnFault } from "./turn-fault.ts";

/** The request of an effect, as texts by field. */
type Fields = Readonly<Record<string, string>>;

export interface RecordedRequest {
  /** Absent in version 1; see model/outcome-version.ts. */
  readonly version?: number;
  readonly asked?: Fields;
}

/** The length of a digest in characters. */
const DIGEST_LENGTH = 64;

/** Texts as they are kept: a text itself, or its digest where that is shorter. */
export function marksOf(asks: Fields): Fields {
  const marks: Record<string, string> = {};
  for (const field of Object.keys(asks)) {
    const text = asks[field] as string;
    marks[field] = text.length <= DIGEST_LENGTH ? text : sha256(text);
  }
  return marks;
}

/** The fault that ends a turn where an outcome was recorded for another request. */
export function mismatchOf(
  { key, asks, formerly }: { readonly key: string; readonly asks?: Fields; readonly formerly?: () => Fields },
  { version, asked }: RecordedRequest,
): TurnFault | undefined {
  if (asks === undefined || asked === undefined) return undefined;
  const isOld = version === undefined;
  const fields = otherFields(asks, asked, isOld);
  if (fields.length === 0) return undefined;
  if (isOld && formerly !== undefined && otherFields(formerly(), asked, isOld).length === 0) return undefined;
  const message = `effect ${key}: expected the request that its outcome was recorded for, found another ${fields.join(", ")}`;
  return new TurnFault("journal_mismatch", message);
}

/** The fields that differ. Version 1 may have kept digests of short texts too. */
function otherFields(asks: Fields, asked: Fields, isOld: boolean): readonly string[] {
  const marks = marksOf(asks);
  const isOther = (field: string): boolean =>
    marks[field] !== asked[field] && !(isOld && sha256(asks[field] ?? "") === asked[field]);
  return Object.keys({ ...asks, ...asked }).filter(isOther);
}
