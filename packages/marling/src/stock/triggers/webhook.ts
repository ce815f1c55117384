// Webhooks: a request from outside becomes an occurrence. It knows no server: headers and bytes go in, an answer comes out.
//   TR30 2xx is answered when the occurrence is stored, and not before: 202 for a new one, 200 for one that came before.
//        Another payload under a key is 409.
//   TR31 signatures are compared in constant time, over the bytes as they came; one that is missing, wrong or too old
//        is 401, and says nothing about why.
//   TR32 what cannot be read is 400, what is too large 413, and what is wrong on this side 500 without details.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { type Clock, MarlingError, type TriggerAdmin } from "../../index.ts";

export interface WebhookRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** As it came: a signature is over these bytes. */
  readonly body: Uint8Array | string;
}

export interface WebhookResponse {
  readonly status: number;
  readonly body: string;
}

/** An HMAC-SHA256 of the body, or of its time, a dot and the body. */
export interface WebhookSignature {
  /** Several while secrets are changed: one of them is enough. */
  readonly secret: string | readonly string[];
  /** The header with the signature as hex, with or without a name before it, as in `sha256=...` or `t=...,v1=...`. */
  readonly header: string;
  /** The header with the time of the request in seconds; with it, the signature is over time, dot and body. */
  readonly timestampHeader?: string;
  /** How far that time may be from now; five minutes by default. */
  readonly toleranceMs?: number;
}

export interface WebhookOptions {
  readonly triggers: Pick<TriggerAdmin, "emit">;
  readonly source: string;
  /** Without it everybody who reaches the function may say what occurred. */
  readonly verify?: WebhookSignature;
  /** The header that tells requests apart, or how to; by default the digest of the body. */
  readonly key?: string | ((request: WebhookRequest, payload: unknown) => string | undefined);
  readonly topic?: string | ((request: WebhookRequest, payload: unknown) => string | undefined);
  /** What of the body is the payload; by default the body as JSON. */
  readonly payload?: (body: unknown, request: WebhookRequest) => unknown;
  /** 1 MiB by default. */
  readonly maxBytes?: number;
  readonly clock?: Pick<Clock, "now">;
}

const MAX_BYTES = 1024 * 1024;
const TOLERANCE_MS = 5 * 60 * 1000;
const LONGEST_KEY = 512;

/** What a request is answered, thrown where that is known. */
class Answer extends Error {
  readonly response: WebhookResponse;

  constructor(status: number, body: string) {
    super(body);
    this.response = { status, body: JSON.stringify({ error: body }) };
  }
}

/** A function that answers requests of one webhook. */
export function webhook(options: WebhookOptions): (request: WebhookRequest) => Promise<WebhookResponse> {
  const secrets = options.verify === undefined ? [] : secretsOf(options.verify);
  return async (request) => {
    try {
      return await accept(request, options, secrets);
    } catch (thrown) {
      return answerTo(thrown);
    }
  };
}

async function accept(
  request: WebhookRequest,
  options: WebhookOptions,
  secrets: readonly string[],
): Promise<WebhookResponse> {
  const { triggers, source, verify, maxBytes = MAX_BYTES } = options;
  const bytes = typeof request.body === "string" ? Buffer.from(request.body) : Buffer.from(request.body);
  if (bytes.byteLength > maxBytes) throw new Answer(413, `the body has more than ${maxBytes} bytes`);
  if (verify !== undefined && !isSigned(request, bytes, { verify, secrets, now: nowOf(options) }))
    throw new Answer(401, "the signature is missing or wrong");
  const body = parsed(bytes);
  const payload = options.payload === undefined ? body : options.payload(body, request);
  const key = keyOf(request, payload, { given: options.key, bytes });
  const topic = typeof options.topic === "function" ? options.topic(request, payload) : options.topic;
  const event = { source, key, payload, ...(topic === undefined ? {} : { topic }) };
  const { occurrenceId, status } = await triggers.emit(event);
  const isNew = status === "accepted";
  return { status: isNew ? 202 : 200, body: JSON.stringify({ occurrenceId, status }) };
}

