// The library that speaks the protocol. It is an optional peer: loaded when the first server is connected to.

import { MarlingError } from "../../index.ts";

export type ClientLibrary = typeof import("@modelcontextprotocol/client");

const PACKAGE = "@modelcontextprotocol/client";

/** Throws `provider_unavailable`, saying what to install. */
export async function loadClientLibrary(
  load: () => Promise<ClientLibrary> = () => import("@modelcontextprotocol/client"),
): Promise<ClientLibrary> {
  try {
    return await load();
  } catch (cause) {
    const message = `marling/mcp: expected the package ${PACKAGE} (version 2), found none that loads; install it with: npm install ${PACKAGE}`;
    throw new MarlingError("provider_unavailable", message, { cause, details: { package: PACKAGE } });
  }
}
