// Collects the parts of a stream into a response, and hands deltas on as they come.
//   LA1  a delta costs its part: no promise, no copy of what came before.
//   LA2  a call counts when the provider says that it is complete; pieces of one are never a call.
//   LA24 everything that is kept of an answer, here or by the provider, is counted, and the answer is left at its limits.
//   LA4  data of the provider stays on the part it belongs to, put together from all pieces.

import { utf8Length } from "../../base/utf8-length.ts";
import { type AnswerLimits, AnswerMeter } from "../../model/answer-limits.ts";
import { decodeJson, type Json, type JsonObject } from "../../model/json.ts";
import type { ModelFailure, ModelOutcome, ResponsePart } from "../../model/model-response.ts";
import type { TokenUsage } from "../../model/usage.ts";
import type { ModelSink } from "../contract.ts";
import { failureOf } from "../failure.ts";
import { brokenOff, type Finish, isWhole, unfinished } from "../finish.ts";
import { membersOf } from "../members-of.ts";
import type { ProviderData } from "../prompt-message.ts";
import { addMetadata, replayOf } from "../replay.ts";
import { readFinish, readUsage } from "./finish.ts";

interface Words {
  readonly kind: "text" | "reasoning";
  text: string;
  metadata: ProviderData | undefined;
}

/** A call of which only pieces came so far. */
interface BegunCall {
  readonly name: string;
  /** What was counted of it. */
  bytes: number;
  /** Whether it is not one that the provider runs itself. */
  readonly isOurs: boolean;
}

type CallPart = Extract<ResponsePart, { kind: "tool_call" }>;
type StreamPart = { readonly [name: string]: unknown };

export class ResponseBuilder {
  /** The name under which replay data is kept. */
  readonly #model: string;
  readonly #sink: ModelSink;
  readonly #parts: (Words | CallPart)[] = [];
  /** The texts and reasonings that still grow, by kind and id. */
  readonly #growing = { text: new Map<unknown, Words>(), reasoning: new Map<unknown, Words>() };
  /** Calls of which only pieces came so far. */
  readonly #begun = new Map<unknown, BegunCall>();
  readonly #evidence: { [name: string]: Json } = {};
  readonly #lists = new Map<string, Json[]>();
  readonly #meter: AnswerMeter;
  #finish: Finish | undefined;
  #failure: ModelFailure | undefined;
  #usage: TokenUsage | undefined;

  constructor(model: string, { sink, limits }: { readonly sink: ModelSink; readonly limits: AnswerLimits }) {
    this.#model = model;
    this.#sink = sink;
    this.#meter = new AnswerMeter(limits);
  }

  /** Whether a limit was reached: nothing more is read. */
  get isLeft(): boolean {
    return this.#failure?.kind === "answer_limit";
  }

  /** Whether the stream has said all that counts. */
  get isOver(): boolean {
    return this.#finish !== undefined || this.#failure !== undefined;
  }

  /** Takes the next part. Kinds that are not known, or that nobody here has a use for, are left out. */
  take(raw: unknown): void {
    if (this.isLeft) return;
    this.#take(membersOf(raw));
    if (this.#meter.failure !== undefined && this.#finish === undefined)
      this.#failure ??= this.#meter.failure;
  }

  #take(part: StreamPart): void {
    switch (part.type) {
      case "text-delta":
        this.#grow("text", part);
        break;
      case "reasoning-delta":
        this.#grow("reasoning", part);
        break;
      case "text-start":
        this.#start("text", part);
        break;
      case "reasoning-start":
        this.#start("reasoning", part);
        break;
      case "text-end":
        this.#end("text", part);
        break;
      case "reasoning-end":
        this.#end("reasoning", part);
        break;
      case "tool-input-start":
        this.#begin(part);
        break;
      case "tool-input-delta":
        this.#growInput(part);
        break;
      case "tool-call":
        this.#call(part);
        break;
      case "finish":
        this.#finishWith(part);
        break;
      case "error":
        this.#failure ??= failureOf(part.error);
        break;
      default:
        this.#note(part);
    }
  }

  /** Adds to what is reported beside the answer. */
  warn(warnings: readonly Json[]): void {
    if (warnings.length > 0) this.#list("warnings", warnings);
  }

