// A model port on a wire of its own: what the wire formats have in common.
//   LA6   nothing is retried here: that is the kernel's.
//   LN9   keys are in headers and nowhere else: no failure holds one, whatever a server says.

import { secretsInHeaders, secretsInUrl } from "../../base/secrets.ts";
import { unreachable } from "../../base/unreachable.ts";
import { type AnswerLimits, DEFAULT_ANSWER_LIMITS } from "../../model/answer-limits.ts";
import type { Json } from "../../model/json.ts";
import type { ModelFailure, ModelOutcome } from "../../model/model-response.ts";
import { shownFailure } from "../../model/shown-failure.ts";
import { eventTooLong, longestEvent } from "../answer-bytes.ts";
import type { PromptSite } from "../build-prompt.ts";
import { unknownParameters } from "../call-parameters.ts";
import type { ModelCallOptions, ModelPort, ModelRequest } from "../contract.ts";
import { cancelled, failureOf } from "../failure.ts";
import { membersOf } from "../members-of.ts";
import { EventParser, eventOf } from "./event-parser.ts";
import type { BodyReader, PostEnd, PostTarget } from "./post.ts";
import { ResponseDraft } from "./response-draft.ts";
import { SseParser } from "./sse-parser.ts";

/** A request as it goes over the wire. */
export interface WireMessage {
  readonly body: string;
  /** Headers that this request needs beside those of the model. */
  readonly headers?: Readonly<Record<string, string>>;
  /** What of the request could not be said. */
  readonly warnings: readonly Json[];
}

/** Reads the events of an answer into a draft. */
export type EventReader = (event: { readonly [name: string]: unknown }) => void;

/** What tells one wire format from another. */
export interface WireFormat {
  write(request: ModelRequest, site: PromptSite): Promise<WireMessage>;
  read(draft: ResponseDraft): EventReader;
}

export interface NativeModel extends Pick<ModelPort, "id" | "contextWindow" | "maxOutputTokens"> {
  readonly target: PostTarget;
  readonly format: WireFormat;
  /** Sent with every request, by lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

const NONE_WITHHELD: ReadonlySet<string> = new Set();

export function nativeModel(model: NativeModel): ModelPort {
  const { id, contextWindow, maxOutputTokens } = model;
  return {
    id,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    call: async (request, site) => {
      const headers = headersOf(model, request);
      const { url } = model.target;
      try {
        return withoutSecrets(await callModel(model, { request, headers }, site), { headers, url });
      } catch (thrown) {
        const failure = site.signal.aborted ? cancelled() : failureOf(thrown);
        return withoutSecrets({ kind: "failure", failure }, { headers, url });
      }
    },
  };
}

function headersOf(model: NativeModel, { headers }: ModelRequest): Readonly<Record<string, string>> {
  return Object.keys(headers).length === 0 ? model.headers : { ...model.headers, ...lowerCased(headers) };
}

/** By lower-case names, so that one header is not sent under two spellings. */
export function lowerCased(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

async function callModel(
  { id, target, format }: NativeModel,
  {
    request,
    headers,
  }: { readonly request: ModelRequest; readonly headers: Readonly<Record<string, string>> },
  { sink, signal, blobs, limits = DEFAULT_ANSWER_LIMITS }: ModelCallOptions,
): Promise<ModelOutcome> {
  const draft = new ResponseDraft(id, { sink, limits });
  const { body, headers: extra, warnings } = await format.write(request, { blobs, withheld: NONE_WITHHELD });
  const unknown = unknownParameters(request.parameters).map((name) => ({ type: "unknown_parameter", name }));
  if (unknown.length + warnings.length > 0) draft.note("warnings", [...unknown, ...warnings]);
  const reader = new AnswerReader(draft, { read: format.read(draft), limits });
  const end = await target.post({ headers: { ...extra, ...headers }, body }, { reader, signal });
  return conclude(end, { reader, draft, host: target.url.hostname });
}

interface AnswerReading {
  readonly read: EventReader;
  readonly limits: AnswerLimits;
}

/** The events of an answer, out of its bytes. */
class AnswerReader implements BodyReader {
  readonly #draft: ResponseDraft;
  readonly #limits: AnswerLimits;
  readonly #parser: SseParser;
  #isDone = false;

  constructor(draft: ResponseDraft, { read, limits }: AnswerReading) {
    this.#draft = draft;
    this.#limits = limits;
    const events = new EventParser();
    this.#parser = new SseParser({
      longestEvent: longestEvent(limits),
      onData: (data) => {
        if (data === "[DONE]") this.#isDone = true;
        if (draft.hasFailed || this.#isDone || data === "") return;
        const event = events.parse(data);
        if (event !== undefined) read(event);
        else if (!draft.isOver) draft.fail(malformed());
      },
    });
  }

  get isOver(): boolean {
    return this.#isDone || this.#draft.isOver;
  }

  take(chunk: Uint8Array): boolean {
    if (this.#parser.push(chunk)) return !this.#draft.isLeft;
    this.#draft.fail(eventTooLong(this.#limits));
    return false;
  }

  end(): void {
    this.#parser.end();
  }

  abandon(): void {
    this.#isDone = true; // Nothing of the same read is shown behind an abort.
    if (!this.#draft.isOver) this.#draft.tellUsage();
  }
}

function malformed(): ModelFailure {
  const message = "the stream has an event that is no JSON";
  return { kind: "truncated_stream", message, retryable: true };
}

function conclude(
  end: PostEnd,
  {
    reader,
    draft,
    host,
  }: { readonly reader: AnswerReader; readonly draft: ResponseDraft; readonly host: string },
): ModelOutcome {
  switch (end.kind) {
    case "ended":
      reader.end();
      return draft.outcome();
    case "refused":
      return { kind: "failure", failure: refusalOf(end) };
    case "cancelled":
      return draft.isOver ? draft.outcome() : draft.cancelled();
    case "broken":
      if (!draft.isOver) draft.fail(breakOf(end.thrown, host));
      return draft.outcome();
    case "silent":
      if (!draft.isOver) draft.fail({ kind: "timeout", message: end.message, retryable: true });
      return draft.outcome();
    default:
      return unreachable(end);
  }
}

/** Errors of connections do not all say what they are of, and some say nothing. */
function breakOf(thrown: unknown, host: string): ModelFailure {
  const failure = failureOf(thrown);
  if (failure.kind !== "network" && failure.kind !== "timeout") return failure;
  const said = failure.message === "" ? String(membersOf(thrown).code) : failure.message;
  return { ...failure, message: `the connection to ${host} failed: ${said}` };
}

function refusalOf({ status, headers, body }: Extract<PostEnd, { kind: "refused" }>): ModelFailure {
  const { error, message, detail } = eventOf(body) ?? {};
  const said = [membersOf(error).message, error, message, detail].find((text) => typeof text === "string");
  const fallback =
    status < 300 ? "expected a stream of events, found a whole answer" : `the server answered ${status}`;
  return failureOf({
    message: typeof said === "string" && said !== "" ? said : fallback,
    // An error that comes with a status of success is judged by its words.
    ...(status < 300 ? {} : { statusCode: status }),
    responseHeaders: headers,
    responseBody: body,
  });
}

function withoutSecrets(
  outcome: ModelOutcome,
  { headers, url }: { readonly headers: Readonly<Record<string, string>>; readonly url: URL },
): ModelOutcome {
  if (outcome.kind === "response") return outcome;
  const secrets = [...secretsInHeaders(Object.entries(headers)), ...secretsInUrl(url.href)];
  return { kind: "failure", failure: shownFailure(outcome.failure, secrets) };
}
