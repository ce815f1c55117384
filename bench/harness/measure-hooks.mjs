// S8: what hooks cost. The same turns without plugins and with them, by turns in one process, so that both have the same
// machine; what counts is the difference of neighbours.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { nativeModel } from "../adapters/marling-native.mjs";
import { median } from "./figures.mjs";
import { cpuMs } from "./machine.mjs";
import { definePlugin } from "./marling.mjs";
import { connectMarling } from "./marling-session.mjs";
import { modelName, userText } from "./plan.mjs";

const BUSY = 20;
const IDLE = 200;

const nothing = () => undefined;

/** Every kind of hook; what a turn asks is answered with nothing, but for the stream, whose chunks are handed on. */
const EVERY_HOOK = {
  prompt: () => [],
  toolCatalog: nothing,
  turn: { before: nothing, after: nothing, checkpoint: nothing },
  toolCalls: { before: nothing, after: nothing },
  input: { before: nothing },
  model: { request: nothing, error: nothing },
  approval: { request: nothing },
  recovery: { decide: nothing },
  output: { stream: ({ chunk }) => ({ chunk }), response: nothing, streamFinished: nothing },
  session: { onEvent: nothing, mutateConfig: nothing },
  context: { prepareTurn: { transform: nothing }, compact: { compact: nothing } },
};

const pluginsOf = (count, parts) =>
  Array.from({ length: count }, (_, index) => definePlugin({ id: `plugin-${index}`, build: () => parts })());

const WORLDS = {
  none: () => [],
  busy: () => pluginsOf(BUSY, EVERY_HOOK),
  idle: () => pluginsOf(IDLE, {}),
};

export async function measure({ params, plan, dir, url, expected }) {
  const worlds = Object.entries(WORLDS).map(([name, plugins]) => {
    const folder = join(dir, name);
    mkdirSync(folder);
    const options = { dir: folder, url, model: modelName(plan), plugins: plugins() };
    return { name, agent: connectMarling(options, nativeModel(options)), samples: [] };
  });
  const { warmUp, turns, perSession, only } = params;
  const chosen = worlds.filter(({ name }) => only === undefined || only.includes(name));
  for (let index = 0; index < warmUp + turns; index += 1) {
    const order = index % 2 === 0 ? chosen : chosen.toReversed();
    for (const world of order) {
      const figures = await oneTurn(world, { index, perSession, expected });
      if (index >= warmUp) world.samples.push(figures);
    }
  }
  for (const { agent } of worlds) await agent.close();
  return figuresOf(chosen);
}

async function oneTurn(world, { index, perSession, expected }) {
  const turn = (index % perSession) + 1;
  const id = `hooked-${index - turn + 1}`;
  if (turn === 1) world.session = await world.agent.open(id);
  let deltas = 0;
  const onDelta = () => {
    deltas += 1;
  };
  const [cpu, started] = [cpuMs(), performance.now()];
  const text = await world.agent.turn(world.session, userText(id, turn), onDelta);
  const figures = { ms: performance.now() - started, cpu: cpuMs() - cpu };
  if (text !== expected || deltas === 0)
    throw new Error(`${world.name}: expected the whole answer, found ${text}`);
  return figures;
}

function figuresOf(worlds) {
  const [none] = worlds;
  const over = (world, unit) =>
    median(world.samples.map((sample, index) => sample[unit] - none.samples[index][unit]));
  return Object.fromEntries(
    worlds.map((world) => [
      world.name,
      {
        ms: median(world.samples.map(({ ms }) => ms)),
        cpu: median(world.samples.map(({ cpu }) => cpu)),
        overMs: over(world, "ms"),
        overCpu: over(world, "cpu"),
      },
    ]),
  );
}
