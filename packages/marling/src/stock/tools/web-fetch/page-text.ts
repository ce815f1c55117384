// From bytes to text: what a page says it is, and what it is written in.

export interface ContentType {
  /** In lower case, without parameters; empty when the page does not say. */
  readonly type: string;
  readonly charset: string | undefined;
}

export function contentTypeOf(header: string | undefined): ContentType {
  const [type = "", ...parameters] = (header ?? "").split(";").map((part) => part.trim());
  const charset = parameters
    .find((part) => /^charset\s*=/i.test(part))
    ?.replace(/^charset\s*=\s*|["']/gi, "");
  return { type: type.toLowerCase(), charset };
}

export function isHtml({ type }: ContentType): boolean {
  return type === "text/html" || type === "application/xhtml+xml";
}

const TEXT_TYPES =
  /^(?:text\/.+|application\/(?:json|xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|sql|graphql|x-sh|x-ndjson|rtf)|.+\+(?:json|xml|yaml))$/;

/** Whether a page is text by what it says; `undefined` when it does not say. */
export function isText({ type }: ContentType): boolean | undefined {
  if (type === "" || type === "application/octet-stream") return undefined;
  return isHtml({ type, charset: undefined }) || TEXT_TYPES.test(type);
}

/** Text has no zero bytes, unless it is written in 16 bits and says so at its beginning. */
export function looksLikeText(bytes: Buffer): boolean {
  return hasMark(bytes) || !bytes.subarray(0, 4_096).includes(0);
}

/** A mark at the beginning is stronger than the header, the header than the page itself. */
export function decodeText(bytes: Buffer, content: ContentType): string {
  const label =
    markOf(bytes) ?? content.charset ?? (isHtml(content) ? declaredIn(bytes) : undefined) ?? "utf-8";
  return decodedAs(label, bytes);
}

function decodedAs(label: string, bytes: Buffer): string {
  try {
    return new TextDecoder(label).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes); // A name that nobody knows: what is not UTF-8 shows as such.
  }
}

function hasMark(bytes: Buffer): boolean {
  return markOf(bytes) !== undefined;
}

function markOf(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? "utf-8" : undefined;
}

function declaredIn(bytes: Buffer): string | undefined {
  const start = bytes.subarray(0, 1_024).toString("latin1");
  return /<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})/i.exec(start)?.[1];
}
