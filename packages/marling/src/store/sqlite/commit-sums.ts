// Checksums of commits, for whoever looks at all of them.

import type { Connection } from "./connection.ts";
import { withoutSum, withSum } from "./row-sum.ts";
import { damaged } from "./sqlite-fault.ts";

const BEHIND =
  "SELECT at >> 32 AS no, at & 4294967295 AS n, settles, manifest, settled, nodes FROM commits WHERE at > ? << 32 | ? ORDER BY at LIMIT 1";

/** Gives a checksum to every text of a commit that has none. */
export function sumCommits(db: Connection): void {
  const write = "UPDATE commits SET manifest = ?, settled = ?, nodes = ? WHERE at = ? << 32 | ?";
  for (let row = db.get(BEHIND, 0, 0); row !== undefined; ) {
    const [no, revision] = [db.integer(row, "no"), db.integer(row, "n")];
    const settles = row.settles === null ? null : db.integer(row, "settles");
    const [manifest, nodes] = [db.text(row, "manifest"), db.text(row, "nodes")];
    const settled = row.settled === null ? null : db.text(row, "settled");
    if ([manifest, nodes, settled ?? nodes].some((text) => !hasSum(text))) {
      const summed = [
        summedText(manifest, { column: "manifest", no, revision }),
        settled === null ? null : summedText(settled, { column: "settled", no, revision, settles }),
        summedText(nodes, { column: "nodes", no, revision }),
      ];
      db.run(write, ...summed, no, revision);
    }
    row = db.get(BEHIND, no, revision);
  }
}

/** Every session has its commits from the first one on, without holes; what has commits is a session. */
export function checkCommits(db: Connection): void {
  const rows = db.all(
    "SELECT (SELECT status FROM sessions WHERE no = at >> 32) AS status, min(at) & 4294967295 AS first, max(at) & 4294967295 AS last, count(*) AS count FROM commits GROUP BY at >> 32",
  );
  const isWhole = rows.every(
    ({ status, first, last, count }) =>
      first === 1 && last === count && (status === "live" || status === "deleted"),
  );
  const row = db.get(
    "SELECT count(*) AS count FROM sessions WHERE status = 'live' AND NOT EXISTS (SELECT 1 FROM commits WHERE at BETWEEN no << 32 AND no << 32 | 4294967295)",
  );
  if (isWhole && row?.count === 0) return;
  throw damaged(db.path, "table commits: expected every commit of a session, found that some are missing");
}

function hasSum(text: string): boolean {
  return withoutSum(text, { column: "nodes", no: 0, revision: 0 }).isRight !== undefined;
}

function summedText(text: string, place: Parameters<typeof withSum>[1]): string {
  return hasSum(text) ? text : withSum(text, place);
}
