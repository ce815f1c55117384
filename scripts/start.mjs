// `npm start`: installs and builds what is missing, then opens a chat on a terminal, or shows the tour where there is none.
// Arguments go to marling as they are: `npm start -- run "a question"`.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepareWorkspace, root, runSteps } from "./workspace.mjs";

const program = join(root, "packages", "cli", "dist", "main.js");

const HELP = `Usage: npm start [-- <command> [options]]

On a terminal it opens \`marling chat\`; without one it shows a tour that ends by itself.
What stands behind -- goes to marling: npm start -- run "a question", npm start -- sessions.
On a fresh clone it first installs the dependencies and builds. No key is needed: without one, a scripted demo agent answers.
`;

const words = process.argv.slice(2);
const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;

if (words[0] === "--help" || words[0] === "-h") process.stdout.write(`${HELP}\n`);

await runSteps(async () => {
  await prepareWorkspace({ say: console.error }); // Standard output is for what marling says.
  process.exitCode = await marling(words.length > 0 ? words : [isTerminal ? "chat" : "tour"]);
});

/**
 * Runs marling in this terminal; signals of the terminal reach it by themselves.
 * @param {readonly string[]} args
 * @returns {Promise<number>} its exit code
 */
function marling(args) {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: "inherit",
    env: { ...process.env, MARLING_COMMAND: "npm start --" }, // how it was called, for what it says to type next
  });
  const ignore = () => {};
  process.on("SIGINT", ignore);
  const stop = () => child.kill("SIGTERM");
  process.on("SIGTERM", stop);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      process.off("SIGINT", ignore);
      process.off("SIGTERM", stop);
      resolve(code ?? (signal === "SIGINT" ? 130 : 1));
    });
  });
}
