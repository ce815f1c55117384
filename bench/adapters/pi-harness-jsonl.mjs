// pi's durable harness on its append-only files.

import { BACKGROUND_CONTEXT, JsonlSessionRepo } from "@earendil-works/pi-agent-core";
import { NodeExecutionEnv } from "@earendil-works/pi-agent-core/node";
import { connectHarness } from "../harness/pi.mjs";

export const about = { name: "pi harness + jsonl", package: "@earendil-works/pi-agent-core", keeps: "jsonl" };

export function connect(options) {
  const fileSystem = new NodeExecutionEnv({ cwd: options.dir });
  return connectHarness(options, {
    repository: new JsonlSessionRepo({ fileSystem, sessionsRoot: `${options.dir}/sessions` }),
    create: (repository, id) => repository.create({ id, cwd: "/bench" }, BACKGROUND_CONTEXT),
  });
}
