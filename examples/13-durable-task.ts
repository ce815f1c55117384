import { createRuntime, definePlugin, type TaskRecord, type TaskSpec } from "marling";
import { sqliteStore } from "marling/sqlite";
import { scriptedModel } from "marling/testing";

export interface World {
  collect(): readonly string[];
  upload(rows: readonly string[], step: { signal: AbortSignal; idempotencyKey: string }): Promise<string>;
}

// #region task
const NIGHTLY: TaskSpec = {
  id: "nightly",
  kind: "other",
  producer: "exporter", // the plugin that runs it
  label: "export", // which of its `background`
  durable: { recovery: "rerun" }, // what a restart may do: rerun, report, external
};

const exporter = ({ collect, upload }: World) =>
  definePlugin({
    id: "exporter",
    build: () => ({
      background: {
        export: async ({ step, progress }) => {
          const rows = await step("collect", () => collect()); // stored before it is returned
          progress({ collected: rows.length });
          return await step("upload", ({ signal, idempotencyKey }) =>
            upload(rows, { signal, idempotencyKey }),
          );
        },
      },
      operations: {
        commands: {
          "exporter.start": {
            handler: async ({ processes, sessionId = "" }) =>
              (await processes.start(sessionId, NIGHTLY)).state,
          },
        },
      },
    }),
  })();
// #endregion

// #region restart
/** The program. Run again after it was killed, it goes on with what `collect` came to. */
export async function exportUntil(path: string, world: World, isSo: (task: TaskRecord) => boolean) {
  const store = sqliteStore({ path });
  await using runtime = createRuntime({ model: scriptedModel([]), plugins: [exporter(world)], store });
  const session = await runtime.session("exports");
  const { tasks } = session;
  if (tasks.list().length === 0) await session.command("exporter.start");
  const found = tasks.list().find(isSo);
  if (found !== undefined) return found;
  for await (const { task } of tasks.watch()) if (isSo(task)) return task;
  return undefined;
}
// #endregion
