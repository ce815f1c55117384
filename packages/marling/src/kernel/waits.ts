// Results that come later. A key is 128 random bits; the store knows its hash only.
//   W1  the first writer wins, from whichever process; a value that comes before the wait is kept.
//   W2  an unknown key says nothing about other keys; a key of another kind is unknown.
//   W3  a wait that is over tells a late value that it is too late.

import { randomBytes } from "node:crypto";
import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json } from "../model/json.ts";
import type {
  NewWait,
  Resolution,
  ResolveStatus,
  Store,
  WaitKind,
  WaitName,
  WaitRow,
} from "../store/contract.ts";
import type { StoreWatch } from "./store-watch.ts";

export class Waits {
  readonly #store: Store;
  readonly #watch: StoreWatch;

  constructor(store: Store, watch: StoreWatch) {
    this.#store = store;
    this.#watch = watch;
  }

  /** Makes a key of a wait, which is told to nobody else. Resolves when the store knows its hash. */
  async mint(wait: Omit<NewWait, "keyHash">): Promise<string> {
    const key = `wait_${randomBytes(16).toString("base64url")}`;
    await this.#store.waits.create({ ...wait, keyHash: sha256(key) });
    return key;
  }

  /** Makes a wait known by a hash that whoever decides knows as well. */
  create(wait: NewWait): Promise<void> {
    return this.#store.waits.create(wait);
  }

  async find({ sessionId, turnId, name }: WaitName): Promise<WaitRow | undefined> {
    const rows = await this.#store.waits.read(sessionId, turnId);
    return rows.find((row) => row.name === name);
  }

  /** Resolves when the value is there, or with nothing when the signal aborts. */
  async arrival(wait: WaitName, signal: AbortSignal): Promise<Resolution | undefined> {
    let resolution: Resolution | undefined;
    const check = async (): Promise<boolean> => {
      resolution = (await this.find(wait))?.resolution;
      return resolution !== undefined;
    };
    await this.#watch.until(check, { of: wait.sessionId, signal });
    return resolution;
  }

  async resolve(key: string, kind: WaitKind, raw: unknown): Promise<ResolveStatus> {
    const resolution = decodeResolution(raw);
    const { status, sessionId } = await this.#store.waits.resolve(sha256(key), kind, resolution);
    if (status === "resolved") this.#watch.notify(sessionId);
    return status;
  }

  /** Nobody waits any longer, unless a value came first: then it is in the row. */
  end(wait: WaitName & { readonly lease: number | undefined }): Promise<WaitRow | undefined> {
    return this.#store.waits.end(wait);
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
