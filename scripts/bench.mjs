// `npm run bench`: installs and builds what is missing, then runs marling beside its peers, or another file of bench/.
//
//   npm run bench -- [S1 S2 ...] [--adapter a,b] [--rounds N] [--quick] [--check] [--out FILE] [--profile FOLDER]
//   npm run bench -- growth | kernel | store-bytes [options]

import { join } from "node:path";
import { installPeers } from "../bench/harness/install.mjs";
import { prepareWorkspace, root, runSteps, shown } from "./workspace.mjs";

const OTHERS = ["growth", "kernel", "store-bytes", "profile"];

const args = process.argv.slice(2);
const other = OTHERS.find((name) => name === args[0]);

await runSteps(async () => {
  await prepareWorkspace();
  if (other === undefined) await installPeers();
  const rest = other === undefined ? args : args.slice(1);
  await shown(process.execPath, [join(root, "bench", `${other ?? "peers"}.mjs`), ...rest]);
});
