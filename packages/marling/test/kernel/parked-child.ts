// A process of its own with a runtime on a file, until it is killed or done. Prints one line for each thing that happens.
//
//   park <path>    begins a turn and awaits it: `key <key>`, `parked`, and `done <text>` when somebody completed it
//   cut <path>     begins a turn whose tool takes its key and never returns: `key <key>`
//   leave <path>   begins a turn, closes the runtime when it sleeps, and has nothing more to do: `parked`, `closed <code>`
//   wake <path> <key> <value>   completes a call, waits for its turn and closes the runtime: `<status>`, `done <text>`

import { writeSync } from "node:fs";
import { createRuntime } from "../../src/kernel/create-runtime.ts";
import type { Runtime } from "../../src/kernel/runtime.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { callTool, say, scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tool/define-tool.ts";

const [mode = "", path = "", key = "", value = ""] = process.argv.slice(2);

/** Straight to the pipe: a line that was written is there though the process dies. */
function print(line: string): void {
  writeSync(1, `${line}\n`);
}

const ask = defineTool({
  name: "ask",
  description: "Answers later.",
  input: { type: "object" },
  execute: async (_input, context) => {
    print(`key ${await context.completionKey()}`);
    if (mode === "cut") await new Promise(() => undefined);
    return context.pending({ deadlineMs: 3_600_000 });
  },
});

const runtime: Runtime = createRuntime({
  model: scriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool" ? say("Done.") : callTool("ask", {}),
  ),
  store: sqliteStore({ path }),
  tools: [ask],
});

const session = await runtime.session("s");
const turn = session.turn("go", { key: "k" });
await turn.accepted;

if (mode === "wake") {
  print(await runtime.resolve(key, { ok: value }));
  print(`done ${(await turn.result).text}`);
  await runtime.close();
} else if (mode !== "cut") {
  while ((await session.pending())[0]?.status !== "parked")
    await new Promise((resolve) => setTimeout(resolve, 5));
  print("parked");
  if (mode === "park") print(`done ${(await turn.result).text}`);
  if (mode === "leave") {
    await runtime.close();
    print(
      `closed ${await turn.result.then(
        () => "",
        (thrown: { readonly code: string }) => thrown.code,
      )}`,
    );
  }
}
