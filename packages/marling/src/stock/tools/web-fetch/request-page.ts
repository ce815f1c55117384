// One request: no proxy, no cookies, no credentials, no connection that was there before.

import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import type { FetchLimits } from "./fetch-options.ts";
import { type Checked, checkHost, checkRedirect, mayReach, refusal } from "./reach.ts";

export interface OpenPage {
  readonly url: URL;
  readonly response: IncomingMessage;
  readonly redirects: number;
}

const REDIRECTS = [301, 302, 303, 307, 308];
const ACCEPT = "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5";

/** Follows redirects, each checked as the first address was. Rejects when the connection fails or the signal aborts. */
export async function openPage(
  first: URL,
  { limits, signal }: { readonly limits: FetchLimits; readonly signal: AbortSignal },
): Promise<Checked<OpenPage>> {
  let url = first;
  for (let redirects = 0; redirects <= limits.maxRedirects; redirects += 1) {
    const hosts = await unlessAborted(checkHost(url, limits), signal);
    if (hosts.kind === "failed") return hosts;
    const response = await request(url, { limits, signal, addresses: hosts.value });
    const { location } = response.headers;
    if (location === undefined || !REDIRECTS.includes(response.statusCode ?? 0))
      return { kind: "ok", value: { url, response, redirects } };
    response.destroy();
    const next = checkRedirect(url, location, limits);
    if (next.kind === "failed") return next;
    url = next.value;
  }
  const message = `Expected at most ${limits.maxRedirects} redirects, found more, the last to ${url.host}.`;
  return { kind: "failed", failure: { code: "too_many_redirects", class: "external", message } };
}

function request(
  url: URL,
  init: { readonly limits: FetchLimits; readonly signal: AbortSignal; readonly addresses: readonly string[] },
): Promise<IncomingMessage> {
  const { limits, signal, addresses } = init;
  const { Agent, request: open } = url.protocol === "https:" ? https : http;
  return new Promise((resolve, reject) => {
    const asked = open(url, {
      agent: new Agent({ keepAlive: false }),
      lookup: pinned(addresses),
      rejectUnauthorized: true,
      signal,
      headers: { "user-agent": limits.userAgent, accept: ACCEPT, "accept-encoding": "gzip, deflate, br" },
    });
    asked.on("socket", (socket) => {
      socket.once("connect", () => {
        const { remoteAddress = "" } = socket;
        if (!mayReach(url, remoteAddress, limits)) asked.destroy(new Error(refusal(url, remoteAddress)));
      });
    });
    asked.once("response", resolve);
    asked.on("error", reject);
    asked.end();
  });
}

/** The addresses that were checked, and no others. */
function pinned(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  return (_host, options, callback) => {
    if (options.all === true) return callback(null, found);
    const [first] = found;
    callback(null, first?.address ?? "", first?.family ?? 4);
  };
}

/** Names are resolved by the system, which cannot be told to stop. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let give = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    give = () => reject(signal.reason);
  });
  signal.addEventListener("abort", give, { once: true });
  if (signal.aborted) give();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", give);
  }
}
