// The figures of a soak run.

/** What can be violated, as the figures name it. @type {Record<string, string>} */
const CLASSES = {
  lost: "lost",
  repeated: "repeated",
  dangling: "dangling calls",
  state: "state mismatches",
  duplicate: "duplicate messages",
  unguarded: "unguarded calls",
  frozen: "frozen processes",
  stuck: "stuck processes",
  ended: "processes that ended by themselves",
  error: "unexpected errors",
};

/** What happened, and what went wrong. */
export class Figures {
  begun = 0;
  /** @type {Record<string, number>} */
  violations = {};
  count = { worlds: 0, kills: 0, pauses: 0, closes: 0 };
  /** @type {Record<string, number>} */
  events = {};

  get total() {
    return Object.values(this.violations).reduce((sum, count) => sum + count, 0);
  }

  /** @param {string} made */
  add(made) {
    this.count[/** @type {"kills"} */ (made)] += 1;
  }

  /** @param {string} kind */
  violate(kind) {
    this.violations[kind] = (this.violations[kind] ?? 0) + 1;
  }

  /** @param {readonly import("./soak-ledger.mjs").Entry[]} entries */
  read(entries) {
    for (const { kind, tool, act, outcome } of entries) {
      const name = kind === "begin" ? `tool ${tool}` : kind === "accepted" ? `input ${act}` : kind;
      this.events[name] = (this.events[name] ?? 0) + 1;
      if (outcome?.code !== undefined) this.events[outcome.code] = (this.events[outcome.code] ?? 0) + 1;
    }
  }

  line() {
    const { worlds, kills, pauses, closes } = this.count;
    return `${worlds} worlds, ${kills} kills, ${pauses} pauses, ${closes} closes, ${this.total} violations`;
  }

  text() {
    const events = Object.entries(this.events).sort(([a], [b]) => (a < b ? -1 : 1));
    const classes = Object.entries(CLASSES).map(([kind, name]) => `${this.violations[kind] ?? 0} ${name}`);
    return `${this.line()}\nhappened: ${events.map(([name, count]) => `${name} ${count}`).join(", ")}\nviolated: ${classes.join(", ")}`;
  }
}
