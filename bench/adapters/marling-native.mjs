// marling as it comes, through its own OpenAI-compatible wire.

import { openaiModel } from "../harness/marling.mjs";
import { connectMarling } from "../harness/marling-session.mjs";

export const about = { name: "marling native", version: "workspace", keeps: "sqlite", isOurs: true };

export const nativeModel = ({ url, model }) => openaiModel({ model, baseUrl: `${url}/v1`, apiKey: "none" });

export const connect = (options) => connectMarling(options, nativeModel(options));
