import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createRuntime } from "marling";
import { mcp } from "marling/mcp";
import { callTool, say, scriptedModel } from "marling/testing";

const require = createRequire(import.meta.url);
const serverMemory = join(
  dirname(require.resolve("@modelcontextprotocol/server-memory/package.json")),
  "dist/index.js",
);

const model = scriptedModel([
  callTool("mcp__memory__create_entities", {
    entities: [{ name: "Ada", entityType: "person", observations: ["likes boats"] }],
  }),
  callTool("mcp__memory__search_nodes", { query: "boats" }),
  say("Ada likes boats."),
]);

// #region mcp
export async function remember(file: string): Promise<{ text: string; asked: readonly string[] }> {
  const servers = mcp({
    servers: {
      memory: {
        command: process.execPath,
        args: [serverMemory],
        env: { MEMORY_FILE_PATH: file },
        required: true,
      },
    },
  });
  await using runtime = createRuntime({ model, plugins: [servers.plugin] });
  await servers.ready(); // throws here when a required server cannot be reached
  const session = await runtime.session("facts");
  const turn = session.turn("Remember that Ada likes boats.");
  const asked: string[] = [];
  for await (const event of turn) {
    if (event.kind !== "waiting") continue;
    for (const question of await runtime.approvals.list()) {
      asked.push(question.toolName); // the first call of each tool asks; show its arguments to somebody
      await runtime.approvals.decide(question, { decision: "allow", actor: "ada" });
    }
  }
  return { text: (await turn.result).text, asked };
}
// #endregion
