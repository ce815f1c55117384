// S9: what a fork writes and takes, of a short session and of a long one.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { nativeModel } from "../adapters/marling-native.mjs";
import { median } from "./figures.mjs";
import { bytesWritten } from "./machine.mjs";
import { connectMarling } from "./marling-session.mjs";
import { modelName, userText } from "./plan.mjs";

/** A page of the store's file as it is written to the log: the page and the head of its frame. */
const LOGGED_PAGE = 512 + 24;

export async function measure({ params, plan, dir, url }) {
  const figures = {};
  for (const turns of params.lengths) {
    const folder = join(dir, String(turns));
    mkdirSync(folder);
    const options = { dir: folder, url, model: modelName(plan) };
    const agent = connectMarling(options, nativeModel(options));
    const session = await agent.open("forked");
    for (let turn = 1; turn <= turns; turn += 1) await agent.turn(session, userText("forked", turn));
    figures[turns] = await forks(agent.runtime, params);
    await agent.close();
  }
  return figures;
}

async function forks(runtime, { warmUp, forks: count }) {
  const samples = [];
  for (let index = 0; index < warmUp + count; index += 1) {
    const before = bytesWritten();
    const started = performance.now();
    const fork = await runtime.sessions.fork("forked", { as: `fork-${index}` });
    const ms = performance.now() - started;
    const bytes = bytesWritten() - before;
    if (index >= warmUp) samples.push({ ms, bytes });
    await fork.close();
  }
  const bytes = median(samples.map((sample) => sample.bytes));
  return { ms: median(samples.map(({ ms }) => ms)), bytes, pages: Math.round(bytes / LOGGED_PAGE) };
}
