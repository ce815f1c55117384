// Kill -9 at every boundary: the store, the SQL commit, the bytes of the model, tools, hooks and what is published.
//   CE1  a scenario runs to its end once; then once more per boundary, killed there, and recovered in a new process.
//   CE2  the end after a crash is the end without one (`compareEnds`).
//   CE3  nothing that was finished and written runs again, and nothing that must not run twice does (`CrashLedger`).
//   CE4  an input that was accepted is settled in the end.
//   CE6  closed politely at a boundary instead, a process leaves nothing worse behind than a kill; with a grace in which
//        everything can end, no call is cut.
//   CE7  a message id is in a session once, in every session of the store.
//   CE8  with `repeat` the processes that recover are killed at the same boundary too, as often as they come to it.
//   CE5  a boundary that a run does not come to, because its timing was another, is tried again, then counted as missed.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Json } from "../../model/json.ts";
import type { Passed } from "./boundaries.ts";
import { compareEnds } from "./compare-ends.ts";
import { CrashLedger } from "./crash-ledger.ts";
import { forkLife } from "./fork-life.ts";
import { loadScenario } from "./load-scenario.ts";
import type { CrashScenario } from "./scenario.ts";

export interface CrashOptions {
  /** Boundaries whose names match; by default all. */
  readonly only?: RegExp;
  /**
   * Boundaries between which nothing was written, and nobody outside was asked or told, leave the same world behind:
   * kill at one of them only, the last that writes or calls something. By default at all.
   */
  readonly distinct?: boolean;
  /** At most so many boundaries, spread over the scenario. */
  readonly limit?: number;
  /** How many processes in a row are killed at the boundary before one may live to its end; 1 by default. */
  readonly repeat?: number;
  /** Every `of`-th boundary, beginning with the `index`-th: several machines share a scenario. */
  readonly shard?: { readonly index: number; readonly of: number };
  /**
   * Closes the runtime at each boundary instead of killing the process. With a grace above 0, nothing may be cut: it
   * must be longer than what a turn of the scenario takes.
   */
  readonly close?: { readonly graceMs: number };
  /** Processes that live at once; two by default. */
  readonly lanes?: number;
  /** How long one life may take; a minute by default. */
  readonly timeoutMs?: number;
}

export interface CrashFailure {
  /** Its position among all boundaries. */
  readonly boundary: number;
  readonly name: string;
  readonly why: string;
}

export interface CrashReport {
  /** The names of all boundaries of the run that nobody interrupted, in order. */
  readonly boundaries: readonly string[];
  /** At how many of them a process was killed. */
  readonly kills: number;
  /** Processes that were started. */
  readonly lives: number;
  /** Boundaries that no run came to, although the first did. */
  readonly missed: readonly string[];
  readonly failures: readonly CrashFailure[];
}

/** What the runs of one scenario share. */
interface CrashTest {
  readonly url: string;
  readonly scenario: CrashScenario;
  readonly folder: string;
  readonly timeoutMs: number;
  readonly close: CrashOptions["close"];
  readonly repeat: number;
  lives: number;
}

interface Whole {
  readonly end: Json;
  readonly boundaries: readonly Passed[];
}

type Verdict =
  | { readonly kind: "passed" }
  | { readonly kind: "missed" }
  | { readonly kind: "failed"; readonly why: string };

/** How often a boundary is waited for: on a machine that is busy, a run may go past it several times. */
const TRIES = 5;

/**
 * Runs the scenario that a module exports as `scenario`, killed at each of its boundaries and recovered.
 * Throws an error that lists what went wrong, with the report in `report`.
 */
