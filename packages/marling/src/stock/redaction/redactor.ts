// Finds secrets in text and puts marks in their place.
//   RE1  a mark names the pattern and holds nothing of the secret; text with marks is left as it is.
//   RE2  in a stream, text is held back while it may be the beginning of a secret: up to the last blank, from the
//        beginning of a private key, and from what an exact secret begins with.

import type { Json } from "../../index.ts";

export interface SecretPattern {
  readonly name: string;
  readonly pattern: RegExp;
}

const KEY_BEGIN = "-----BEGIN";
const KEY_END = "-----END";
const LONGEST_HELD = 16_384;

/** Secrets that are known by their shape. Each takes time that grows with the text and not with its square. */
export const SHAPES: Readonly<Record<string, RegExp>> = {
  private_key: /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/,
  api_key: /\bsk-[A-Za-z0-9_-]{20,}/,
  aws_access_key: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/,
  github_token: /\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})/,
  google_api_key: /\bAIza[0-9A-Za-z_-]{35}/,
  slack_token: /\bxox[abprs]-[A-Za-z0-9-]{10,}/,
  json_web_token: /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/,
};

export class Redactor {
  readonly #patterns: readonly SecretPattern[];
  readonly #secrets: readonly string[];

  constructor(patterns: Readonly<Record<string, RegExp>>, secrets: readonly string[]) {
    this.#secrets = [...secrets].sort((a, b) => b.length - a.length);
    const exact = this.#secrets.map((secret) => ({
      name: "secret",
      pattern: new RegExp(escaped(secret), "g"),
    }));
    const shapes = Object.entries(patterns).map(([name, { source, flags }]) => ({
      name,
      pattern: new RegExp(source, `${flags.replace(/[gy]/g, "")}g`),
    }));
    this.#patterns = [...exact, ...shapes];
  }

  text(text: string): string {
    return this.#patterns.reduce(
      (now, { name, pattern }) => now.replace(pattern, (found) => (found === "" ? "" : `[redacted:${name}]`)),
      text,
    );
  }

  /** The value with marks in its texts; the same value when there is nothing to hide. */
  json(value: Json): Json {
    if (typeof value === "string") return this.text(value);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      const items = value.map((item: Json) => this.json(item));
      return items.some((item, index) => item !== value[index]) ? items : value;
    }
    const entries = Object.entries(value).map(([name, member]) => [name, this.json(member)] as const);
    const isSame = entries.every(
      ([name, member]) => member === (value as { readonly [k: string]: Json })[name],
    );
    return isSame ? value : Object.fromEntries(entries);
  }

  /** From where on a text that goes on may be part of a secret. */
  holdFrom(text: string): number {
    const begin = text.lastIndexOf(KEY_BEGIN);
    const isOpen = begin >= 0 && !isClosed(text.slice(begin));
    const blank = text.search(/\S*$/);
    const from = this.#beforeMatch(
      text,
      Math.min(isOpen ? begin : text.length, blank, this.#secretFrom(text)),
    );
    return text.length - from > LONGEST_HELD ? text.length : from;
  }

  /** The place, or the beginning of a secret that it is in the middle of. */
  #beforeMatch(text: string, place: number): number {
    let from = place;
    for (const { pattern } of this.#patterns) {
      for (const { index, 0: found } of text.matchAll(pattern))
        if (index < from && index + found.length > from) from = index;
    }
    return from;
  }

  /** Where a secret that is not complete yet would begin. */
  #secretFrom(text: string): number {
    let from = text.length;
    for (const secret of this.#secrets) {
      for (let length = Math.min(secret.length - 1, text.length); length > 0; length -= 1) {
        if (!text.endsWith(secret.slice(0, length))) continue;
        from = Math.min(from, text.length - length);
        break;
      }
    }
    return from;
  }
}

/** The text of one stream: what may be shown, and what is held back. */
export class StreamRedactor {
  readonly #redactor: Redactor;
  #held = "";

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** Takes more text and returns what may be shown by now. */
  push(chunk: string): string {
    const text = this.#held + chunk;
    const from = this.#redactor.holdFrom(text);
    this.#held = text.slice(from);
    return this.#redactor.text(text.slice(0, from));
  }

  /** What was held back, when nothing more comes. */
  end(): string {
    const rest = this.#redactor.text(this.#held);
    this.#held = "";
    return rest;
  }
}

/** A key is over with the end of the line that says so. */
function isClosed(key: string): boolean {
  const end = key.indexOf(KEY_END);
  return end >= 0 && key.indexOf("-----", end + KEY_END.length) >= 0;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
