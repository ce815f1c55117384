// A process of its own that has tasks and monitors, until it is killed or has nothing to do any more.
//
//   node work-child.mjs close <database>   starts a monitor, a durable and a plain task that never end, and hidden work,
//                                          and closes the runtime: `<process id of the monitor>`, then `closed`
//   node work-child.mjs idle <database>    opens a session that waits for a task that others run: `open`
//   node work-child.mjs work <database>    starts a durable task that reports progress twice and never ends: `stored`

import { writeSync } from "node:fs";
import { createRuntime, definePlugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";

const [mode = "", path = ""] = process.argv.slice(2);
/** @param {unknown} line */
const print = (line) => void writeSync(1, `${line}\n`);
const never = () => new Promise(() => undefined);

/** @type {{ host?: import("../../src/plugin/host-services.ts").HostServices }} */
const given = {};
const jobs = definePlugin({
  id: "jobs",
  build: () => ({
    ready: (ctx) => {
      given.host = ctx.host;
    },
    background: {
      job: ({ progress }) => {
        progress("one");
        progress("two");
        return never();
      },
    },
  }),
});

const runtime = createRuntime({
  model: scriptedModel([say("seen")]),
  store: sqliteStore({ path }),
  plugins: [jobs()],
});
const session = await runtime.session("s");
const { host } = given;
if (host === undefined) throw new Error("the plugin was not made ready");
const task = /** @type {const} */ ({ kind: "other", producer: "jobs", label: "job" });

if (mode === "idle") {
  await host.registerBackgroundTask("s", { ...task, id: "elsewhere", durable: { recovery: "external" } });
  print("open");
}

if (mode === "work") {
  await host.spawnManagedTask("s", { ...task, id: "a", durable: { recovery: "rerun" } });
  await session.turn("a commit that has it").result;
  print("stored");
  setInterval(() => undefined, 1000);
}

if (mode === "close") {
  await host.spawnManagedTask("s", { ...task, id: "a", durable: { recovery: "rerun" } });
  await host.spawnManagedTask("s", { ...task, id: "b" });
  await host.spawnHiddenTask("s", "c", never);
  const command = "echo $$; exec sleep 600";
  await host.startMonitor("s", { id: "m", command, persistent: true, wakePolicy: "notify" });
  const said = async () => (await session.monitors.snapshot()).monitors[0]?.lastEvent;
  while ((await said()) === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
  print(await said());
  await runtime.close();
  print("closed");
}
