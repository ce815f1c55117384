// Processes that share a file and its sessions, under load, killed with -9 at random times and started again: what was
// accepted ends in exactly one committed turn, and no history forks (E13, E14, E15, E16).
//   MARLING_SEED=<number> makes the same kills again; MARLING_LOAD_MS=<number> is how long the load goes on.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createRuntime, type HistoryNode, type Runtime, type Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import type { InboxRow, Store } from "../../src/store/contract.ts";
import { query } from "../store/sqlite-support.ts";
import { SESSIONS, seeded, world } from "./two-processes-world.mjs";

const SEED = Number(process.env.MARLING_SEED ?? Math.floor(Math.random() * 1_000_000));

/** What a process says, as words. */
type Line = readonly string[];

interface Worker {
  readonly name: string;
  life: number;
  child: ChildProcess;
  ended: Promise<unknown>;
}

/** The processes of one test, and everything they said. */
class Crowd {
  readonly lines: Line[] = [];
  readonly errors: string[] = [];
  readonly path: string;
  readonly log: string;
  readonly #workers: Worker[];
  kills = 0;

  constructor(size: number) {
    const folder = mkdtempSync(join(tmpdir(), "marling-processes-"));
    onTestFinished(async () => {
      await this.killAll();
      rmSync(folder, { recursive: true, force: true });
    });
    this.path = join(folder, "shared.db");
    this.log = join(folder, "tools.log");
    this.#workers = Array.from({ length: size }, (_, index) => {
      const name = `w${index + 1}`;
      return { name, life: 1, ...this.#start(name, 1) };
    });
  }

  /** Kills one, as a crash would, and starts it again. */
  async crash(index: number): Promise<void> {
    const worker = this.#workers[index % this.#workers.length] as Worker;
    worker.child.kill("SIGKILL");
    this.kills += 1;
    await worker.ended;
    worker.life += 1;
    Object.assign(worker, this.#start(worker.name, worker.life));
  }

  async killAll(): Promise<void> {
    for (const { child } of this.#workers) child.kill("SIGKILL");
    await Promise.all(this.#workers.map(({ ended }) => ended));
  }

  said(word: string): readonly Line[] {
    return this.lines.filter(([first]) => first === word);
  }

  #start(name: string, life: number): Pick<Worker, "child" | "ended"> {
    const file = fileURLToPath(new URL("two-processes-child.mjs", import.meta.url));
    const args = [file, this.path, this.log, `${name}.${life}`, String(SEED + life * 10 + Number(name[1]))];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    let rest = "";
    child.stdout.on("data", (chunk: Buffer) => {
      const whole = (rest + chunk.toString()).split("\n");
      rest = whole.pop() ?? "";
      this.lines.push(...whole.map((line) => line.split(" ")));
    });
    child.stderr.on("data", (chunk: Buffer) => this.errors.push(chunk.toString()));
    return { child, ended: once(child, "close") };
  }
}

test.each([
  [2, Number(process.env.MARLING_LOAD_MS ?? 30_000)],
  [3, Number(process.env.MARLING_LOAD_MS ?? 12_000)],
])(
  "[E15] %i processes on one file, killed at random: every accepted input ends in one committed turn",
  async (size, loadMs) => {
    const random = seeded(SEED);
    const crowd = new Crowd(size);
    for (const end = performance.now() + loadMs; performance.now() < end; ) {
      await delay(250 + Math.floor(random() * 1000));
      await crowd.crash(Math.floor(random() * size));
    }
    await crowd.killAll();
    expect(crowd.errors).toEqual([]);
    const runtime = createRuntime({
      ...world({ log: crowd.log, random }),
      store: sqliteStore({ path: crowd.path }),
    });
    onTestFinished(() => runtime.close());
    const { skipped } = await runtime.recover();
    expect(skipped).toEqual([]);
    const rows = await acceptedRows(crowd);
    const turns = expectSettled(crowd, rows);
    for (const session of SESSIONS) await expectHistory(crowd, { runtime, session, rows });
    for (const [, source = "", fork = "", length = ""] of crowd.said("forked"))
      await expectFork(runtime, { source, fork, length: Number(length) });
    expectOnce(crowd.log);
    await runtime.close();
    expect(await query(crowd.path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
    expect(await query(crowd.path, "SELECT count(*) AS n FROM journal")).toEqual([{ n: 0 }]);
    tell(crowd, { size, turns });
  },
  900_000,
);

/** Says what was tested; a load that did not do its work has tested nothing. */
function tell(crowd: Crowd, { size, turns }: { readonly size: number; readonly turns: number }): void {
  const count = (word: string): number => crowd.said(word).length;
  const faults = crowd.said("failed").map((line) => line.at(-1) ?? "");
  const failures = [...new Set(faults)].map(
    (code) => `${code} ${faults.filter((one) => one === code).length}`,
  );
  process.stderr.write(
    `seed ${SEED}, ${size} processes: ${count("accepted")} inputs in ${turns} turns, ${crowd.kills} kills, ${count("takeover")} takeovers, ${count("cancelled")} cancels, ${count("appended")} appends, ${count("compacted")} compactions, ${count("forked")} forks; refused or left to others: ${failures.join(", ") || "none"}\n`,
  );
  expect(turns).toBeGreaterThan(20);
  for (const word of ["takeover", "compacted", "forked"]) expect([word, count(word)]).not.toEqual([word, 0]);
}

type Rows = ReadonlyMap<string, InboxRow>;

/** The inputs that a process was told are accepted, by key, as the store has them. Nothing is pending any more. */
async function acceptedRows(crowd: Crowd): Promise<Rows> {
  const store: Store = sqliteStore({ path: crowd.path });
  onTestFinished(() => store.close());
  const rows = new Map<string, InboxRow>();
  for (const [, session = "", key = "", deliver = "-", ...text] of crowd.said("accepted")) {
    const wanted = {
      sessionId: session as SessionId,
      key,
      submitted: { input: { text: text.join(" ") } },
      ...(deliver === "active_turn" ? { deliver: "active_turn" as const } : {}),
    };
    const row = await store.find(wanted);
    if (row !== undefined) rows.set(key, row);
  }
  expect(crowd.said("accepted").filter(([, , key = ""]) => rows.get(key)?.report === undefined)).toEqual([]);
  for (const session of SESSIONS) expect(await store.pending(session as SessionId)).toEqual([]);
  await store.close();
  return rows;
}

/** Every input has one report, that which its process was told, if it was. Returns how many turns there were. */
function expectSettled(crowd: Crowd, rows: Rows): number {
  for (const [, , key = "", turnId, revision] of crowd.said("settled")) {
    const report = rows.get(key)?.report;
    expect([key, report?.turnId, String(report?.revision)]).toEqual([key, turnId, revision]);
  }
  for (const [, , key = ""] of crowd.said("cancelled"))
    expect([key, rows.get(key)?.report?.outcome]).toMatchObject([key, { reason: "cancelled" }]);
  const reports = [...rows.values()].flatMap(({ sessionId, report }) =>
    report === undefined ? [] : [{ sessionId, ...report }],
  );
  const commits = new Set(reports.map(({ turnId, revision }) => `${turnId} ${revision}`));
  expect(commits.size).toBe(new Set(reports.map(({ turnId }) => turnId)).size);
  const places = new Set(reports.map(({ sessionId, revision }) => `${sessionId} ${revision}`));
  expect(places.size).toBe(commits.size);
  return commits.size;
}

/** A history is one path; inputs, appended nodes and results are in it once, and state was counted once per turn. */
async function expectHistory(
  crowd: Crowd,
  {
    runtime,
    session: id,
    rows,
  }: { readonly runtime: Runtime; readonly session: string; readonly rows: Rows },
): Promise<void> {
  const session = await runtime.session(id);
  const nodes = await session.history();
  const ids = nodes.map((node) => node.id);
  expect(nodes.map(({ parentId }) => parentId)).toEqual([undefined, ...ids.slice(0, -1)]);
  expect(repeated(ids)).toEqual([]);
  const messages = nodes.flatMap((node) => (node.kind === "message" ? [node.message.id] : []));
  expect(repeated(messages)).toEqual([]);
  const seen = new Set<string>(messages);
  const inputs = [...rows.values()].filter(({ sessionId }) => sessionId === id);
  expect(inputs.filter(({ inputId }) => !seen.has(`m_${inputId}`)).map(({ key }) => key)).toEqual([]);
  expectResults(nodes);
  expectFrames(crowd, session, nodes);
  const appended = crowd.said("appended").filter(([, of]) => of === id);
  expect(appended.filter(([, , node = ""]) => !ids.some((one) => one === node))).toEqual([]);
}

/** Every frame is there that a process was told of, and a copy of what landed during its compaction is of a node before it. */
function expectFrames(crowd: Crowd, session: Session, nodes: readonly HistoryNode[]): void {
  const frames = new Set(session.read().frames.map(({ id }) => id as string));
  const opened = crowd.said("compacted").filter(([, of]) => of === session.id);
  expect(opened.filter(([, , frame = ""]) => !frames.has(frame))).toEqual([]);
  for (const node of nodes) {
    const cause = node.causedBy as { readonly kind?: string; readonly nodeId?: string } | undefined;
    if (cause?.kind !== "carried") continue;
    const source = nodes.find(({ id }) => id === cause.nodeId);
    expect(source?.generation).toBeLessThan(node.generation);
    expect(textsIn(node)).toEqual(textsIn(source));
  }
}

const textsIn = (node: HistoryNode | undefined): unknown =>
  node?.kind === "message" ? node.message.parts : undefined;

/** A fork begins with what its source had, ends at a commit of it, and has every message once. */
async function expectFork(
  runtime: Runtime,
  { source, fork, length }: { readonly source: string; readonly fork: string; readonly length: number },
): Promise<void> {
  const ofSource = await (await runtime.session(source)).history();
  const forked = await runtime.session(fork);
  const ofFork = await forked.history();
  expect(ofFork.slice(0, length)).toEqual(ofSource.slice(0, length));
  const messages = ofFork.flatMap((node) => (node.kind === "message" ? [node.message.id] : []));
  expect(repeated(messages)).toEqual([]);
  expectResults(ofFork);
  await forked.close();
}

/** Every call has one result behind it. Ids of calls are unique in a frame only: the model counts what it is shown. */
function expectResults(nodes: readonly HistoryNode[]): void {
  const open = new Set<string>();
  for (const part of nodes.flatMap((node) => (node.kind === "message" ? node.message.parts : []))) {
    if (part.kind === "tool_call") {
      expect([...open]).not.toContain(part.callId);
      open.add(part.callId);
    }
    if (part.kind === "tool_result")
      expect([part.callId, open.delete(part.callId)]).toEqual([part.callId, true]);
  }
  expect([...open]).toEqual([]);
}

/** No attempt of an unsafe tool ran twice; what is safe may have. */
function expectOnce(log: string): void {
  const begun = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("unsafe begins "));
  expect(begun.length).toBeGreaterThan(0);
  expect(repeated(begun)).toEqual([]);
}

function repeated(names: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  return names.filter((name) => {
    const isAgain = seen.has(name);
    seen.add(name);
    return isAgain;
  });
}
