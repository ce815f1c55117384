// `npm run build`, and what npm runs after it installed: types are checked, then declarations and bundles written.

import { build, runSteps, step } from "./workspace.mjs";

await runSteps(() => step("build", build));
