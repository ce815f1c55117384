// How many bytes a turn costs in the SQLite store, by page size: admission, one journal record, one commit. Counts all
// bytes that the process writes (Linux, /proc/self/io), the log and what is written back from it included.
//
//   npm run bench -- store-bytes [--quick]

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const TURNS = process.argv.includes("--quick") ? 200 : 1000;
const PAGE_SIZES = [512, 1024, 2048, 4096, 8192];
const TEXT = 1600;

/** From its source, since the size of a page is nobody's option. */
const { openSqliteStore } = await bundled("../packages/marling/src/store/sqlite/sqlite-store.ts");

async function bundled(source) {
  const file = new URL("./tmp/sqlite-store.mjs", import.meta.url);
  const input = fileURLToPath(new URL(source, import.meta.url));
  const build = await rolldown({ input, platform: "node", external: ["@photostructure/sqlite"] });
  await build.write({ file: fileURLToPath(file), codeSplitting: false });
  const loaded = await import(file.href);
  rmSync(file);
  return loaded;
}

const SESSION = "5f1d9c1e-0b52-4a0e-9a53-1f1f6a0f8f11";
const WORDS = "the turn is committed once and what it adds is written once whatever came before it ";

/** Text that differs from turn to turn. */
function textOf(turn) {
  return `answer ${turn}: ${WORDS.repeat(Math.ceil(TEXT / WORDS.length))}`.slice(0, TEXT);
}

const usage = (turns) => ({
  input: 900 * turns,
  output: 400 * turns,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
});

function headOf(turn, leaf) {
  const toolAccess = { tools: [], hiddenTools: [] };
  const assignment = {
    policy: { model: "default", maxTurns: 50 },
    authority: { toolAccess, pluginOptions: {} },
  };
  const protocolOptions = { schemaVersion: 1, payload: {} };
  const id = `${SESSION}:frame:initial`;
  return {
    version: 1,
    turnIndex: turn,
    leaf,
    currentFrameId: id,
    frames: [
      { id, status: "active", reason: "initial", openedBy: `n_${SESSION}//0`, assignment, protocolOptions },
    ],
    ledger: [{ source: "turn", model: "default", usage: usage(turn) }],
    lastPromptUsage: usage(1),
    parentSessionId: null,
    operations: 1,
  };
}

function nodesOf(turn, row, text) {
  const at = (ordinal) => `n_${SESSION}/turn:${row.turnId}/${ordinal}`;
  const parent = turn === 1 ? `n_${SESSION}//0` : `n_${SESSION}/turn:${SESSION}:turn:${turn - 1}/1`;
  const frameId = `${SESSION}:frame:initial`;
  const user = {
    id: `m_${row.inputId}`,
    role: "user",
    parts: [{ kind: "text", text: row.input.input.text }],
  };
  const assistant = {
    id: `${row.turnId}.0.assistant.0`,
    role: "assistant",
    parts: [{ kind: "prose", text }],
  };
  return [
    { kind: "message", message: user, id: at(0), parentId: parent, generation: 2 * turn - 1, frameId },
    { kind: "message", message: assistant, id: at(1), parentId: at(0), generation: 2 * turn, frameId },
  ];
}

function reportOf(turn, row, text) {
  const call = {
    round: 0,
    attempt: 1,
    model: "default",
    outcome: "completed",
    finish: "stop",
    usage: usage(1),
  };
  return {
    outcome: { kind: "finished", by: "message", text },
    text,
    turnId: row.turnId,
    revision: turn,
    usage: usage(1),
    childUsage: [],
    toolCalls: [],
    modelCalls: [call],
    issues: [],
  };
}

async function runTurn(store, turn, { journal }) {
  const input = { input: { text: `question ${turn}: what does one turn cost?` } };
  const { row } = await store.admit({ sessionId: SESSION, submitted: input, input });
  const text = textOf(turn);
  if (journal) {
    const response = { parts: [{ kind: "text", text }], usage: usage(1), finish: "stop" };
    const outcome = { kind: "response", response };
    await store.journal.append([
      { sessionId: SESSION, turnId: row.turnId, key: "0.model.0", status: "done", outcome },
    ]);
  }
  const nodes = nodesOf(turn, row, text);
  await store.commit({
    sessionId: SESSION,
    expectedRevision: turn - 1,
    operation: `turn:${row.turnId}`,
    once: true,
    head: headOf(turn, nodes[1].id),
    nodes,
    components: {},
    settles: { inputId: row.inputId, report: reportOf(turn, row, text) },
    ...(journal ? { forgets: [row.turnId] } : {}),
  });
}

const written = () => Number(/wchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

async function measure(pageSize, { journal }) {
  const folder = mkdtempSync(join(tmpdir(), "marling-bytes-"));
  const path = join(folder, "bench.db");
  const store = openSqliteStore({ path }, { pageSize });
  await store.exists(SESSION);
  const marks = [written()];
  const started = performance.now();
  for (let turn = 1; turn <= TURNS; turn += 1) {
    await runTurn(store, turn, { journal });
    marks.push(written());
  }
  const time = (performance.now() - started) / TURNS;
  await store.close();
  const total = written() - marks[0];
  const size = statSync(path).size;
  const load = await loadTime(path);
  rmSync(folder, { recursive: true, force: true });
  const turns = marks.slice(1).map((mark, index) => mark - marks[index]);
  return {
    total: total / TURNS,
    first: median(turns.slice(0, 100)),
    last: median(turns.slice(-100)),
    size,
    time,
    load,
  };
}

async function loadTime(path) {
  const started = performance.now();
  const store = openSqliteStore({ path }, {});
  await store.load(SESSION);
  const time = performance.now() - started;
  await store.close();
  return time;
}

console.log(`# Bytes per turn (node ${process.version}, ${TURNS} turns of ${TEXT} characters, one session)`);
for (const journal of [true, false]) {
  console.log(`\n## Admission, ${journal ? "journal record, " : ""}commit\n`);
  console.log(
    "| page size | bytes a turn | to the log, first 100 | to the log, last 100 | file, bytes a turn | ms a turn | ms to open and load |",
  );
  console.log("|---:|---:|---:|---:|---:|---:|---:|");
  for (const pageSize of PAGE_SIZES) {
    const { total, first, last, size, time, load } = await measure(pageSize, { journal });
    const cells = [
      pageSize,
      total.toFixed(0),
      first,
      last,
      (size / TURNS).toFixed(0),
      time.toFixed(3),
      load.toFixed(1),
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
}
