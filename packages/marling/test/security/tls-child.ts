// A process that trusts the certificate of the tests: what it can reach over https, and by which name.
//   node child.mjs <port>

import { createRuntime } from "../../src/kernel/create-runtime.ts";
import { openaiModel } from "../../src/models.ts";
import { webFetchTool } from "../../src/stock/tools/web-fetch/web-fetch-tool.ts";
import { callTool, say, scriptedModel } from "../../src/testing/scripted-model.ts";

const [port = ""] = process.argv.slice(2);
const hosts = [`site.test:${port}`, `other.test:${port}`];
const tool = webFetchTool({ allow: hosts, resolve: async () => ["127.0.0.1"] });

const runtime = createRuntime({
  model: scriptedModel([
    ...hosts.map((host) => callTool("web_fetch", { url: `https://${host}/` })),
    say("Done."),
  ]),
  tools: [tool],
});
const { toolCalls } = await (await runtime.session("s")).turn("Go").result;
await runtime.close();

const asking = createRuntime({
  model: openaiModel({ model: "m", baseUrl: `https://localhost:${port}/v1`, apiKey: "k" }),
});
const { text } = await (await asking.session("s")).turn("Go").result;
await asking.close();

process.stdout.write(JSON.stringify({ fetched: toolCalls.map(({ output }) => output.outcome), text }));
