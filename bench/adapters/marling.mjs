// marling as it comes, through the AI SDK's OpenAI-compatible provider.

import { connectMarling } from "../harness/marling-session.mjs";
import { provider } from "./provider-alone.mjs";

export const about = { name: "marling", version: "workspace", keeps: "sqlite", isOurs: true };

export const connect = (options) => connectMarling(options, provider(options));
