// What a file holds, told by how it begins: text, an image that a model can look at, or something else.

export type ContentKind =
  | { readonly kind: "text" }
  | { readonly kind: "image"; readonly mediaType: string }
  | { readonly kind: "binary"; readonly what: string };

/** How many bytes tell. */
export const TELLING_BYTES = 8_192;

interface Signature {
  readonly at?: number;
  readonly bytes: string;
  readonly content: ContentKind;
}

const image = (mediaType: string): ContentKind => ({ kind: "image", mediaType });
const binary = (what: string): ContentKind => ({ kind: "binary", what });

const SIGNATURES: readonly Signature[] = [
  { bytes: "89504e470d0a1a0a", content: image("image/png") },
  { bytes: "ffd8ff", content: image("image/jpeg") },
  { bytes: "474946383761", content: image("image/gif") },
  { bytes: "474946383961", content: image("image/gif") },
  { at: 8, bytes: "57454250", content: image("image/webp") },
  { bytes: "255044462d", content: binary("a PDF document") },
  { bytes: "504b0304", content: binary("a zip archive") },
  { bytes: "1f8b", content: binary("gzip data") },
  { bytes: "7f454c46", content: binary("an ELF program") },
  { bytes: "53514c69746520666f726d6174203300", content: binary("an SQLite database") },
  { bytes: "fffe", content: binary("UTF-16 text") },
  { bytes: "feff", content: binary("UTF-16 text") },
];

/** Judges a file by its first bytes; a NUL byte among them is what makes an unknown file binary. */
export function contentKind(start: Buffer): ContentKind {
  const known = SIGNATURES.find(({ at = 0, bytes }) => {
    const wanted = Buffer.from(bytes, "hex");
    return start.subarray(at, at + wanted.length).equals(wanted);
  });
  if (known !== undefined) return known.content;
  return start.subarray(0, TELLING_BYTES).includes(0) ? binary("binary data") : { kind: "text" };
}
