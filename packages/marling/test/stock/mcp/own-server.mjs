// A server of the tests: a tool for everything that servers do. Behaviour is set by the environment:
//   LOG       a file that gets a line for each thing that happens
//   CONTRACT  a file whose text is the description of the tool `stamp`
//   DIES      ends at once with code 7
//   SILENT    never answers
// Run with the argument `http` it listens on 127.0.0.1 and prints its port; else it speaks over its standard streams.

import { appendFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { Server, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const { LOG, CONTRACT, DIES, SILENT } = process.env;

/** @param {string} line */
const log = (line) => LOG && appendFileSync(LOG, `${line}\n`);
const describe = () => (CONTRACT ? readFileSync(CONTRACT, "utf8") : "Says when.");

if (DIES) {
  process.stderr.write("cannot go on: no database\n");
  process.exit(7);
}
if (SILENT) setInterval(() => undefined, 1_000);

let grown = 0;
const OPEN = /** @type {const} */ ({ type: "object" });

const tools = () => [
  {
    name: "echo",
    description: "Says it again.",
    inputSchema: { ...OPEN, properties: { text: { type: "string" } }, required: ["text"] },
  },
  { name: "stamp", description: describe(), inputSchema: OPEN },
  { name: "read", description: "Reads.", inputSchema: OPEN, annotations: { readOnlyHint: true } },
  { name: "put", description: "Puts.", inputSchema: OPEN, annotations: { idempotentHint: true } },
  { name: "media", description: "Shows.", inputSchema: OPEN },
  {
    name: "structured",
    description: "Counts.",
    inputSchema: OPEN,
    outputSchema: { ...OPEN, properties: { n: { type: "number" } } },
  },
  { name: "fail", description: "Fails.", inputSchema: OPEN },
  {
    name: "huge",
    description: "Says much.",
    inputSchema: { ...OPEN, properties: { bytes: { type: "number" } } },
  },
  { name: "slow", description: "Waits.", inputSchema: OPEN },
  {
    name: "steps",
    description: "Goes step by step.",
    inputSchema: { ...OPEN, properties: { steps: { type: "number" }, ms: { type: "number" } } },
  },
  { name: "crash", description: "Ends the server.", inputSchema: OPEN },
  { name: "grow", description: "Adds a tool.", inputSchema: OPEN },
  { name: "environment", description: "Shows the environment.", inputSchema: OPEN },
  { name: "capabilities", description: "Shows what the client can.", inputSchema: OPEN },
  { name: "slashed/name.v1", description: "Has an odd name.", inputSchema: OPEN },
  { name: "two__parts", description: "Passes for another.", inputSchema: OPEN },
  {
    name: "patterned",
    description: "Has a pattern.",
    inputSchema: { ...OPEN, properties: { text: { type: "string", pattern: "^(a+)+$" } } },
  },
  ...Array.from({ length: grown }, (_, index) => ({
    name: `grown_${index + 1}`,
    description: "New.",
    inputSchema: OPEN,
  })),
];

/** @param {string} text */
const said = (text) => ({ content: [{ type: /** @type {const} */ ("text"), text }] });

function makeServer() {
  const server = new Server(
    { name: "own", version: "1.0.0" },
    {
      capabilities: { tools: { listChanged: true }, resources: {} },
      instructions: "Always be kind to the own server.",
    },
  );
  server.setRequestHandler("tools/list", () => ({ tools: tools() }));
  server.setRequestHandler("resources/list", () => ({
    resources: [{ uri: "own://a", name: "a", mimeType: "text/plain" }],
  }));
  server.setRequestHandler("resources/read", ({ params }) => ({
    contents: [{ uri: params.uri, mimeType: "text/plain", text: `content of ${params.uri}` }],
  }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    const { name, arguments: args = {} } = params;
    log(`call ${name}`);
    switch (name) {
      case "echo":
        return said(`echo: ${args.text}`);
      case "media":
        return {
          content: [
            { type: "text", text: "look:" },
            { type: "image", data: PIXEL, mimeType: "image/png" },
            { type: "audio", data: "UklGRg==", mimeType: "audio/wav" },
            { type: "resource", resource: { uri: "own://text", mimeType: "text/plain", text: "inside" } },
            {
              type: "resource",
              resource: { uri: "own://bytes", mimeType: "application/pdf", blob: "JVBERg==" },
            },
            { type: "resource_link", uri: "own://far", name: "far", mimeType: "text/plain" },
          ],
        };
      case "structured":
        return { ...said('{"n": 3}'), structuredContent: { n: 3 } };
      case "fail":
        return { ...said("no such record"), isError: true };
      case "huge":
        return said("x".repeat(Number(args.bytes)));
      case "slow":
        return new Promise((resolve) => {
          const beat = setInterval(() => undefined, 1_000);
          mcpReq.signal.addEventListener("abort", () => {
            clearInterval(beat);
            log("cancelled slow");
            resolve(said("cancelled"));
          });
        });
      case "steps": {
        const progressToken = mcpReq._meta?.progressToken;
        for (let step = 1; step <= Number(args.steps); step += 1) {
          await new Promise((resolve) => setTimeout(resolve, Number(args.ms)));
          if (progressToken !== undefined)
            await mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress: step, total: Number(args.steps), message: `step ${step}` },
            });
        }
        await new Promise((resolve) => setTimeout(resolve, 50)); // What comes with the result is not told any more.
        return said("all steps done");
      }
      case "crash":
        process.exit(9);
        break;
      case "grow":
        grown += 1;
        await server.sendToolListChanged();
        return said(`grown to ${grown}`);
      case "environment":
        return said(JSON.stringify(process.env));
      case "capabilities":
        return said(JSON.stringify(server.getClientCapabilities()));
      default:
        return said(`${name} done`);
    }
    return said("");
  });
  return server;
}

if (process.argv[2] === "http") serveHttp();
else if (!SILENT) {
  log(`start ${process.pid}`);
  await makeServer().connect(new StdioServerTransport());
}

function serveHttp() {
  /** @type {Map<string, WebStandardStreamableHTTPServerTransport>} */
  const sessions = new Map();
  const http = createServer(async (req, res) => {
    log(`${req.method} ${req.url} ${req.headers.authorization ?? "-"}`);
    if (req.url === "/away") return void res.writeHead(307, { location: process.env.AWAY ?? "" }).end();
    if (req.url === "/forget") {
      sessions.clear();
      return void res.end();
    }
    const id = String(req.headers["mcp-session-id"] ?? "");
    let transport = sessions.get(id);
    if (transport === undefined && id !== "") return void res.writeHead(404).end("no such session");
    if (transport === undefined) {
      const made = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (sessionId) => void sessions.set(sessionId, made),
        onsessionclosed: (sessionId) => void log(`closed ${sessions.delete(sessionId)}`),
      });
      transport = made;
      await makeServer().connect(transport);
    }
    const hasBody = req.method === "POST";
    const request = new Request(`http://127.0.0.1${req.url}`, {
      method: req.method ?? "GET",
      headers: /** @type {Record<string, string>} */ (req.headers),
      ...(hasBody ? { body: /** @type {never} */ (Readable.toWeb(req)), duplex: "half" } : {}),
    });
    const response = await transport.handleRequest(request);
    res.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body === null) return void res.end();
    Readable.fromWeb(/** @type {never} */ (response.body))
      .on("error", () => res.destroy())
      .pipe(res);
  });
  http.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
    const address = http.address();
    process.stdout.write(`port ${typeof address === "object" ? address?.port : ""}\n`);
  });
}
