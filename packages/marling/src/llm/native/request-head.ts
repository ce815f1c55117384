// The head of a POST.
//   LN4  a header that would be another header, another request or no header is refused before anything is sent.

import { NAME_SIGN, VALUE_SIGN } from "./header-signs.ts";

const HEADER_NAME = new RegExp(`^${NAME_SIGN}+$`);
const HEADER_VALUE = new RegExp(`^${VALUE_SIGN}*$`);

/** The head of a request with a body of so many bytes. Throws, and never with a value, where a header is none. */
export function requestHead(url: URL, headers: Readonly<Record<string, string>>, size: number): string {
  let head = `POST ${url.pathname}${url.search} HTTP/1.1\r\n`;
  if (!("host" in headers)) head += `host: ${url.host}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name)) throw new TypeError("expected the name of a header, found something else");
    if (!HEADER_VALUE.test(value)) throw new TypeError(`expected a header's value in ${name}, found none`);
    if (!OWN.has(name)) head += `${name}: ${value}\r\n`;
  }
  return `${head}content-length: ${size}\r\n\r\n`;
}

/** Headers that say how a message is sent are not the caller's. */
const OWN: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection", "upgrade"]);
