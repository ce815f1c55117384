// `npm run verify`: everything that must hold before a change lands: format, lint, the packed package, and `npm test` with
// every state of the world that a crash can leave behind, where `npm test` itself takes a sample of them.

import { join } from "node:path";
import { biome, prepareWorkspace, quiet, root, runSteps, shown, step } from "./workspace.mjs";

await runSteps(async () => {
  await prepareWorkspace();
  await step("format and lint", () =>
    quiet(process.execPath, [
      biome,
      "ci",
      "--error-on-warnings",
      "--max-diagnostics=50",
      "--colors=off",
      root,
    ]),
  );
  await step("packed package", () => quiet(process.execPath, [join(root, "scripts", "pack-check.mjs")]));
  await shown(process.execPath, [join(root, "scripts", "test.mjs")], {
    env: { CRASH: "distinct", ...process.env },
  });
});
