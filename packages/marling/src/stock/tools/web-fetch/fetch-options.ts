// The options of web_fetch, checked where they are given.

import { lookup } from "node:dns/promises";
import { MarlingError } from "../../../index.ts";

export interface WebFetchOptions {
  /** Hosts that may be at any address, as `name` or `name:port`; IPv6 addresses in brackets. */
  readonly allow?: readonly string[];
  /** Opens local networks, this machine included. Addresses of cloud metadata stay closed. */
  readonly allowPrivate?: boolean;
  /** Lets redirects lead from https to http. */
  readonly allowDowngrade?: boolean;
  /** How much of a page is read when the call says nothing else, after decompression. Default: 512 KiB. */
  readonly maxBytes?: number;
  /** The most that a call may ask for. Default: 5 MiB. */
  readonly mostBytes?: number;
  /** How much text the model is shown. Default: 50 000. */
  readonly maxChars?: number;
  /** For everything, redirects included. Default: 30 000. */
  readonly timeoutMs?: number;
  /** Default: 5. */
  readonly maxRedirects?: number;
  /** Default: `marling`. */
  readonly userAgent?: string;
  /** The addresses of a name. Default: what the system says. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

/** The options with their defaults. */
export type FetchLimits = Required<WebFetchOptions>;

const NUMBERS = ["maxBytes", "mostBytes", "maxChars", "timeoutMs", "maxRedirects"] as const;

/** Throws `invalid_options`, naming the option. */
export function fetchLimits(options: WebFetchOptions): FetchLimits {
  const limits: FetchLimits = {
    allowPrivate: false,
    allowDowngrade: false,
    maxBytes: 512 * 1024,
    mostBytes: 5 * 1024 * 1024,
    maxChars: 50_000,
    timeoutMs: 30_000,
    maxRedirects: 5,
    userAgent: "marling",
    resolve: systemAddresses,
    ...options,
    allow: (options.allow ?? []).map(hostOf),
  };
  for (const name of NUMBERS) {
    const value = limits[name];
    if (!Number.isSafeInteger(value) || value < 0) throw refuse(name, "a whole number", value);
  }
  if (options.maxBytes !== undefined && limits.maxBytes > limits.mostBytes)
    throw refuse("maxBytes", `at most mostBytes, ${limits.mostBytes}`, limits.maxBytes);
  return { ...limits, maxBytes: Math.min(limits.maxBytes, limits.mostBytes) };
}

async function systemAddresses(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}

/** A host as addresses write it: in lower case, numbers in their usual form. */
function hostOf(entry: string): string {
  const [, name = "", port = ""] = /^(.*?)((?::\d+)?)$/.exec(entry) ?? [];
  if (/[/@?#]/.test(entry) || !URL.canParse(`http://${name}`))
    throw refuse("allow", "hosts or host:port", entry);
  return `${new URL(`http://${name}`).hostname}${port}`;
}

function refuse(option: string, expected: string, found: unknown): MarlingError {
  const message = `web_fetch: option ${option}: expected ${expected}, found ${String(found)}`;
  return new MarlingError("invalid_options", message, { details: { option } });
}
