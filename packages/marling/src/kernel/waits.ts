// Results that come later. A key is 128 random bits, kept as a hash only.
//   W1  the first writer wins; a value that comes before the wait is kept.
//   W2  an unknown key says nothing about other keys.

import { randomBytes } from "node:crypto";
import { type Deferred, deferred } from "../base/deferred.ts";
import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject } from "../model/json.ts";
import type { Json } from "../model/json.ts";

export type Resolution =
  | { readonly ok: Json }
  | { readonly error: { readonly code: string; readonly message: string } };

export type ResolveStatus = "resolved" | "already_resolved" | "unknown";

interface Wait {
  readonly arrived: Deferred<Resolution>;
  isResolved: boolean;
}

export class Waits {
  readonly #waits = new Map<string, Wait>();

  /** Makes a wait and returns its key, which is told to nobody else. */
  mint(): string {
    const key = `wait_${randomBytes(16).toString("base64url")}`;
    this.#waits.set(sha256(key), { arrived: deferred<Resolution>(), isResolved: false });
    return key;
  }

  /** Resolves when the value is there. */
  arrival(key: string): Promise<Resolution> {
    const wait = this.#waits.get(sha256(key));
    if (wait === undefined) throw new MarlingError("invalid_id", "wait key: expected one that was minted here, found another");
    return wait.arrived.promise;
  }

  resolve(key: string, raw: unknown): ResolveStatus {
    const resolution = decodeResolution(raw);
    const wait = this.#waits.get(sha256(key));
    if (wait === undefined) return "unknown";
    if (wait.isResolved) return "already_resolved";
    wait.isResolved = true;
    wait.arrived.resolve(resolution);
    return "resolved";
  }

  /** Nobody waits any longer: later values are told that it is over. */
  settle(key: string): void {
    const wait = this.#waits.get(sha256(key));
    if (wait !== undefined) wait.isResolved = true;
  }
}

function decodeResolution(raw: unknown): Resolution {
  const json = decodeJson(raw, "resolution");
  if (isJsonObject(json) && Object.hasOwn(json, "ok")) return { ok: json["ok"] as Json };
  const error = isJsonObject(json) ? json["error"] : undefined;
  if (isJsonObject(error) && typeof error["code"] === "string" && typeof error["message"] === "string") {
    return { error: { code: error["code"], message: error["message"] } };
  }
  throw new MarlingError("invalid_input", "resolution: expected { ok } or { error: { code, message } }, found neither");
}
