// What a bundle runs of itself in the first turns of a process: `node first-turn.mjs <folder of the bundle>` prints, by file,
// where the functions begin that were called. A turn with a tool and one behind it, each in a runtime of its own, so that
// the second opens what the first stored; once through the wire of marling, once through a provider of the AI SDK.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const LIMIT_MS = 60_000;

setTimeout(() => {
  console.error(`first-turn: expected the turns to end within ${LIMIT_MS} ms`);
  process.exit(1);
}, LIMIT_MS).unref();

const bundle = `${pathToFileURL(process.argv[2] ?? "").href}/`;
const inspector = new Session();
inspector.connect();
await inspector.post("Profiler.enable");
await inspector.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** @type {typeof import("marling")} */
const { createRuntime, defineTool } = await import(`${bundle}index.js`);
/** @type {typeof import("marling/sqlite")} */
const { sqliteStore } = await import(`${bundle}sqlite.js`);
/** @type {typeof import("marling/models")} */
const { openaiModel } = await import(`${bundle}models.js`);

const server = createServer(answer).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const address = server.address();
const port = address !== null && typeof address === "object" ? address.port : 0;
const folder = mkdtempSync(join(tmpdir(), "marling-first-turn-"));
try {
  const baseURL = `http://127.0.0.1:${port}/v1`;
  const provider = createOpenAICompatible({ name: "local", baseURL });
  const models = [
    openaiModel({ model: "native", baseUrl: baseURL, apiKey: "none" }),
    provider.chatModel("provided"),
  ];
  for (const model of models) for (const input of ["Add 1 and 2.", "Thank you."]) await turn(model, input);
  console.log(JSON.stringify(await calledFunctions()));
} finally {
  server.close();
  rmSync(folder, { recursive: true, force: true });
}

/**
 * @param {NonNullable<import("marling").RuntimeOptions["model"]>} model
 * @param {string} input
 */
async function turn(model, input) {
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    input: {
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a", "b"],
    },
    execute: (args) => JSON.stringify(args),
  });
  const store = sqliteStore({ path: join(folder, "first-turn.db") });
  const runtime = createRuntime({ model, store, tools: [add], instructions: "You add." });
  const session = await runtime.session("first");
  const observing = observe(session);
  await session.run(input);
  await runtime.close();
  await observing;
}

/**
 * Watches a session until its runtime closes.
 * @param {import("marling").Session} session
 */
async function observe(session) {
  const kinds = new Set();
  for await (const { kind } of session.observe()) kinds.add(kind);
  return kinds;
}

/**
 * The model: a call of the tool when a request ends with the first input, a text for all others.
 * @param {import("node:http").IncomingMessage} request
 * @param {import("node:http").ServerResponse} response
 */
async function answer(request, response) {
  let body = "";
  for await (const chunk of request) body += chunk;
  const { messages } = JSON.parse(body);
  const isAsked = JSON.stringify(messages.at(-1)).includes("Add 1 and 2.");
  const call = { index: 0, id: "call-1", type: "function", function: { name: "add", arguments: "" } };
  const deltas = isAsked
    ? [{ tool_calls: [call] }, { tool_calls: [{ index: 0, function: { arguments: '{"a":1,"b":2}' } }] }]
    : ["It ", "is ", "done."].map((content) => ({ content }));
  const choices = deltas.map((delta) => [{ index: 0, delta, finish_reason: null }]);
  const end = [{ index: 0, delta: {}, finish_reason: isAsked ? "tool_calls" : "stop" }];
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const choice of [...choices, end]) response.write(eventOf({ choices: choice }));
  response.write(
    eventOf({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 } }),
  );
  response.end("data: [DONE]\n\n");
}

/** @param {object} chunk */
function eventOf(chunk) {
  const common = { id: "answer-1", object: "chat.completion.chunk", created: 1, model: "local" };
  return `data: ${JSON.stringify({ ...common, ...chunk })}\n\n`;
}

/** @returns {Promise<Record<string, number[]>>} by file below the folder of the bundle */
async function calledFunctions() {
  const { result } = await inspector.post("Profiler.takePreciseCoverage");
  const own = result.filter(({ url }) => url.startsWith(bundle));
  const starts = own.map(({ url, functions }) => [
    fileURLToPath(url).slice(fileURLToPath(bundle).length),
    functions.flatMap(({ ranges: [range] }) =>
      range !== undefined && range.count > 0 ? [range.startOffset] : [],
    ),
  ]);
  return Object.fromEntries(starts);
}
