// pi's durable harness on its backend of node:sqlite, a file per session.

import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core";
import { createNodeSqliteFactory, SqliteSessionRepo } from "@earendil-works/pi-session-backend-sqlite-node";
import { connectHarness } from "../harness/pi.mjs";

export const about = {
  name: "pi harness + sqlite",
  package: "@earendil-works/pi-agent-core",
  keeps: "sqlite",
};

export function connect(options) {
  const databaseFactory = createNodeSqliteFactory();
  return connectHarness(options, {
    repository: new SqliteSessionRepo({ directory: `${options.dir}/sessions`, databaseFactory }),
    create: (repository, id) => repository.create({ id }, BACKGROUND_CONTEXT),
  });
}
