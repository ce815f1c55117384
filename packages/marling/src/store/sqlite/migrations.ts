// The tables, version by version. A file of version n is brought up to date by every step after n, in one transaction.
//
// Rows of sessions have keys `session << 32 | n`, where n counts from 1: whatever belongs to a session lies together,
// in order, in one tree and without a second index. A turn therefore touches the end of few trees.
// Texts are JSON, without the id of the session they belong to (session-text.ts) and, since version 2, with marks in the
// place of pieces that most of them have (text-fragments.ts).
//   sessions    every id that was ever used; deleted ones stay, so that they are never used again
//   commits     one row per commit: the sequence of the input that it settles, manifest (what changed beside the nodes),
//               that input with its report, nodes
//   inbox       inputs that no commit has settled
//   names       finds inputs by key and turn id, and commits by operation: n is a sequence, or a revision below zero
//   journal     effects of turns that are not committed yet
//   components  plugin, tool and execution state by digest
//   holders     who names a component: a commit (its key) or another component (its digest)
//   blobs       bytes by digest
// Since version 2:
//   leases      who may write to a session: generations never go back; without a holder the lease is free
//   inbox       has a state: what was asked of a pending input, or became of it, beside its content (input-codec.ts)
//   withdrawn   inputs that no turn will take: the input with its report, and when it was withdrawn; without a text it
//               only says that its sequence was used
//   waits       values that arrive from outside, by session, turn and name; over_at says since when nobody waits
//   wait_keys   the hashes of keys, and the waits that they resolve
//   works       sessions in which something beside turns is left to be gone on with
//   outbox      commits that were to be announced and have not been
//   blob_puts   when blobs were put lately: what nothing names yet may be about to be named
//   subscriptions  who wants to hear of what, and when the next tick is due
//   occurrences    what occurred, by id; with a payload as long as there are deliveries of it
//   deliveries     occurrences for subscriptions that have not become inputs yet
// Since version 3:
//   sum         the checksum of a row (row-sum.ts); texts of commits begin with theirs, digests are those of components and
//               blobs. Rows of older versions have none until they are written again or the store is vacuumed.
//   meta        has `unsummed` as long as there may be such rows

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
  {
    version: 2,
    sql: `
      CREATE TABLE leases (
        session INTEGER PRIMARY KEY,
        generation INTEGER NOT NULL,
        owner TEXT,
        incarnation TEXT,
        instance TEXT,
        expires_at INTEGER
      ) STRICT;
      ALTER TABLE inbox ADD COLUMN state TEXT;
      ALTER TABLE inbox ADD COLUMN plan TEXT;
      CREATE INDEX inbox_states ON inbox (at) WHERE state IS NOT NULL;
      CREATE TABLE withdrawn (at INTEGER PRIMARY KEY, settled TEXT, over_at INTEGER NOT NULL) STRICT;
      CREATE TABLE waits (
        no INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        turn TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        resolution TEXT,
        over_at INTEGER,
        UNIQUE (session, turn, name)
      ) STRICT;
      CREATE TABLE wait_keys (hash BLOB PRIMARY KEY, wait INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE INDEX keys_of_waits ON wait_keys (wait);
      CREATE TABLE works (session INTEGER PRIMARY KEY) STRICT;
      CREATE TABLE outbox (at INTEGER PRIMARY KEY, turn TEXT NOT NULL) STRICT;
      CREATE TABLE blob_puts (digest BLOB PRIMARY KEY, put_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE subscriptions (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        source TEXT NOT NULL,
        topic TEXT,
        definition TEXT NOT NULL,
        enabled INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        due INTEGER,
        carried TEXT
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX subscriptions_of_sources ON subscriptions (source, topic);
      CREATE INDEX subscriptions_of_sessions ON subscriptions (session);
      CREATE INDEX due_subscriptions ON subscriptions (due) WHERE due IS NOT NULL;
      CREATE TABLE occurrences (
        id TEXT PRIMARY KEY,
        source TEXT NOT NULL,
        topic TEXT,
        digest BLOB NOT NULL,
        payload TEXT,
        at INTEGER NOT NULL,
        accepted_at INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE deliveries (
        no INTEGER PRIMARY KEY,
        occurrence TEXT NOT NULL,
        subscription TEXT NOT NULL,
        session INTEGER NOT NULL,
        definition TEXT NOT NULL,
        UNIQUE (occurrence, subscription)
      ) STRICT;
      CREATE INDEX deliveries_of_sessions ON deliveries (session);
    `,
  },
  {
    version: 3,
    sql: `
      ALTER TABLE sessions ADD COLUMN sum INTEGER;
      ALTER TABLE inbox ADD COLUMN sum INTEGER;
      ALTER TABLE withdrawn ADD COLUMN sum INTEGER;
      ALTER TABLE journal ADD COLUMN sum INTEGER;
      ALTER TABLE outbox ADD COLUMN sum INTEGER;
      ALTER TABLE names ADD COLUMN sum INTEGER;
      ALTER TABLE leases ADD COLUMN sum INTEGER;
      ALTER TABLE waits ADD COLUMN sum INTEGER;
      ALTER TABLE wait_keys ADD COLUMN sum INTEGER;
      ALTER TABLE works ADD COLUMN sum INTEGER;
      ALTER TABLE subscriptions ADD COLUMN sum INTEGER;
      ALTER TABLE occurrences ADD COLUMN sum INTEGER;
      ALTER TABLE deliveries ADD COLUMN sum INTEGER;
    `,
  },
];

/** The version that this code reads and writes. */
export const VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;
