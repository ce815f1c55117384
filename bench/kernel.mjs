// What the kernel itself costs, in one run, as medians and ratios: no network, no real model.
//
//   npm run bench -- kernel [--quick]

import { createRuntime, definePlugin } from "marling";

const quick = process.argv.includes("--quick");
const rounds = quick ? 3 : 9;
const CHUNKS = 20_000;

/** A model that streams `chunks` and keeps nothing. */
function model(chunks) {
  const text = chunks.join("");
  const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
  return {
    id: "bench",
    call: async (_request, { sink }) => {
      for (const chunk of chunks) sink({ kind: "text_delta", text: chunk });
      return { kind: "response", response: { parts: [{ kind: "text", text }], usage, finish: "stop" } };
    },
  };
}

const words = Array.from({ length: CHUNKS }, (_, index) => `word ${index} `);
const idle = (count) =>
  Array.from({ length: count }, (_, index) => definePlugin({ id: `idle-${index}`, build: () => ({}) })());
const streaming = (count) =>
  Array.from({ length: count }, (_, index) =>
    definePlugin({
      id: `stream-${index}`,
      build: () => ({ output: { stream: ({ chunk }) => ({ chunk }) } }),
    })(),
  );

async function turnTime(session, turns = 1) {
  const started = performance.now();
  for (let turn = 0; turn < turns; turn += 1) await session.run("go");
  return (performance.now() - started) / turns;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

async function measure(label, make, { per = 1, unit = "ms" } = {}) {
  const session = await make();
  await session.run("warm up");
  const times = [];
  for (let round = 0; round < rounds; round += 1) times.push((await turnTime(session)) / per);
  return { label, value: median(times), unit };
}

async function openWith(options, id = "bench") {
  return createRuntime(options).session(id);
}

async function withHistory(length) {
  const session = await openWith({ model: model(["ok"]) }, `history-${length}`);
  const nodes = Array.from({ length }, (_, index) => ({
    kind: "message",
    message: {
      role: index % 2 === 0 ? "user" : "assistant",
      content: `message ${index} with some words in it`,
    },
  }));
  if (length > 0) await session.appendNodes(nodes);
  return session;
}

function table(title, rows, base) {
  console.log(`\n## ${title}\n`);
  console.log("| what | median | ratio |");
  console.log("|---|---:|---:|");
  for (const { label, value, unit } of rows)
    console.log(`| ${label} | ${value.toFixed(3)} ${unit} | ${(value / base).toFixed(2)} |`);
}

console.log(`# Kernel cost (node ${process.version}, medians of ${rounds})`);

const micro = { per: CHUNKS / 1000, unit: "us a chunk" };
const chunkRows = [
  await measure("no plugins", () => openWith({ model: model(words) }), micro),
  await measure(
    "200 plugins without stream hooks",
    () => openWith({ model: model(words), plugins: idle(200) }),
    micro,
  ),
  await measure(
    "1 plugin with a stream hook",
    () => openWith({ model: model(words), plugins: streaming(1) }),
    micro,
  ),
  await measure(
    "20 plugins with a stream hook",
    () => openWith({ model: model(words), plugins: streaming(20) }),
    micro,
  ),
];
table(`An answer of ${CHUNKS.toLocaleString("en")} chunks`, chunkRows, chunkRows[0].value);

const historyRows = [];
for (const length of [10, 100, 1_000, 10_000]) {
  historyRows.push(
    await measure(`a turn on ${length.toLocaleString("en")} messages`, () => withHistory(length)),
  );
}
table("A text turn by length of the history", historyRows, historyRows[0].value);
