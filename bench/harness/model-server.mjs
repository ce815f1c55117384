// A model on loopback that speaks Chat Completions as server-sent events and takes no time. It finds what it needs from
// the end of the request without parsing it, so that a long history costs it nothing; with BENCH_STRICT it parses and
// checks everything instead.
//
//   POST /v1/chat/completions
//   GET /stats  { requests, bytesIn }    GET /calls  { "session/turn/round": count }    GET /seen  by session
//   POST /reset

import { createServer } from "node:http";
import { callArgs, callPrefix, chunkText, readPlan, USER_MARK } from "./plan.mjs";

const IS_STRICT = process.env.BENCH_STRICT === "1";
/** Stands for the id of a response, which no other has: some frameworks tell messages apart by it. */
const ID = "@response@";
const USAGE = { prompt_tokens: 1_000, completion_tokens: 250, total_tokens: 1_250 };

const answers = new Map();
const sockets = new Set();
let calls = new Map();
let seen = new Map();
let requests = 0;
let bytesOfClosed = 0;

const event = (choices, more = {}) =>
  `data: ${JSON.stringify({ id: ID, object: "chat.completion.chunk", created: 1_750_000_000, model: "bench", choices, ...more })}\n\n`;
const choice = (delta, finish = null) => [{ index: 0, delta, logprobs: null, finish_reason: finish }];
const ending = (finish) => [event(choice({}, finish)), event([], { usage: USAGE }), "data: [DONE]\n\n"];

/** The events of a text answer, as the writes they are sent in; made once per plan, but for the id. */
function textWrites(name, { chunks, width, isPaced }) {
  const known = answers.get(name);
  if (known !== undefined) return known;
  const events = [event(choice({ role: "assistant", content: "" }))];
  for (let index = 0; index < chunks; index += 1)
    events.push(event(choice({ content: chunkText(index, width) })));
  events.push(...ending("stop"));
  const writes = isPaced ? events : [events.join("")];
  answers.set(name, writes);
  return writes;
}

/** An answer that calls the tool: each call begins with its name, its arguments follow in a chunk of their own. */
function callWrites({ session, turn, round }, count) {
  const events = [event(choice({ role: "assistant", content: null }))];
  for (let index = 0; index < count; index += 1) {
    const id = `${callPrefix(session, turn)}${round}-${index + 1}`;
    const args = JSON.stringify(callArgs(round, index + 1));
    const begun = { index, id, type: "function", function: { name: "add", arguments: "" } };
    events.push(event(choice({ tool_calls: [begun] })));
    events.push(event(choice({ tool_calls: [{ index, function: { arguments: args } }] })));
  }
  events.push(...ending("tool_calls"));
  return [events.join("")];
}

/** Whose request it is: the last mark of a user's text, and the round behind that of the last call after it. */
function whereIs(body) {
  const at = body.lastIndexOf("{{");
  const mark = USER_MARK.exec(body.toString("latin1", at, at + 80));
  if (mark === null) throw new Error("expected a text of userText() in the request, found none");
  const [session, turn] = [mark[1], Number(mark[2])];
  const prefix = callPrefix(session, turn);
  const last = body.lastIndexOf(prefix);
  const rounds =
    last < at
      ? 0
      : Number.parseInt(body.toString("latin1", last + prefix.length, last + prefix.length + 6), 10);
  return { session, turn, round: rounds + 1 };
}

function modelOf(body) {
  const at = body.indexOf('"model":"') + 9;
  return body.toString("latin1", at, body.indexOf('"', at));
}

function answer(body) {
  const name = modelOf(body);
  const plan = readPlan(name);
  const where = whereIs(body);
  const key = `${where.session}/${where.turn}/${where.round}`;
  calls.set(key, (calls.get(key) ?? 0) + 1);
  if (IS_STRICT) seen.set(where.session, checked(JSON.parse(body), where));
  const writes = where.round <= plan.rounds ? callWrites(where, plan.calls) : textWrites(name, plan);
  const id = `${where.session}-${where.turn}-${where.round}`;
  return { plan, writes: writes.map((text) => text.replaceAll(ID, id)) };
}

/** What a request holds, and what is wrong with it. */
function checked({ messages, stream, tools }, where) {
  const wrong = [];
  if (stream !== true) wrong.push("it does not stream");
  if (!(tools?.length > 0)) wrong.push("it offers no tools");
  const results = new Map(
    messages
      .filter(({ role }) => role === "tool")
      .map((message) => [message.tool_call_id, JSON.stringify(message.content)]),
  );
  const asked = messages.flatMap((message) => message.tool_calls ?? []);
  for (const call of asked) {
    const { a, b } = JSON.parse(call.function.arguments);
    if (!new RegExp(`\\b${a + b}\\b`).test(results.get(call.id) ?? ""))
      wrong.push(`${call.id} of ${a} and ${b} came to ${results.get(call.id)}`);
  }
  const count = (wanted) => messages.filter(({ role }) => role === wanted).length;
  return { ...where, users: count("user"), assistants: count("assistant"), calls: asked.length, wrong };
}

async function send(response, { plan, writes }) {
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  });
  if (!plan.isPaced) return response.end(writes[0]);
  for (const bytes of writes) {
    if (!response.write(bytes)) await new Promise((resolve) => response.once("drain", resolve));
    await new Promise(setImmediate);
  }
  response.end();
}

function sendJson(response, value, status = 200) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

const bytesIn = () => [...sockets].reduce((sum, socket) => sum + socket.bytesRead, bytesOfClosed);

const READS = {
  "/stats": () => ({ requests, bytesIn: bytesIn() }),
  "/calls": () => Object.fromEntries(calls),
  "/seen": () => Object.fromEntries(seen),
};

const server = createServer({ keepAliveTimeout: 60_000, noDelay: true }, (request, response) => {
  if (request.method === "GET") return sendJson(response, READS[request.url]?.() ?? {});
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    if (request.url === "/reset") {
      calls = new Map();
      seen = new Map();
      return sendJson(response, {});
    }
    requests += 1;
    try {
      send(response, answer(parts.length === 1 ? parts[0] : Buffer.concat(parts))).catch(() =>
        response.destroy(),
      );
    } catch (error) {
      sendJson(response, { error: { message: String(error), type: "invalid_request_error" } }, 400);
    }
  });
});

server.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => {
    bytesOfClosed += socket.bytesRead;
    sockets.delete(socket);
  });
});
server.listen(0, "127.0.0.1", () => process.send?.({ port: server.address().port }));
process.on("disconnect", () => process.exit(0));
