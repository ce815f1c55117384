// The tables, version by version. A file of version n is brought up to date by every step after n, in one transaction.
//
// Rows of sessions have keys `session << 32 | n`, where n counts from 1: whatever belongs to a session lies together,
// in order, in one tree and without a second index. A turn therefore touches the end of few trees.
// Texts are JSON, without the id of the session they belong to (session-text.ts).
//   sessions    every id that was ever used; deleted ones stay, so that they are never used again
//   commits     one row per commit: the sequence of the input that it settles, manifest (what changed beside the nodes),
//               that input with its report, nodes
//   inbox       inputs that no commit has settled
//   names       finds inputs by key and turn id, and commits by operation: n is a sequence, or a revision below zero
//   journal     effects of turns that are not committed yet
//   components  plugin, tool and execution state by digest
//   holders     who names a component: a commit (its key) or another component (its digest)
//   blobs       bytes by digest

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

/** "marl": tells our files from those of other applications. */
export const APPLICATION_ID = 0x6d61726c;

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE sessions (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        parent TEXT,
        base INTEGER,
        base_revision INTEGER
      ) STRICT;
      CREATE INDEX forks ON sessions (base) WHERE base IS NOT NULL;
      CREATE TABLE commits (
        at INTEGER PRIMARY KEY,
        settles INTEGER,
        manifest TEXT NOT NULL,
        settled TEXT,
        nodes TEXT NOT NULL
      ) STRICT;
      CREATE TABLE inbox (
        at INTEGER PRIMARY KEY,
        names TEXT,
        submitted TEXT NOT NULL,
        input TEXT,
        progress TEXT
      ) STRICT;
      CREATE TABLE names (
        session INTEGER NOT NULL,
        digest BLOB NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (session, digest)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE journal (at INTEGER PRIMARY KEY, entry TEXT NOT NULL, outcome TEXT) STRICT;
      CREATE TABLE components (digest BLOB PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE holders (
        digest BLOB NOT NULL,
        holder ANY NOT NULL,
        PRIMARY KEY (digest, holder)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE blobs (digest BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT, WITHOUT ROWID;
    `,
  },
];

/** The version that this code reads and writes. */
export const VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;
