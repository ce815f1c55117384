// The answer of a model while it arrives: what a wire format says goes in, the response comes out.
//   LA1   a delta costs its part: it goes to the sink and onto its text, and nothing else is made of it.
//   LA24  everything that is kept of an answer is counted before it is kept, and the answer is left at its limits.
//   LN8   a call counts when the wire says that it is complete and the answer has ended. An answer that was limited ends
//         in the middle of what it was at: a call whose arguments are no JSON is then none.

import { type AnswerLimits, AnswerMeter } from "../../model/answer-limits.ts";
import type { Json } from "../../model/json.ts";
import type { FinishReason, ModelFailure, ModelOutcome, ResponsePart } from "../../model/model-response.ts";
import { NO_USAGE, type TokenUsage } from "../../model/usage.ts";
import type { ModelSink } from "../contract.ts";
import { cancelled } from "../failure.ts";
import { brokenOff, type Finish, finishOf, isWhole, unfinished } from "../finish.ts";
import type { ProviderData } from "../prompt-message.ts";
import { replayOf } from "../replay.ts";

export interface DraftedWords {
  readonly kind: "text" | "reasoning";
  text: string;
  metadata: ProviderData | undefined;
}

export interface DraftedCall {
  readonly kind: "tool_call";
  callId: string;
  name: string;
  args: string;
  isComplete: boolean;
  metadata: ProviderData | undefined;
}

export class ResponseDraft {
  /** The name under which replay data is kept. */
  readonly #model: string;
  readonly #sink: ModelSink;
  readonly #parts: (DraftedWords | DraftedCall)[] = [];
  readonly #evidence: { [name: string]: Json } = {};
  #end: { readonly reason: FinishReason | undefined; readonly raw: string } | undefined;
  #failure: ModelFailure | undefined;
  #usage: TokenUsage | undefined;
  readonly #meter: AnswerMeter;

  constructor(model: string, { sink, limits }: { readonly sink: ModelSink; readonly limits: AnswerLimits }) {
    this.#model = model;
    this.#sink = sink;
    this.#meter = new AnswerMeter(limits);
  }

  /** Whether all that counts has been said. */
  get isOver(): boolean {
    return this.#end !== undefined || this.#failure !== undefined;
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Whether a limit was reached: nothing more is read. */
  get isLeft(): boolean {
    return this.#failure?.kind === "answer_limit";
  }

  /** Begins a text or a reasoning; it stands where it was begun. */
  words(kind: DraftedWords["kind"]): DraftedWords {
    const words: DraftedWords = { kind, text: "", metadata: undefined };
    if (this.#within(this.#meter.part())) this.#parts.push(words);
    return words;
  }

  grow(words: DraftedWords, delta: string): void {
    if (delta === "" || !this.keep(delta)) return;
    words.text += delta;
    this.#sink({ kind: words.kind === "text" ? "text_delta" : "reasoning_delta", text: delta });
  }

  call(callId: string, name: string): DraftedCall {
    const call: DraftedCall = {
      kind: "tool_call",
      callId,
      name,
      args: "",
      isComplete: false,
      metadata: undefined,
    };
    if (this.#within(this.#meter.call()) && this.keep(callId + name)) this.#parts.push(call);
    return call;
  }

  /** The arguments of a call go on. */
  growCall(call: DraftedCall, piece: string): void {
    if (this.keep(piece)) call.args += piece;
  }

  /** Counts what is about to be kept; false when the answer is over its limits. */
  keep(piece: string): boolean {
    return this.#within(this.#meter.text(piece));
  }

  #within(isWithin: boolean): boolean {
    if (!isWithin && this.#meter.failure !== undefined) this.fail(this.#meter.failure);
    return isWithin;
  }

  /** The provider gives a reason for the end: how it is known here, and the provider's own word. */
  finish(reason: FinishReason | undefined, raw: string): void {
    this.#end = { reason, raw };
  }

  fail(failure: ModelFailure): void {
    this.#failure ??= failure;
  }

  /** What was used until now, all in all. */
  use(usage: TokenUsage): void {
    this.#usage = usage;
  }

  /** What the provider reports beside the answer. */
  note(name: string, value: Json): void {
    if (this.#within(this.#meter.json(value))) this.#evidence[name] = value;
  }

  /** Tells what was used, while somebody still listens. */
  tellUsage(): void {
    if (this.#usage !== undefined) this.#sink({ kind: "usage", usage: this.#usage });
  }

  cancelled(): ModelOutcome {
    return this.#failed(cancelled());
  }

  /** What the answer came to, after the stream ended. */
  outcome(): ModelOutcome {
    const finish = this.#finish();
    if (this.#failure !== undefined) return this.#failed(this.#failure);
    if (finish?.kind !== "finished") return this.#failed(brokenOff(finish) ?? unfinished());
    const { reason } = finish;
    const cutOff = isWhole(reason) ? this.#parts.find((part) => isCall(part) && !part.isComplete) : undefined;
    if (cutOff !== undefined && isCall(cutOff)) {
      return this.#failed(unfinished(`the arguments of a call of ${cutOff.name} are incomplete`));
    }
    const usage = this.#usage ?? NO_USAGE;
    this.#sink({ kind: "usage", usage });
    const parts = this.#parts.flatMap((part) => this.#said(part, reason));
    return {
      kind: "response",
      response: { parts, usage, finish: reason, evidence: { ...this.#evidence, finish: finish.raw ?? "" } },
    };
  }

  #finish(): Finish | undefined {
    if (this.#end === undefined) return undefined;
    const { reason, raw } = this.#end;
    if (reason === "provider_error") return { kind: "failed", raw };
    return finishOf(reason, raw, this.#parts.some(isCall));
  }

  #failed(failure: ModelFailure): ModelOutcome {
    const used = this.#usage === undefined ? {} : { usage: this.#usage };
    return { kind: "failure", failure: { ...failure, ...used } };
  }

  #said(part: DraftedWords | DraftedCall, reason: FinishReason): readonly ResponsePart[] {
    const { metadata } = part;
    if (part.kind === "tool_call") {
      const { kind, callId, name, args } = part;
      if (!isWhole(reason) && !isJson(args)) return [];
      const kept = metadata === undefined ? {} : { replay: replayOf(this.#model, metadata) };
      return [{ kind, callId, name, args: args === "" ? "{}" : args, ...kept }];
    }
    const { kind, text } = part;
    if (kind === "reasoning") return [{ kind, text, replay: replayOf(this.#model, metadata, text) }];
    return text === "" ? [] : [{ kind, text }];
  }
}

function isCall(part: DraftedWords | DraftedCall): part is DraftedCall {
  return part.kind === "tool_call";
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
