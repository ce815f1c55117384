// marling through the AI SDK's OpenAI-compatible provider, which sends its requests by the fetch that marling brings.

import { modelFetch } from "../harness/marling.mjs";
import { connectMarling } from "../harness/marling-session.mjs";
import { provider } from "./provider-alone.mjs";

export const about = { name: "marling + modelFetch", version: "workspace", keeps: "sqlite", isOurs: true };

export const connect = (options) => connectMarling(options, provider({ ...options, fetch: modelFetch() }));
