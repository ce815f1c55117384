// The AI SDK with the persistence of its guide: a turn reads the whole conversation and writes all of it back at its end.

import Database from "better-sqlite3";
import { agentOf, runLoop } from "./ai-sdk.mjs";

export const about = { name: "ai-sdk + sqlite json", package: "ai", keeps: "sqlite" };

export function connect(options) {
  const agent = agentOf(options);
  const database = new Database(`${options.dir}/conversations.db`);
  database.pragma("journal_mode = WAL");
  database.exec("CREATE TABLE IF NOT EXISTS conversations (id TEXT PRIMARY KEY, messages TEXT NOT NULL)");
  const read = database.prepare("SELECT messages FROM conversations WHERE id = ?").pluck();
  const write = database.prepare("INSERT OR REPLACE INTO conversations (id, messages) VALUES (?, ?)");
  const turn = async (id, text, onDelta) => {
    const before = JSON.parse(read.get(id) ?? "[]");
    const messages = [...before, { role: "user", content: text }];
    const result = await runLoop(agent, messages, onDelta);
    write.run(id, JSON.stringify([...messages, ...result.added]));
    return result.text;
  };
  return {
    open: async (id) => id,
    reopen: async (id) => id,
    turn,
    resume: turn, // Nothing of an unfinished turn is stored: the message is sent again.
    close: async () => database.close(),
  };
}