export async function crashAtEveryEffect(
  module: URL | string,
  options: CrashOptions = {},
): Promise<CrashReport> {
  const url = typeof module === "string" ? pathToFileURL(resolve(module)).href : module.href;
  const folder = mkdtempSync(join(tmpdir(), "marling-crash-"));
  const { timeoutMs = 60_000, repeat = 1, close } = options;
  try {
    const scenario = await loadScenario(url);
    const test: CrashTest = { url, scenario, folder, timeoutMs, repeat, close, lives: 0 };
    const whole = await liveWhole(test);
    const report = await killAtEach(test, whole, options);
    if (report.failures.length > 0) throw Object.assign(new Error(listed(url, report)), { report });
    return report;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The run that nobody interrupts, and one more on what it left: a scenario is fit for the test if that changes nothing. */
async function liveWhole(test: CrashTest): Promise<Whole> {
  const ledger = new CrashLedger(test.scenario);
  const folder = newFolder(test, "whole");
  const lives: Whole[] = [];
  for (const name of ["the uninterrupted run", "the run after its end"]) {
    const { trouble } = await live(test, ledger, { folder });
    const problem = trouble ?? violationsOf(ledger);
    if (problem !== undefined || ledger.ended === undefined)
      throw new Error(`${name} of ${test.url}: ${problem}`);
    lives.push(ledger.ended);
  }
  const [whole, again] = lives as [Whole, Whole];
  const difference = compareEnds(again.end, whole.end, []);
  if (difference === undefined) return whole;
  throw new Error(`${test.url} is not repeatable: run again after its end, ${difference}`);
}

async function killAtEach(test: CrashTest, whole: Whole, options: CrashOptions): Promise<CrashReport> {
  const chosen = choose(whole.boundaries, options);
  const waiting = [...chosen];
  const failures: CrashFailure[] = [];
  const missed: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { boundary, name } = next;
      const verdict = await killAt(test, whole, next);
      if (verdict.kind === "missed") missed.push(name);
      if (verdict.kind === "failed") failures.push({ boundary, name, why: verdict.why });
    }
  };
  await Promise.all(Array.from({ length: options.lanes ?? 2 }, work));
  failures.sort((a, b) => a.boundary - b.boundary);
  const kills = chosen.length - missed.length;
  const boundaries = whole.boundaries.map(({ name }) => name);
  return { boundaries, kills, lives: test.lives, missed, failures };
}

interface Chosen {
  readonly boundary: number;
  readonly name: string;
}

function choose(passed: readonly Passed[], options: CrashOptions): readonly Chosen[] {
  const { only, limit, shard, distinct = false } = options;
  const matching = passed
    .map(({ name }, boundary) => ({ boundary, name }))
    .filter(({ boundary }) => !distinct || isLastOfItsWorld(passed, boundary))
    .filter(({ name }) => only === undefined || only.test(name))
    .filter((_, at) => shard === undefined || at % shard.of === shard.index);
  if (limit === undefined || matching.length <= limit) return matching;
  const step = matching.length / limit;
  return Array.from({ length: limit }, (_, at) => matching[Math.floor(at * step)] as Chosen);
}

/** Where something is only read, another run may not come. */
function isLastOfItsWorld(passed: readonly Passed[], at: number): boolean {
  const same = passed.filter(({ world }) => world === passed[at]?.world);
  return (same.findLast(({ isRead }) => isRead !== true) ?? same.at(-1)) === passed[at];
}

async function killAt(test: CrashTest, whole: Whole, { boundary, name }: Chosen): Promise<Verdict> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const ledger = new CrashLedger(test.scenario);
    const folder = newFolder(test, `${boundary}-${attempt}`);
    const first = await live(test, ledger, { folder, deadly: name });
    let last = first;
    for (let kills = 1; last.isKilled && kills < test.repeat; kills += 1)
      last = await live(test, ledger, { folder, deadly: name });
    if (last.isKilled) last = await live(test, ledger, { folder });
    const why = last.trouble ?? violationsOf(ledger) ?? differenceOf(test, ledger, whole);
    rmSync(folder, { recursive: true, force: true });
    if (why !== undefined) return { kind: "failed", why };
    if (first.isKilled) return { kind: "passed" };
  }
  return { kind: "missed" };
}

function violationsOf({ violations }: CrashLedger): string | undefined {
  return violations.length === 0 ? undefined : violations.join("; ");
}

function differenceOf({ close }: CrashTest, ledger: CrashLedger, whole: Whole): string | undefined {
  const { ended, cut } = ledger;
  if (ended === undefined) return "it did not say what it came to";
  const mayBeCut = close === undefined || close.graceMs === 0;
  return compareEnds(ended.end, whole.end, mayBeCut ? cut : []);
}

function live(
  test: CrashTest,
  ledger: CrashLedger,
  request: { readonly folder: string; readonly deadly?: string },
): ReturnType<typeof forkLife> {
  test.lives += 1;
  const { url, timeoutMs, close } = test;
  return forkLife(ledger, { url, timeoutMs, close, ...request });
}

function newFolder({ folder }: CrashTest, name: string): string {
  const made = join(folder, name);
  mkdirSync(made);
  return made;
}

function listed(url: string, { kills, failures }: CrashReport): string {
  const lines = failures.map(({ boundary, name, why }) => `  ${boundary} ${name}: ${why}`);
  return `${url}: ${failures.length} of ${kills} crashes were not survived\n${lines.join("\n")}`;
}
