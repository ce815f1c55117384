// The runtimes of tenants: each has its part of the store, its sessions and its plugins, and reaches nothing else.

import { MarlingError } from "../base/errors.ts";
import { type SessionId, tenantName } from "../model/ids.ts";
import type { CloseOptions, Runtime } from "./runtime.ts";

/** What the composition root knows of tenants. */
export interface Tenancy {
  /** Sessions that somebody should go on with now, of no tenant and of all. */
  workable(now: number): Promise<readonly { readonly tenant?: string; readonly id: SessionId }[]>;
  /** As `workable`, for what goes on beside turns. */
  resumable(now: number): ReturnType<Tenancy["workable"]>;
  /** Tenants for whose sessions something occurred, or is to. */
  triggered(now: number): Promise<readonly string[]>;
  /** Makes the runtime of a tenant, which says when it is closed. */
  make(tenant: string, onClosed: () => void): Runtime;
}

export class Tenants {
  readonly #tenancy: Tenancy;
  readonly #scopes = new Map<string, Runtime>();

  constructor(tenancy: Tenancy) {
    this.#tenancy = tenancy;
  }

  get open(): ReadonlyMap<string, Runtime> {
    return this.#scopes;
  }

  workable(now: number): ReturnType<Tenancy["workable"]> {
    return this.#tenancy.workable(now);
  }

  resumable(now: number): ReturnType<Tenancy["workable"]> {
    return this.#tenancy.resumable(now);
  }

  /** The runtimes of tenants for whose sessions something occurred, or is to. */
  async triggered(now: number): Promise<readonly Runtime[]> {
    return (await this.#tenancy.triggered(now)).map((tenant) => this.scope(tenant));
  }

  /** The runtime of a tenant, the same one until it is closed. */
  scope(raw: string): Runtime {
    const tenant = tenantName(raw);
    const known = this.#scopes.get(tenant);
    if (known !== undefined) return known;
    const scoped = this.#tenancy.make(tenant, () => {
      if (this.#scopes.get(tenant) === scoped) this.#scopes.delete(tenant);
    });
    this.#scopes.set(tenant, scoped);
    return scoped;
  }

  async close(options: CloseOptions): Promise<void> {
    await Promise.all([...this.#scopes.values()].map((scoped) => scoped.close(options)));
  }
}

/** Tenants have no tenants of their own. */
export function refuseNested(tenant: string): MarlingError {
  const message = `scope: expected the runtime of the whole store, found that of tenant ${tenant}`;
  return new MarlingError("not_of_tenants", message, { details: { tenant } });
}
