// The OpenAI Agents SDK with a session of ours on SQLite, since it comes with none: one row per item, as it is given them.

import Database from "better-sqlite3";
import { connectAgents } from "../harness/openai-agents.mjs";

export const about = { name: "openai-agents + sqlite", package: "@openai/agents", keeps: "sqlite" };

export function connect(options) {
  const database = new Database(`${options.dir}/items.db`);
  database.pragma("journal_mode = WAL");
  database.exec(
    "CREATE TABLE IF NOT EXISTS items (place INTEGER PRIMARY KEY, session TEXT NOT NULL, item TEXT NOT NULL);" +
      "CREATE INDEX IF NOT EXISTS items_of ON items (session, place)",
  );
  const sessionOf = (id) => new SqliteSession(database, id);
  return connectAgents(options, { sessionOf, close: () => database.close() });
}

const statements = new WeakMap();

function statementsOf(database) {
  const known = statements.get(database);
  if (known !== undefined) return known;
  const insert = database.prepare("INSERT INTO items (session, item) VALUES (?, ?)");
  const made = {
    add: database.transaction((id, items) => {
      for (const item of items) insert.run(id, JSON.stringify(item));
    }),
    all: database.prepare("SELECT item FROM items WHERE session = ? ORDER BY place").pluck(),
    last: database.prepare("SELECT item FROM items WHERE session = ? ORDER BY place DESC LIMIT ?").pluck(),
    pop: database
      .prepare(
        "DELETE FROM items WHERE place = (SELECT max(place) FROM items WHERE session = ?) RETURNING item",
      )
      .pluck(),
    clear: database.prepare("DELETE FROM items WHERE session = ?"),
  };
  statements.set(database, made);
  return made;
}

class SqliteSession {
  constructor(database, id) {
    this.id = id;
    this.sql = statementsOf(database);
  }

  async getSessionId() {
    return this.id;
  }

  async getItems(limit) {
    const rows =
      limit === undefined ? this.sql.all.all(this.id) : this.sql.last.all(this.id, limit).reverse();
    return rows.map((row) => JSON.parse(row));
  }

  async addItems(items) {
    this.sql.add(this.id, items);
  }

  async popItem() {
    const row = this.sql.pop.get(this.id);
    return row === undefined ? undefined : JSON.parse(row);
  }

  async clearSession() {
    this.sql.clear.run(this.id);
  }
}
