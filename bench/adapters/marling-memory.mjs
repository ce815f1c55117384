// marling as it comes, without a store on disk: beside `marling` it shows what keeping turns costs.

import { connectMarling } from "../harness/marling-session.mjs";
import { provider } from "./provider-alone.mjs";

export const about = { name: "marling in memory", version: "workspace", keeps: "memory", isOurs: true };

export const connect = (options) => connectMarling({ ...options, isStored: false }, provider(options));