function answerTo(thrown: unknown): WebhookResponse {
  if (thrown instanceof Answer) return thrown.response;
  const code = MarlingError.is(thrown) ? thrown.code : undefined;
  if (code === "idempotency_conflict")
    return new Answer(409, "the key was used before with another payload").response;
  if (code === "invalid_trigger_payload" || code === "invalid_json")
    return new Answer(400, "the payload is not what is expected").response;
  return new Answer(500, "the request could not be taken").response;
}

interface Check {
  readonly verify: WebhookSignature;
  readonly secrets: readonly string[];
  readonly now: number;
}

function isSigned(request: WebhookRequest, bytes: Buffer, { verify, secrets, now }: Check): boolean {
  const { header, timestampHeader, toleranceMs = TOLERANCE_MS } = verify;
  const given = headerOf(request, header);
  if (given === undefined) return false;
  let signed = bytes;
  if (timestampHeader !== undefined) {
    const time = headerOf(request, timestampHeader);
    const seconds = timeOf(time, timestampHeader === header);
    if (seconds === undefined || Math.abs(now - Number(seconds) * 1000) > toleranceMs) return false;
    signed = Buffer.concat([Buffer.from(`${seconds}.`), bytes]);
  }
  const expected = secrets.map((secret) => createHmac("sha256", secret).update(signed).digest());
  const signatures = signaturesIn(given);
  // Every one is compared with every other, whichever is the right one.
  return signatures.flatMap((one) => expected.filter((digest) => timingSafeEqual(one, digest))).length > 0;
}

/** The time as it was sent; in a header with several members, the one called `t`. */
function timeOf(header: string | undefined, hasMembers: boolean): string | undefined {
  const text = hasMembers
    ? header
        ?.split(",")
        .find((member) => member.trim().startsWith("t="))
        ?.trim()
        .slice(2)
    : header?.trim();
  return text !== undefined && /^\d{1,12}$/.test(text) ? text : undefined;
}

function signaturesIn(header: string): readonly Buffer[] {
  const members = header.split(",").map((member) => member.trim().replace(/^[A-Za-z0-9_-]+=/, ""));
  return members.filter((hex) => /^[0-9a-f]{64}$/i.test(hex)).map((hex) => Buffer.from(hex, "hex"));
}

function parsed(bytes: Buffer): unknown {
  try {
    return bytes.byteLength === 0
      ? null
      : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Answer(400, "the body is not JSON");
  }
}

function keyOf(
  request: WebhookRequest,
  payload: unknown,
  { given, bytes }: { readonly given: WebhookOptions["key"]; readonly bytes: Buffer },
): string {
  if (given === undefined) return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const key = typeof given === "string" ? headerOf(request, given) : given(request, payload);
  if (typeof key === "string" && key !== "" && key.length <= LONGEST_KEY) return key;
  throw new Answer(400, "the request has no key that tells it from others");
}

/** A header, whatever its case; of several of one name, the first. */
function headerOf({ headers }: WebhookRequest, name: string): string | undefined {
  const wanted = name.toLowerCase();
  for (const [header, value] of Object.entries(headers)) {
    if (header.toLowerCase() !== wanted) continue;
    return typeof value === "string" || value === undefined ? value : value[0];
  }
  return undefined;
}

function secretsOf({ secret }: WebhookSignature): readonly string[] {
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (secrets.length > 0 && secrets.every((one) => typeof one === "string" && one !== "")) return secrets;
  throw new MarlingError("invalid_options", "webhook: option verify.secret: expected one that is not empty", {
    details: { option: "verify.secret" },
  });
}

function nowOf({ clock }: WebhookOptions): number {
  return clock?.now() ?? Date.now();
}
