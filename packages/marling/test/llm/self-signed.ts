// A key and a certificate for it, made for one test: Node reads certificates and makes none.

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";

export interface SelfSigned {
  readonly key: string;
  readonly cert: string;
}

/** A certificate of its own authority, for these names and addresses of version 4. */
export function selfSigned(...names: readonly string[]): SelfSigned {
  const { privateKey, publicKey } = generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "der" },
  });
  const algorithm = sequence(der(OID, "2a8648ce3d040302")); // ECDSA with SHA-256
  const holder = sequence(der(0x31, sequence(der(OID, "550403"), der(0x0c, Buffer.from("marling test")))));
  const body = sequence(
    der(0xa0, der(INTEGER, "02")), // version 3
    der(INTEGER, "01"),
    algorithm,
    holder,
    sequence(time("200101000000Z"), time("491231235959Z")),
    holder,
    publicKey,
    der(
      0xa3,
      sequence(extension("551d13", sequence(der(0x01, "ff"))), extension("551d11", alternatives(names))),
    ),
  );
  const signature = sign("sha256", body, createPrivateKey(privateKey));
  const cert = sequence(body, algorithm, der(0x03, "00", signature)).toString("base64");
  return { key: privateKey, cert: `-----BEGIN CERTIFICATE-----\n${cert}\n-----END CERTIFICATE-----\n` };
}

const INTEGER = 0x02;
const OID = 0x06;

/** A value as DER has it: what it is, how long, and its bytes, which are given as such or as hexadecimal digits. */
function der(tag: number, ...contents: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(
    contents.map((one) => (typeof one === "string" ? Buffer.from(one, "hex") : one)),
  );
  const { length } = content;
  const size = length < 0x80 ? [length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...contents: readonly Buffer[]): Buffer {
  return der(0x30, ...contents);
}

function time(text: string): Buffer {
  return der(0x17, Buffer.from(text));
}

function extension(oid: string, value: Buffer): Buffer {
  return sequence(der(OID, oid), der(0x04, value));
}

function alternatives(names: readonly string[]): Buffer {
  const isAddress = (name: string): boolean => /^[\d.]+$/.test(name);
  return sequence(
    ...names.map((name) =>
      isAddress(name) ? der(0x87, Buffer.from(name.split(".").map(Number))) : der(0x82, Buffer.from(name)),
    ),
  );
}
