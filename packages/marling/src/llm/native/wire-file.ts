// Files of a prompt as the wire formats tell of them.

import type { FilePart, FilePartV4, TextPart } from "../prompt-message.ts";

/** The native adapters build their prompts by this specification. */
export const SPECIFICATION = "v4";

/** The data of a file; prompts are built here with files of specification v4 only. */
export function dataOf({ data }: FilePart): FilePartV4["data"] {
  return data as FilePartV4["data"]; // By the specification that the prompt was built for.
}

export function base64Of(data: Uint8Array | string): string {
  return typeof data === "string"
    ? data
    : Buffer.from(data.buffer, data.byteOffset, data.length).toString("base64");
}

/** What stands for a file that the wire format cannot say. */
export function notShown({ mediaType }: FilePart): TextPart {
  return {
    type: "text",
    text: `[attachment ${mediaType} is not shown: this model does not take such files]`,
  };
}
