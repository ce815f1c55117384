import { hash } from "node:crypto";

/** SHA-256 of a text or of bytes, as lower-case hex. */
export function sha256(data: string | Uint8Array): string {
  return hash("sha256", data, "hex");
}

/** SHA-256 of a text or of bytes, as bytes. */
export function sha256Bytes(data: string | Uint8Array): Uint8Array {
  return hash("sha256", data, "buffer");
}

/** SHA-256 of a text or of bytes, as base64url: four signs for three bytes. */
export function sha256Text(data: string | Uint8Array): string {
  return hash("sha256", data, "base64url");
}
