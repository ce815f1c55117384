// Keys in texts that others wrote: an error of a server may repeat what it was sent.
//   SE1  a secret that is known is replaced in every form a server may give it: as it is, in any case, encoded for an
//        address, and in base64, alone or within something longer.
//   SE2  unknown credentials are replaced too: they are recognised by scheme, by name or by form.
//   SE3  text that was cleaned stays as it is when it is cleaned again.

/** The replacement of a secret. */
export const SECRET_MARK = "[key]";

/** Shorter texts are not treated as secrets: they may be part of any word. */
const SHORTEST_SECRET = 6;
const SECRET_NAME = /auth|key|token|secret|cookie|password|signature/i;
const SECRET_PARAMETER = /^(?:key|sig|code)$|auth|api.?key|token|secret|password|signature/i;
const SCHEME = /^(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s+/i;

/** The secrets among headers, by their names. */
export function secretsInHeaders(
  headers: Iterable<readonly [name: string, value: string]>,
): readonly string[] {
  return [...headers]
    .filter(([name]) => SECRET_NAME.test(name))
    .flatMap(([, value]) => secretsInValue(value));
}

/** The secrets in an address: its user and password, and parameters by their names. */
export function secretsInUrl(address: string): readonly string[] {
  if (!URL.canParse(address)) return [];
  const { username, password, searchParams } = new URL(address);
  const parameters = [...searchParams]
    .filter(([name]) => SECRET_PARAMETER.test(name))
    .map(([, value]) => value);
  return [decoded(username), decoded(password), ...parameters].filter(isLongEnough);
}

/** A header's value without its scheme, and what is packed into it. */
function secretsInValue(value: string): readonly string[] {
  const bare = value.trim().replace(SCHEME, "");
  const unpacked = /^Basic\s/i.test(value.trim()) ? Buffer.from(bare, "base64").toString("utf8") : "";
  const password = unpacked.slice(unpacked.indexOf(":") + 1);
  return [bare, ...bare.split(/[;,\s]+/), unpacked, password].filter(isLongEnough);
}

function isLongEnough(secret: string): boolean {
  return secret.length >= SHORTEST_SECRET;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Removes secrets from texts. */
export class SecretFilter {
  readonly #exact: RegExp | undefined;
  /** Base64 that has a secret in it. */
  readonly #packed: RegExp | undefined;

  constructor(secrets: readonly string[] = []) {
    const known = [...new Set(secrets)].filter(isLongEnough);
    this.#exact = anyOf(known.flatMap(formsOf));
    this.#packed = anyOf(known.flatMap(base64Forms));
  }

  text(text: string): string {
    const unpacked = this.#packed === undefined ? text : withoutRuns(text, this.#packed);
    const known = this.#exact === undefined ? unpacked : unpacked.replace(this.#exact, SECRET_MARK);
    return SHAPES.reduce((now, [pattern, replace]) => now.replace(pattern, replace), known);
  }
}

function anyOf(sources: readonly string[]): RegExp | undefined {
  const longestFirst = [...new Set(sources)].sort((a, b) => b.length - a.length);
  return longestFirst.length === 0 ? undefined : new RegExp(longestFirst.join("|"), "gi");
}

/** The forms of a secret, as sources of regular expressions. */
function formsOf(secret: string): readonly string[] {
  const encoded = encodeURIComponent(secret);
  const json = JSON.stringify(secret).slice(1, -1);
  return [secret, encoded, encoded.replaceAll("%20", "+"), json].map(escaped);
}

/** The signs that base64 of a text has for the secret in it, wherever in the text that begins. */
function base64Forms(secret: string): readonly string[] {
  return [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret, "utf8")]);
    const whole = bytes.toString("base64").replace(/=+$/, "");
    const core = whole.slice(Math.ceil((offset * 4) / 3), Math.floor((bytes.length * 4) / 3));
    if (core.length < SHORTEST_SECRET) return [];
    return [escaped(core).replaceAll("\\+", "[+-]").replaceAll("/", "[/_]")];
  });
}

const BASE64_SIGN = /[A-Za-z0-9+/_=-]/;

/** Replaces each match with all of the base64 around it. Every sign is looked at once. */
function withoutRuns(text: string, pattern: RegExp): string {
  let shown = "";
  let from = 0;
  pattern.lastIndex = 0;
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    let start = found.index;
    let end = start + found[0].length;
    while (start > from && BASE64_SIGN.test(text[start - 1] ?? "")) start -= 1;
    while (end < text.length && BASE64_SIGN.test(text[end] ?? "")) end += 1;
    shown += text.slice(from, start) + SECRET_MARK;
    from = end;
    pattern.lastIndex = end;
  }
  return shown + text.slice(from);
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Words that follow the name of a scheme in a sentence. */
const SCHEME_WORDS =
  /^(?:tokens?|auth|authentication|authorization|credentials?|schemes?|headers?|realm|error|formats?|keys?|required|type|missing|invalid|expired|expected)\b/i;

type Shape = readonly [pattern: RegExp, replace: (found: string, ...groups: string[]) => string];

/** Each takes time that grows with the text and not with its square. */
const SHAPES: readonly Shape[] = [
  [
    /\b(Bearer|Basic|Negotiate|ApiKey)(\s+|%20|\+)([A-Za-z0-9._~+/=%|:-]{6,4096})/gi,
    (found, scheme = "", gap = "", value = "") =>
      SCHEME_WORDS.test(value) ? found : `${scheme}${gap}${SECRET_MARK}`,
  ],
  [/\bsk-[A-Za-z0-9_-]{8,}/g, () => SECRET_MARK],
  [/\bAIza[0-9A-Za-z_-]{20,}/g, () => SECRET_MARK],
  [
    /\b(?:gh[pousr]_|github_pat_|xox[abprs]-|gsk_|hf_|AKIA|ASIA|r8_|pplx-|xai-)[A-Za-z0-9_-]{10,}/g,
    () => SECRET_MARK,
  ],
  [/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?/g, () => SECRET_MARK],
  [
    /\b((?:proxy-)?authorization|(?:set-)?cookie)(\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)([^"'\\\r\n,}]{4,4096})/gi,
    (_found, name = "", gap = "") => `${name}${gap}${SECRET_MARK}`,
  ],
  [
    /((?:api|access|secret|private)[-_ ]?(?:key|token)(?: (?:provided|given|found|was))?|(?:client_)?secret|password)(\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)([^\s"'\\&,;)}<>\]]{6,4096})/gi,
    (found, name = "", gap = "", value = "") =>
      /^\[key/.test(value) ? found : `${name}${gap}${SECRET_MARK}`,
  ],
  [
    /((?:\b|[?&])(?:key|token|sig|signature|auth)=)([^\s"'\\&,;)}<>\]]{4,4096})/gi,
    (found, name = "", value = "") => (/^\[key/.test(value) ? found : `${name}${SECRET_MARK}`),
  ],
  [
    /(\/\/)[^\s/@:"']{0,256}:[^\s/@"']{1,256}(@)/g,
    (_found, start = "", end = "") => `${start}${SECRET_MARK}${end}`,
  ],
];
