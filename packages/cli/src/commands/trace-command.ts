// `marling trace`: a trace as a page that any browser opens.

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { readTrace, type TraceRecord } from "marling";
import { EXIT } from "../exit-code.ts";
import { renderTracePage } from "../trace-page.ts";
import { usageError } from "../usage-error.ts";
import { counted } from "../usage-line.ts";
import type { Command } from "./command.ts";

export const traceCommand: Command = {
  name: "trace",
  summary: "make a page of a trace file",
  args: "<file>",
  mostArgs: 1,
  flags: ["output"],
  notes:
    "Traces are written by chat, run and recover with --trace <file>. The page needs nothing but a browser.",
  run: async ({ cwd, stdout }, { args, flags }) => {
    const [file] = args;
    if (file === undefined) throw usageError("trace", "expected a trace file, found none");
    const records: TraceRecord[] = [];
    for await (const record of readTrace(resolve(cwd, file))) records.push(record);
    const page = resolve(cwd, flags.output ?? `${file.replace(/\.jsonl$/, "")}.html`);
    writeFileSync(page, renderTracePage(records));
    stdout.write(`${counted(records.length, "record")} in ${page}\n`);
    return EXIT.finished;
  },
};
