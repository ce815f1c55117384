// DBOS: the loop of `raw` as a workflow on PostgreSQL, every model call and every tool call a step of it.
// A turn reads only what earlier turns have stored, which never changes, so that reading needs no step.

import { DBOS } from "@dbos-inc/dbos-sdk";
import pg from "pg";
import { callModel, runCall, systemMessage } from "./raw.mjs";

export const about = {
  name: "dbos + postgres",
  package: "@dbos-inc/dbos-sdk",
  keeps: "postgres",
  service: "postgres",
  isLoop: true,
};

const TABLE =
  "CREATE TABLE IF NOT EXISTS said (session text, turn int, place int, message json NOT NULL, PRIMARY KEY (session, turn, place))";
const READ = "SELECT message FROM said WHERE session = $1 AND turn < $2 ORDER BY turn, place";
const WRITE =
  "INSERT INTO said SELECT $1, $2, place - 1, message FROM unnest($3::json[]) WITH ORDINALITY AS new (message, place) ON CONFLICT DO NOTHING";

const here = { options: undefined, pool: undefined, onDelta: new Map() };

const workflow = DBOS.registerWorkflow(
  async (session, turn, text) => {
    const stored = await here.pool.query(READ, [session, turn]);
    const messages = [
      systemMessage,
      ...stored.rows.map((row) => row.message),
      { role: "user", content: text },
    ];
    const before = messages.length - 1;
    for (;;) {
      const ask = () => callModel(here.options, messages, here.onDelta.get(session));
      const message = await DBOS.runStep(ask, { name: "model" });
      messages.push(message);
      if (message.tool_calls === undefined) break;
      const steps = message.tool_calls.map((call) => DBOS.runStep(() => runCall(call), { name: "tool" }));
      messages.push(...(await Promise.all(steps)));
    }
    const added = messages.slice(before).map((message) => JSON.stringify(message));
    const save = async () => {
      await here.pool.query(WRITE, [session, turn, added]);
    };
    await DBOS.runStep(save, { name: "save" });
    return messages.at(-1).content;
  },
  { name: "turn" },
);

const turnOf = (text) => Number(/\/(\d+)\}\}/.exec(text)[1]);

export async function connect(options) {
  here.options = options;
  here.pool = new pg.Pool({ connectionString: `${options.service.url}postgres`, max: 20 });
  await here.pool.query(TABLE);
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: `${options.service.url}dbos_sys`,
    logLevel: "error",
    applicationVersion: "1",
    executorID: "bench",
  });
  await DBOS.launch();
  return {
    open: async (id) => id,
    reopen: async (id) => id,
    async turn(id, text, onDelta) {
      here.onDelta.set(id, onDelta);
      const workflowID = `${id}-${turnOf(text)}`;
      const handle = await DBOS.startWorkflow(workflow, { workflowID })(id, turnOf(text), text);
      return handle.getResult();
    },
    resume: (id, text) => DBOS.retrieveWorkflow(`${id}-${turnOf(text)}`).getResult(),
    async close() {
      await DBOS.shutdown();
      await here.pool.end();
    },
  };
}
