// Results that come later. A key is 128 random bits, kept as a hash only.
//   W1  the first writer wins; a value that comes before the wait is kept.
//   W2  an unknown key says nothing about other keys.
//   W3  what nobody waits for any more keeps nothing but a mark, so that a late value is told that it is too late; only
//       the newest marks are kept.

import { randomBytes } from "node:crypto";
import { type Deferred, deferred } from "../base/deferred.ts";
import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json } from "../model/json.ts";

export type Resolution =
  | { readonly ok: Json }
  | { readonly error: { readonly code: string; readonly message: string } };

export type ResolveStatus = "resolved" | "already_resolved" | "unknown";

interface Wait {
  readonly hash: string;
  readonly arrived: Deferred<Resolution>;
  isResolved: boolean;
}

const MOST_MARKS = 10_000;

export class Waits {
  /** By what waits: the name is known to the kernel alone. */
  readonly #open = new Map<string, Wait>();
  /** The names of open waits by the hash of their keys. */
  readonly #names = new Map<string, string>();
  readonly #over = new Set<string>();

  /** Makes the wait of this name and returns its key, which is told to nobody else. */
  mint(name: string): string {
    this.end(name);
    const key = `wait_${randomBytes(16).toString("base64url")}`;
    const hash = sha256(key);
    this.#open.set(name, { hash, arrived: deferred<Resolution>(), isResolved: false });
    this.#names.set(hash, name);
    return key;
  }

  /** Resolves when the value is there; nothing when no key was made for this name. */
  arrival(name: string): Promise<Resolution> | undefined {
    return this.#open.get(name)?.arrived.promise;
  }

  resolve(key: string, raw: unknown): ResolveStatus {
    const resolution = decodeResolution(raw);
    const hash = sha256(key);
    const wait = this.#open.get(this.#names.get(hash) ?? "");
    if (wait === undefined) return this.#over.has(hash) ? "already_resolved" : "unknown";
    if (wait.isResolved) return "already_resolved";
    wait.isResolved = true;
    wait.arrived.resolve(resolution);
    return "resolved";
  }

  /** Nobody waits any longer: later values are told that it is over. */
  end(name: string): void {
    const wait = this.#open.get(name);
    if (wait === undefined) return;
    this.#open.delete(name);
    this.#names.delete(wait.hash);
    this.#over.add(wait.hash);
    const [oldest] = this.#over;
    if (this.#over.size > MOST_MARKS && oldest !== undefined) this.#over.delete(oldest);
  }
}

function decodeResolution(raw: unknown): Resolution {
  const json = decodeJson(raw, "resolution");
  if (isJsonObject(json) && Object.hasOwn(json, "ok")) return { ok: json.ok as Json };
  const error = isJsonObject(json) ? json.error : undefined;
  if (isJsonObject(error) && typeof error.code === "string" && typeof error.message === "string") {
    return { error: { code: error.code, message: error.message } };
  }
  throw new MarlingError(
    "invalid_input",
    "resolution: expected { ok } or { error: { code, message } }, found neither",
  );
}
