// Whether a commit that is asked for again is the one that happened. What the row of a commit holds is compared as it is;
// of the rest a digest is kept with it.
//   CC1  the order of members is no other content.
//   CC2  who asks, and what was announced by then, is none of it.
//   CC3  digests without a mark are of everything: files of earlier builds have them.

import { sha256Text } from "../../base/digest.ts";
import { canonicalJson, canonicalMembers, type Json, jsonEqual } from "../../model/json.ts";
import type { SessionCommit } from "../contract.ts";
import { readContent } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { SessionKey } from "./session-rows.ts";

/** What the digest of a part begins with. */
const OF_PART = ".";
/** Enough of a digest to tell the contents of one operation apart: 12 bytes. */
const DIGEST_SIGNS = 16;

/**
 * A digest of what the row of a commit does not hold: all but the nodes and, when it settles an input, the report.
 * `head` is the canonical JSON of its head, where that is known.
 */
export function contentDigest(
  commit: SessionCommit,
  { hasReport, head }: { readonly hasReport: boolean; readonly head?: string },
): string {
  const { settles } = commit;
  const part = { ...contentOf(commit), nodes: 0, ...(hasReport ? { settles: settles?.inputId } : {}) };
  return OF_PART + digestOf(canonicalMembers(part, (name) => (name === "head" ? head : undefined)));
}

/** Whether the commit of a revision, which has this digest, has the content of the one that is asked for. */
export function isSameContent(
  db: Connection,
  commit: SessionCommit,
  {
    session,
    revision,
    digest,
  }: { readonly session: SessionKey; readonly revision: number; readonly digest: string },
): boolean {
  if (!digest.startsWith(OF_PART)) return digest === digestOf(canonicalJson(contentOf(commit) as Json));
  const { nodes, report } = readContent(db, session, revision);
  if (digest !== contentDigest(commit, { hasReport: report !== undefined })) return false;
  return isSame(nodes, commit.nodes) && (report === undefined || isSame(report, commit.settles?.report));
}

/** Compares something stored with what would be stored. */
function isSame(stored: unknown, asked: unknown): boolean {
  return jsonEqual(stored as Json, JSON.parse(JSON.stringify(asked ?? null)) as Json);
}

function contentOf(commit: SessionCommit): object {
  const { lease: _lease, releases: _releases, announced: _announced, ...content } = commit;
  return content;
}

function digestOf(content: string): string {
  return sha256Text(content).slice(0, DIGEST_SIGNS);
}
