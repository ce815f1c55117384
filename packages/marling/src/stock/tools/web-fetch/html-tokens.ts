// HTML as a list of tags and texts, read once from left to right: what is broken is text or ends the page.

export type HtmlToken =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "tag";
      readonly name: string;
      readonly isEnd: boolean;
      readonly attributes: ReadonlyMap<string, string>;
    };

/** Elements whose content is no markup. What is in them is dropped, that of `title` excepted. */
const RAW = new Set([
  "script",
  "style",
  "noscript",
  "template",
  "svg",
  "math",
  "iframe",
  "object",
  "canvas",
  "textarea",
]);
const TAG_NAME = /<(\/?)([a-zA-Z][^\s/>]*)/y;

export function* htmlTokens(html: string): Generator<HtmlToken> {
  let at = 0;
  while (at < html.length) {
    const start = html.indexOf("<", at);
    if (start === -1) break;
    if (start > at) yield { kind: "text", text: html.slice(at, start) };
    TAG_NAME.lastIndex = start;
    const [, slash = "", rawName = ""] = TAG_NAME.exec(html) ?? [];
    if (rawName === "") {
      const next = skipped(html, start);
      if (next === start + 1) yield { kind: "text", text: "<" };
      at = next;
      continue;
    }
    const name = rawName.toLowerCase();
    const attributes = new Map<string, string>();
    at = readAttributes(html, start + 1 + slash.length + rawName.length, attributes);
    yield { kind: "tag", name, isEnd: slash === "/", attributes };
    if (slash !== "/" && (RAW.has(name) || name === "title")) {
      const end = endOf(html, name, at);
      if (name === "title") yield { kind: "text", text: html.slice(at, end) };
      at = end;
    }
  }
  if (at < html.length) yield { kind: "text", text: html.slice(at) };
}

/** Past a comment or declaration; past the one character when it is neither. */
function skipped(html: string, start: number): number {
  if (html.startsWith("<!--", start)) return after(html, "-->", start + 4);
  const next = html[start + 1];
  return next === "!" || next === "?" || next === "/" ? after(html, ">", start + 1) : start + 1;
}

function after(html: string, mark: string, from: number): number {
  const found = html.indexOf(mark, from);
  return found === -1 ? html.length : found + mark.length;
}

function endOf(html: string, name: string, from: number): number {
  const close = new RegExp(`</${name}`, "gi");
  close.lastIndex = from;
  return close.exec(html)?.index ?? html.length;
}

const ATTRIBUTE = /[\s/]*([^\s=>/"']+|["'])(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?/y;

/** Reads the attributes of a tag and returns the place after it. */
function readAttributes(html: string, from: number, into: Map<string, string>): number {
  ATTRIBUTE.lastIndex = from;
  let at = from;
  for (let found = ATTRIBUTE.exec(html); found !== null; found = ATTRIBUTE.exec(html)) {
    const [, name = "", double, single, bare] = found;
    at = ATTRIBUTE.lastIndex;
    const key = name.toLowerCase();
    if (!into.has(key) && into.size < 64) into.set(key, double ?? single ?? bare ?? "");
  }
  return after(html, ">", at);
}
