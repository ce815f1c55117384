// `npm start`: installs and builds what is missing, then runs one turn of an agent with a scripted model.

import { join } from "node:path";
import { prepareWorkspace, root, runSteps, shown } from "./workspace.mjs";

const HELP = `Usage: npm start

Runs one turn of a marling agent and prints what happens as it happens.
The model is a script, so nothing leaves this machine and no key is needed.
On a fresh clone it first installs the dependencies and builds the library.

Options:
  -- --help    show this text`;

const args = process.argv.slice(2);

if (args.includes("--help") || args.includes("-h")) {
  console.log(HELP);
} else if (args.length > 0) {
  console.error(`npm start takes no such argument: ${args.join(" ")}\n\n${HELP}`);
  process.exitCode = 2;
} else {
  await runSteps(async () => {
    await prepareWorkspace();
    await shown(process.execPath, [join(root, "scripts", "first-turn.mjs")]);
  });
}
