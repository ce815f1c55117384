// A model port whose calls have settings of their own, unless a request says otherwise.

import { isJsonObject, type JsonObject } from "../model/json.ts";
import type { ModelPort, ModelRequest } from "./contract.ts";

export interface ModelDefaults {
  /** Such as `temperature`; the names are those that the model knows. */
  readonly parameters?: JsonObject;
  /** An object for each provider, by its name. */
  readonly providerOptions?: JsonObject;
  /** Sent, never stored. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The port itself when there are no settings. */
export function withDefaults(port: ModelPort, defaults: ModelDefaults): ModelPort {
  const { parameters, providerOptions, headers } = defaults;
  if (parameters === undefined && providerOptions === undefined && headers === undefined) return port;
  const { id, contextWindow, maxOutputTokens } = port;
  return {
    id,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    call: (request, options) => port.call(fill(request, defaults), options),
  };
}

function fill(request: ModelRequest, { parameters, providerOptions, headers }: ModelDefaults): ModelRequest {
  return {
    ...request,
    parameters: { ...parameters, ...request.parameters },
    providerOptions: mergeByProvider(providerOptions ?? {}, request.providerOptions),
    headers: { ...headers, ...request.headers },
  };
}

function mergeByProvider(first: JsonObject, later: JsonObject): JsonObject {
  const merged = { ...first };
  for (const [name, value] of Object.entries(later)) {
    const known = merged[name];
    Object.assign(merged, {
      [name]: isJsonObject(known) && isJsonObject(value) ? { ...known, ...value } : value,
    });
  }
  return merged;
}
