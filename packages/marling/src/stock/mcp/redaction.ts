// What hosts put into headers and variables is not repeated, whoever says it.

import type { McpTarget } from "./options.ts";

const SHORTEST = 8;

export class Redaction {
  readonly #secrets: readonly string[];

  constructor(target: McpTarget) {
    const given = Object.values(target.kind === "http" ? target.headers : target.env);
    const words = given.flatMap((value) => [value, ...value.split(/\s+/)]);
    this.#secrets = [...new Set(words)]
      .filter((word) => word.length >= SHORTEST)
      .sort((a, b) => b.length - a.length);
  }

  clean(text: string): string {
    return this.#secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, "[redacted]"), text);
  }
}
