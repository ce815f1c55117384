#!/usr/bin/env node
// The program: the process it runs in, and nothing else.

import { runCli } from "./cli.ts";

process.stdout.on("error", endOnClosedPipe);

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  onSignal: (listener) => {
    process.on("SIGINT", listener);
    process.on("SIGTERM", listener);
    return () => {
      process.off("SIGINT", listener);
      process.off("SIGTERM", listener);
    };
  },
  exit: (code) => process.exit(code),
});

/** Whoever read the output is gone, as `head` is after its lines. */
function endOnClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
}
