// One life of the tour's agent: a process that may be killed at any moment. What it does leaves a line in a file.

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createRuntime, defineTool, type JsonObject, type ModelRequest, type ToolDefinition } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, type ScriptStep, say, scriptedModel } from "marling/testing";
import type { LifeMessage } from "./tour.ts";

const [folder = ".", life = "1"] = process.argv.slice(2);
const WORK_MS = 700;
const QUESTION = "Send parcel 7 to Ada.";

const ANY: JsonObject = { type: "object", properties: { parcel: { type: "integer" } } };

/** What this life has begun itself. */
const begun = new Set<string>();

await live();

async function live(): Promise<void> {
  const runtime = createRuntime({
    model: scriptedModel((request) => answer(request)),
    tools: [
      tool("weigh_parcel", "safe", () => "2.4 kg"),
      tool("print_label", "idempotent", () => "label printed"),
      tool("tell_customer", "unsafe", () => "mail sent"),
    ],
    store: sqliteStore({ path: join(folder, "tour.db") }),
    instructions: "Send parcels.",
  });
  const session = await runtime.session("parcels");
  // The same key is the same turn: the second life attaches to what the first has left.
  const turn = session.turn(QUESTION, { key: "parcel-7" });
  for await (const event of turn) {
    if (event.kind === "tool_finished") {
      const { outcome } = event.record.output;
      const words = outcome.kind === "success" ? String(outcome.value) : outcome.message;
      const isRecorded = outcome.kind === "success" && !begun.has(event.record.name);
      tell({ kind: "line", text: `${event.record.name}: ${words}${isRecorded ? " (from the record)" : ""}` });
    }
  }
  const report = await turn.result;
  await runtime.close();
  tell({ kind: "end", text: report.text, revision: report.revision, outcome: report.outcome.kind });
}

/** Three answers, by how far the conversation is. */
function answer({ messages }: ModelRequest): ScriptStep {
  const round = messages.filter(({ role }) => role === "assistant").length + 1;
  did(`model call ${round}`);
  tell({ kind: "line", text: `model call ${round}` });
  if (round === 1) return callTool("weigh_parcel", { parcel: 7 });
  if (round === 2)
    return callTools([
      ["print_label", { parcel: 7 }],
      ["tell_customer", { parcel: 7 }],
    ]);
  return say("Parcel 7 is labelled. Whether Ada was told is unknown, so I have not told her again.");
}

function tool(name: string, replay: "safe" | "idempotent" | "unsafe", work: () => string): ToolDefinition {
  return defineTool({
    name,
    description: `Does ${name}.`,
    input: ANY,
    replay,
    execute: async (_input, { idempotencyKey, signal }) => {
      begun.add(name);
      did(`${name} began`, idempotencyKey);
      tell({ kind: "began", name });
      if (name !== "weigh_parcel") await sleep(WORK_MS, undefined, { signal });
      did(`${name} ended`, idempotencyKey);
      return work();
    },
  });
}

function did(what: string, key = ""): void {
  appendFileSync(join(folder, "done.jsonl"), `${JSON.stringify({ life, what, key })}\n`);
}

function tell(message: LifeMessage): void {
  process.send?.(message);
}
