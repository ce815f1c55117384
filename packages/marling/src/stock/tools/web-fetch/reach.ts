// Which addresses may be fetched, as they are written and as they are resolved.
//   WF3  http and https only, without credentials, at every redirect.
//   WF4  a redirect from https to http is refused unless the options allow it.
//   WF5  the address that is connected to is the one that was checked: a name is resolved once per request, every address
//        it has must be allowed, and the one that answers is looked at again.

import { isIP } from "node:net";
import type { ToolFailureInput } from "../../../index.ts";
import { type AddressKind, addressKind } from "./address.ts";
import type { FetchLimits } from "./fetch-options.ts";

export type Checked<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "failed"; readonly failure: ToolFailureInput };

/** Local networks, which `allowPrivate` opens. The rest is opened by the name of its host only. */
const LOCAL: readonly AddressKind[] = ["private", "unique_local", "loopback", "link_local", "shared"];

const LONGEST_URL = 8_192;

/** Reads an address as the model wrote it. */
export function checkUrl(text: string): Checked<URL> {
  if (text.length > LONGEST_URL)
    return failed("invalid_url", `url: expected at most ${LONGEST_URL} characters, found ${text.length}.`);
  if (!URL.canParse(text)) return failed("invalid_url", `url: expected an absolute address, found ${text}`);
  const url = new URL(text);
  url.hash = "";
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return failed("invalid_url", `url: expected http or https, found ${url.protocol.slice(0, -1)}.`);
  if (url.username !== "" || url.password !== "")
    return failed(
      "invalid_url",
      "url: expected an address without a user name and password, found one with them.",
    );
  return { kind: "ok", value: url };
}

/** Where a redirect leads. */
export function checkRedirect(from: URL, location: string, limits: FetchLimits): Checked<URL> {
  if (!URL.canParse(location, from.href))
    return failed("invalid_redirect", `${from.host} redirects to something that is no address.`);
  const to = checkUrl(new URL(location, from.href).href);
  if (to.kind === "failed")
    return failed(
      "invalid_redirect",
      `${from.host} redirects to an address that is refused: ${to.failure.message}`,
    );
  if (from.protocol === "https:" && to.value.protocol === "http:" && !limits.allowDowngrade)
    return failed("invalid_redirect", `${from.host} redirects from https to http, to ${to.value.host}.`);
  return to;
}

/** The addresses of a host, if all of them may be reached. */
export async function checkHost(url: URL, limits: FetchLimits): Promise<Checked<readonly string[]>> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const addresses = isIP(host) === 0 ? await limits.resolve(host) : [host];
  if (addresses.length === 0)
    return failed("unknown_host", `Expected ${host} to have an address, found none.`);
  const refused = addresses.find((address) => !mayReach(url, address, limits));
  if (refused === undefined) return { kind: "ok", value: addresses };
  return failed("address_refused", refusal(url, refused), "permission_denied");
}

export function mayReach(url: URL, address: string, limits: FetchLimits): boolean {
  const kind = addressKind(address);
  if (kind === "public") return true;
  return (limits.allowPrivate && LOCAL.includes(kind)) || isListed(url, limits.allow);
}

export function refusal(url: URL, address: string): string {
  return `Expected a public address, found ${url.hostname} at ${address}, which is ${addressKind(address)}. The host of this agent can allow it; fetch something else.`;
}

/** `name` stands for every port of a host, `name:port` for one. */
function isListed(url: URL, allow: readonly string[]): boolean {
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return allow.includes(url.hostname) || allow.includes(`${url.hostname}:${port}`);
}

function failed(
  code: string,
  message: string,
  failureClass: "invalid_request" | "permission_denied" = "invalid_request",
): { readonly kind: "failed"; readonly failure: ToolFailureInput } {
  return { kind: "failed", failure: { code, class: failureClass, message } };
}
