// Data that a provider wants back with what its model said: signatures of reasoning, ids of items.
//   LA7  data goes back only to the model that gave it: provider and model id must be the same. Others refuse it.
//   LA8  data goes back only with the words it was given for: what was changed since goes without.

import { sha256 } from "../base/digest.ts";
import { decodeJson, isJsonObject, type JsonObject } from "../model/json.ts";
import { mergeProviderData, type ProviderData, providerData } from "./prompt-message.ts";

/** Data to send back, and whether the words it belongs to are the model's own. */
export interface Replayed {
  readonly providerOptions?: ProviderData;
}

/** Metadata as it comes in pieces, put together; `undefined` as long as there is none. */
export function addMetadata(known: ProviderData | undefined, raw: unknown): ProviderData | undefined {
  if (raw === undefined || raw === null) return known;
  const data = readMetadata(raw);
  return known === undefined ? data : mergeProviderData(known, data ?? {});
}

/** What is kept with the words of a model, for a request to come. */
export function replayOf(model: string, metadata: ProviderData | undefined, words?: string): JsonObject {
  return {
    model,
    ...(words === undefined ? {} : { words: fingerprint(words) }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/** What this model is sent back of kept data; `undefined` when it is another's, or the words are not the same. */
export function replayTo(
  model: string,
  replay: JsonObject | undefined,
  words?: string,
): Replayed | undefined {
  if (replay === undefined || replay.model !== model) return undefined;
  if (words !== undefined && replay.words !== fingerprint(words)) return undefined;
  return isJsonObject(replay.metadata) ? { providerOptions: providerData(replay.metadata) } : {};
}

/** Metadata that is no JSON cannot be kept; a provider that sends such has none that is worth keeping. */
function readMetadata(raw: unknown): ProviderData | undefined {
  try {
    const json = decodeJson(raw, "provider metadata");
    return isJsonObject(json) ? providerData(json) : undefined;
  } catch {
    return undefined;
  }
}

/** Long enough to tell a changed text from the text as it was; nobody gains by forging it. */
function fingerprint(words: string): string {
  return sha256(words).slice(0, 16);
}
