// Ids of tenants as a store has them: what a tenant calls "s" is one id for each tenant, and none that a session without a
// tenant can have.

/** In no id that was given. */
export const TENANT_MARK = "\u001f";

/** What the ids of a tenant begin with. */
export function tenantPrefix(tenant: string): string {
  return `${TENANT_MARK}${tenant}${TENANT_MARK}`;
}

/** Whose session or turn it is, and as what its tenant knows it; nothing for one of no tenant. */
export function tenantOf<T extends string>(id: T): { readonly tenant: string; readonly id: T } | undefined {
  if (!id.startsWith(TENANT_MARK)) return undefined;
  const end = id.indexOf(TENANT_MARK, 1);
  return { tenant: id.slice(1, end), id: id.slice(end + 1) as T };
}