  /** What the stream came to, after it ended. */
  outcome(): ModelOutcome {
    const failure = this.#failure ?? this.#cutOff();
    if (failure !== undefined || this.#finish?.kind !== "finished") {
      return { kind: "failure", failure: { ...(failure ?? unfinished()), ...this.#used() } };
    }
    const { reason, raw } = this.#finish;
    const evidence: JsonObject = {
      ...this.#evidence,
      ...Object.fromEntries(this.#lists),
      ...(raw === undefined ? {} : { finish: raw }),
    };
    return {
      kind: "response",
      response: {
        parts: this.#parts.map((part) => (part.kind === "tool_call" ? part : this.#said(part))),
        usage: this.#usage ?? readUsage(undefined),
        finish: reason,
        ...(Object.keys(evidence).length === 0 ? {} : { evidence }),
      },
    };
  }

  #used(): Pick<ModelFailure, "usage"> {
    return this.#usage === undefined ? {} : { usage: this.#usage };
  }

  #start(kind: Words["kind"], part: StreamPart): Words {
    const words: Words = { kind, text: "", metadata: addMetadata(undefined, part.providerMetadata) };
    if (this.#meter.part() && this.#counts(part)) this.#parts.push(words);
    this.#growing[kind].set(part.id, words);
    return words;
  }

  #grow(kind: Words["kind"], part: StreamPart): void {
    const words = this.#growing[kind].get(part.id) ?? this.#start(kind, part);
    if (part.providerMetadata !== undefined && this.#counts(part))
      words.metadata = addMetadata(words.metadata, part.providerMetadata);
    const { delta } = part;
    if (typeof delta !== "string" || delta === "" || !this.#meter.text(delta)) return;
    words.text += delta;
    this.#sink({ kind: kind === "text" ? "text_delta" : "reasoning_delta", text: delta });
  }

  #end(kind: Words["kind"], part: StreamPart): void {
    const words = this.#growing[kind].get(part.id);
    if (words === undefined || !this.#counts(part)) return;
    words.metadata = addMetadata(words.metadata, part.providerMetadata);
    this.#growing[kind].delete(part.id);
  }

  /** What the provider holds of a part that has data of its own. */
  #counts({ providerMetadata }: StreamPart): boolean {
    return providerMetadata === undefined || this.#meter.json(providerMetadata);
  }

  /** Calls that the provider runs itself are counted, too: it holds their arguments. */
  #begin({ id, toolName, providerExecuted }: StreamPart): void {
    const name = String(toolName);
    if (!this.#meter.call() || !this.#meter.text(name)) return;
    this.#begun.set(id, { name, bytes: utf8Length(name), isOurs: providerExecuted !== true });
  }

  #growInput({ id, delta }: StreamPart): void {
    const begun = this.#begun.get(id);
    if (typeof delta !== "string" || !this.#meter.text(delta) || begun === undefined) return;
    begun.bytes += utf8Length(delta);
  }

  #call(part: StreamPart): void {
    const begun = this.#begun.get(part.toolCallId);
    this.#begun.delete(part.toolCallId);
    if (begun === undefined) this.#meter.call();
    if (part.providerExecuted === true) return;
    const metadata = addMetadata(undefined, part.providerMetadata);
    const { input } = part;
    const args = typeof input === "string" ? input : JSON.stringify(input ?? {});
    const name = String(part.toolName);
    const callId = String(part.toolCallId ?? "");
    const bytes = utf8Length(args) + utf8Length(name) + utf8Length(callId);
    if (!this.#meter.bytes(Math.max(0, bytes - (begun?.bytes ?? 0))) || !this.#counts(part)) return;
    this.#parts.push({
      kind: "tool_call",
      callId,
      name,
      args,
      ...(metadata === undefined ? {} : { replay: replayOf(this.#model, metadata) }),
    });
  }

  #finishWith(part: StreamPart): void {
    this.#usage = readUsage(part.usage);
    this.#finish = readFinish(
      part,
      this.#parts.some(({ kind }) => kind === "tool_call"),
    );
    this.#sink({ kind: "usage", usage: this.#usage });
  }

  /** Why what came is not a whole answer. */
  #cutOff(): ModelFailure | undefined {
    const finish = this.#finish;
    if (finish?.kind !== "finished") return brokenOff(finish);
    const cut = [...this.#begun.values()].find(({ isOurs }) => isOurs);
    if (!isWhole(finish.reason) || cut === undefined) return undefined;
    return unfinished(`the arguments of a call of ${cut.name} are incomplete`);
  }

  #said({ kind, text, metadata }: Words): ResponsePart {
    if (kind === "reasoning") return { kind, text, replay: replayOf(this.#model, metadata, text) };
    if (metadata === undefined) return { kind, text };
    const phase = Object.values(metadata).find((data) => data.phase !== undefined)?.phase;
    return {
      kind,
      text,
      ...(phase === "commentary" || phase === "final_answer" ? { phase } : {}),
      replay: replayOf(this.#model, metadata, text),
    };
  }

  #note(part: StreamPart): void {
    if (part.type === "stream-start" && Array.isArray(part.warnings)) this.#keep("warnings", part.warnings);
    if (part.type === "source") this.#keep("sources", [part]);
    if (part.type === "file") this.#keep("files", [fileOf(part)]);
    if (part.type !== "response-metadata") return;
    if (typeof part.id === "string" && this.#meter.text(part.id)) this.#evidence.responseId = part.id;
    if (typeof part.modelId === "string" && this.#meter.text(part.modelId))
      this.#evidence.model = part.modelId;
  }

  #keep(name: string, values: readonly unknown[]): void {
    const kept = values.flatMap((value) => jsonOf(value));
    if (kept.length > 0) this.#list(name, kept);
  }

  #list(name: string, values: readonly Json[]): void {
    const known = this.#lists.get(name) ?? [];
    this.#lists.set(name, known);
    for (const value of values) if (this.#meter.part() && this.#meter.json(value)) known.push(value);
  }
}

/** A file that a model made: bytes or base64, tagged in specification v4. */
function fileOf({ mediaType, data }: StreamPart): JsonObject | undefined {
  const tagged = membersOf(data);
  const given = tagged.type === "data" ? tagged.data : data;
  if (typeof mediaType !== "string") return undefined;
  if (typeof given === "string") return { mediaType, base64: given };
  if (given instanceof Uint8Array) return { mediaType, base64: Buffer.from(given).toString("base64") };
  return tagged.url instanceof URL ? { mediaType, url: tagged.url.href } : undefined;
}

/** What is no JSON is not reported. */
function jsonOf(value: unknown): readonly Json[] {
  try {
    return value === undefined ? [] : [decodeJson(value, "stream part")];
  } catch {
    return [];
  }
}
