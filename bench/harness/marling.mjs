// The library under measurement: the build of this workspace, or that of the folder in MARLING_DIST.

import { fileURLToPath, pathToFileURL } from "node:url";

const dist =
  process.env.MARLING_DIST ?? fileURLToPath(new URL("../../packages/marling/dist", import.meta.url));
const load = (file) => import(pathToFileURL(`${dist}/${file}`).href);

export const { createRuntime, definePlugin, defineTool } = await load("index.js");
export const { sqliteStore } = await load("sqlite.js");
export const { modelFetch, openaiModel } = await load("models.js");
