// A failure as it may be stored, traced and shown, whatever a provider or a port says.
//   SF1  it holds no key: neither one that is known nor what looks like one.
//   SF2  it is short, however much a server says. A text is cut where no part of a key can be left.

import { SecretFilter } from "../base/secrets.ts";
import type { Json } from "./json.ts";
import type { ModelFailure } from "./model-response.ts";

const LONGEST_TEXT = 4_096;
/** Longer texts are cut before they are looked through. */
const LONGEST_READ = 16_384;
const MOST_WORDS = 32;

/** The failure without keys and without what is too long. */
export function shownFailure(failure: ModelFailure, secrets: readonly string[] = []): ModelFailure {
  const filter = new SecretFilter(secrets);
  const { message, code, raw, ...rest } = failure;
  return {
    ...rest,
    message: shownText(String(message), filter),
    ...(code === undefined ? {} : { code: shownText(String(code), filter) }),
    ...(raw === undefined ? {} : { raw: shownJson(raw, filter) }),
  };
}

export function shownText(text: string, filter: SecretFilter = new SecretFilter()): string {
  const shown = filter.text(text.length > LONGEST_READ ? beforeBlank(text.slice(0, LONGEST_READ)) : text);
  return shown.length > LONGEST_TEXT ? `${shown.slice(0, LONGEST_TEXT)} [cut]` : shown;
}

function shownJson(value: Json, filter: SecretFilter, depth = 0): Json {
  if (typeof value === "string") return shownText(value, filter);
  if (typeof value !== "object" || value === null) return value;
  if (depth > MOST_WORDS) return null;
  if (Array.isArray(value))
    return value.slice(0, MOST_WORDS).map((item: Json) => shownJson(item, filter, depth + 1));
  const members = Object.entries(value).slice(0, MOST_WORDS);
  return Object.fromEntries(
    members.map(([name, member]) => [shownText(name, filter), shownJson(member, filter, depth + 1)]),
  );
}

/** A text up to its last blank: a key has none. Of a text without blanks nothing is left. */
function beforeBlank(text: string): string {
  return text.slice(0, Math.max(0, text.lastIndexOf(" "), text.lastIndexOf("\n")));
}
