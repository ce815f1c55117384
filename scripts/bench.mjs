// `npm run bench [-- <name> [--quick]]`: installs and builds what is missing, then runs one file of bench/.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { prepareWorkspace, root, runSteps, shown } from "./workspace.mjs";

const names = readdirSync(join(root, "bench"))
  .filter((file) => file.endsWith(".mjs"))
  .map((file) => file.replace(/\.mjs$/, ""));
const args = process.argv.slice(2);
const name = args.find((argument) => !argument.startsWith("-"));

if (name === undefined || !names.includes(name)) {
  console.log(`Usage: npm run bench -- <name> [--quick]\n\nNames: ${names.join(", ")}`);
  process.exitCode = name === undefined ? 0 : 2;
} else {
  await runSteps(async () => {
    await prepareWorkspace();
    await shown(process.execPath, [
      join(root, "bench", `${name}.mjs`),
      ...args.filter((argument) => argument !== name),
    ]);
  });
}
