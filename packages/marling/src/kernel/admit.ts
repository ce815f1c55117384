// Admit: an input becomes an accepted one, or nothing at all.
//   A1  hooks see an input before it is accepted; a rejected one leaves nothing behind.
//   A2  the same key (or turn id) with the same content is the same turn; with other content it is a conflict.
//   A4  an input that is larger than a commit may be is refused before anything of it is stored.
//   A3  live plugin inputs and extensions are taken only by a store that does not outlive the process.

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeAttachmentSource } from "../model/attachment.ts";
import { turnId } from "../model/ids.ts";
import { canonicalJson, decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { type Message, textMessage, toMessage } from "../model/message.ts";
import type { DeliveryName } from "../model/trigger-store.ts";
import type { TurnInput } from "../model/turn.ts";
import type { Admission, InboxRow, LeaseRequest } from "../store/contract.ts";
import { isLarger } from "./commit-size.ts";
import { readKey } from "./read-key.ts";
import type { ResidentSession } from "./resident-session.ts";

export interface AdmitOptions {
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly pluginInputs?: Readonly<Record<string, unknown>> | undefined;
  readonly extension?: unknown;
  readonly outputSchema?: JsonObject | undefined;
  readonly deliver?: "active_turn" | undefined;
  /** What it comes from, when that is not a user: then its words are not the user's. */
  readonly cause?: InputCause | undefined;
  /** The delivery of an occurrence that it is: made when the input is accepted. */
  readonly delivery?: DeliveryName | undefined;
  /** Asked for with the input. */
  readonly lease?: LeaseRequest;
  /** What its turn begins with, by address. */
  readonly plan?: { readonly ref: string } | undefined;
  /** Called before an input that is not known yet is accepted; what it throws refuses it. */
  readonly beforeNew?: (() => Promise<void>) | undefined;
}

/** Something beside users that has something to say. */
export interface InputCause {
  readonly kind: string;
  readonly id: string;
}

export type Admitted = Admission;

export async function admit(
  session: ResidentSession,
  submitted: unknown,
  options: AdmitOptions,
): Promise<Admitted> {
  const asSubmitted = decodeTurnInput(submitted);
  const key = readKey(options.key);
  const stored = storedInputs(session, options);
  const { store } = session.parts;
  const wanted = {
    sessionId: session.id,
    submitted: { input: comparable(session, asSubmitted), ...stored },
    ...(key === undefined ? {} : { key }),
    ...(options.id === undefined ? {} : { turnId: turnId(options.id) }),
    ...(options.deliver === undefined ? {} : { deliver: options.deliver }),
  };
  // Hooks are asked about an input once: what was accepted stays accepted.
  const isAsked = session.plugins.hasInputHooks || options.beforeNew !== undefined;
  const known = isAsked ? await store.find(wanted) : undefined;
  if (known !== undefined) return { status: "duplicate", row: known };
  await options.beforeNew?.();
  const input = await acceptInput(session, asSubmitted);
  const schema = options.outputSchema === undefined ? {} : { outputSchema: options.outputSchema };
  const cause = options.cause === undefined ? {} : { cause: options.cause as unknown as Json };
  const accepted = { input: input as unknown as Json, ...stored, ...schema, ...cause };
  const plan = options.plan === undefined ? {} : { plan: { ref: options.plan.ref } };
  return store.admit({ ...wanted, input: accepted, ...plan }, options.lease, options.delivery);
}

/**
 * What is kept of an input as it was submitted, to recognise it again. Where hooks may change inputs it is a digest: what
 * they took out of one is stored nowhere.
 */
export function comparable({ plugins }: ResidentSession, input: TurnInput): Json {
  const json = input as unknown as Json;
  return plugins.hasInputHooks ? { digest: sha256(canonicalJson(json)) } : json;
}

/** Reads what a caller gave as input; a string is short for its text. */
export function decodeTurnInput(raw: unknown, where = "input"): TurnInput {
  const json: Json = typeof raw === "string" ? { text: raw } : decodeJson(raw, where);
  if (!isJsonObject(json)) throw refuse(where, "a string, or an object with `text` and `attachments`");
  const unknown = Object.keys(json).find((key) => key !== "text" && key !== "attachments");
  if (unknown !== undefined)
    throw refuse(`${where}.${unknown}`, "no other member than `text` and `attachments`");
  const { text, attachments } = json as JsonObject;
  if (text !== undefined && typeof text !== "string") throw refuse(`${where}.text`, "a string");
  if (attachments !== undefined && !Array.isArray(attachments))
    throw refuse(`${where}.attachments`, "an array");
  const sources = (attachments as readonly Json[] | undefined)?.map((source, index) =>
    decodeAttachmentSource(source, `${where}.attachments[${index}]`),
  );
  return Object.freeze({
    ...(text === undefined ? {} : { text }),
    ...(sources === undefined ? {} : { attachments: sources }),
  });
}

/** The message that an accepted input becomes. */
export function inputMessage(row: InboxRow): Message {
  const { text = "", attachments = [] } = (row.input as unknown as { readonly input: TurnInput }).input;
  const { cause } = row.input as { readonly cause?: Json };
  const role = cause === undefined ? "user" : "system";
  const id = `m_${row.inputId}`;
  if (attachments.length === 0) return textMessage(id, role, text);
  const parts = [{ kind: "text", text }, ...attachments.map((source) => ({ kind: "attachment", source }))];
  return toMessage({ role, parts: text === "" ? parts.slice(1) : parts }, id);
}

/** Shows an input to the hooks that may replace or reject it, and refuses one that no commit could hold. */
export async function acceptInput(session: ResidentSession, input: TurnInput): Promise<TurnInput> {
  const accepted = session.plugins.hasInputHooks ? await askInputHooks(session, input) : input;
  refuseLarge(session, accepted);
  return accepted;
}

/** Inline bytes become blobs, which are no part of a commit. */
function refuseLarge({ id, parts }: ResidentSession, { text = "", attachments = [] }: TurnInput): void {
  const kept = attachments.filter(({ kind }) => kind !== "inline");
  if (!isLarger([text, kept], parts.commitBytes)) return;
  const message = `session ${id}: expected an input of at most ${parts.commitBytes} bytes, found a larger one; see the option commitBudget`;
  const details = { sessionId: id, budgetBytes: parts.commitBytes };
  throw new MarlingError("commit_too_large", message, { details });
}

async function askInputHooks({ plugins, id }: ResidentSession, input: TurnInput): Promise<TurnInput> {
  const decided = await plugins.transformInput({ sessionId: id, input }, (raw) =>
    decodeTurnInput(raw, "input of a hook"),
  );
  if (decided.kind === "accepted") return decided.input;
  const { code, message, pluginId } = decided;
  if (plugins.hasRuntimeEventHooks)
    await plugins.emitRuntimeEvent({ kind: "input_rejected", sessionId: id, code, message });
  throw new MarlingError(
    "input_rejected",
    `session ${id}: plugin ${pluginId} rejected the input with ${code}: ${message}`,
    { details: { code, pluginId, reason: message } },
  );
}

/** Plugin inputs that are JSON are stored with the input; live ones stay with the turn, where the store allows that. */
function storedInputs(session: ResidentSession, { pluginInputs, extension }: AdmitOptions): JsonObject {
  if (extension !== undefined && session.parts.store.isDurable) {
    throw new MarlingError(
      "live_turn_extension",
      `session ${session.id}: expected no turn extension on a durable store, found one`,
    );
  }
  const plain: { [pluginId: string]: Json } = {};
  for (const [pluginId, value] of Object.entries(pluginInputs ?? {})) {
    if (value === undefined) continue;
    const json = plainOrLive(value);
    if (json !== undefined) plain[pluginId] = json;
    else if (session.parts.store.isDurable) {
      throw new MarlingError(
        "live_plugin_input",
        `session ${session.id}: expected JSON as the input of plugin ${pluginId} on a durable store, found a live value`,
        { details: { pluginId } },
      );
    }
  }
  return Object.keys(plain).length === 0 ? {} : { pluginInputs: plain };
}

function plainOrLive(value: unknown): Json | undefined {
  try {
    return decodeJson(value);
  } catch {
    return undefined; // a live value: what to do with it is the caller's rule
  }
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_input", `${where}: expected ${expected}`, { details: { where } });
}
