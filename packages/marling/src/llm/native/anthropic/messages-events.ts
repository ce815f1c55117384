// The events of a streamed answer of Anthropic's Messages.

import type { FinishReason } from "../../../model/model-response.ts";
import { NO_USAGE, type TokenUsage } from "../../../model/usage.ts";
import { failureOf } from "../../failure.ts";
import { tokenCount } from "../../finish.ts";
import { membersOf } from "../../members-of.ts";
import type { EventReader } from "../native-model.ts";
import type { DraftedCall, DraftedWords, ResponseDraft } from "../response-draft.ts";

type Members = { readonly [name: string]: unknown };

/** Where an event has what begins. */
const BLOCK = "content_block";

const REASONS: { readonly [word: string]: FinishReason } = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  tool_use: "tool_use",
  max_tokens: "output_limit",
  refusal: "content_filter",
};

export function messagesEvents(draft: ResponseDraft): EventReader {
  const answer = new MessagesAnswer(draft);
  return (event) => answer.take(event);
}

class MessagesAnswer {
  readonly #draft: ResponseDraft;
  /** The blocks that have begun and not ended. Those that the provider keeps to itself are not among them. */
  readonly #open = new Map<unknown, DraftedWords | DraftedCall>();
  #usage: TokenUsage = NO_USAGE;

  constructor(draft: ResponseDraft) {
    this.#draft = draft;
  }

  take(event: Members): void {
    switch (event.type) {
      case "content_block_delta":
        this.#grow(this.#open.get(event.index), membersOf(event.delta));
        break;
      case "content_block_start":
        this.#begin(event.index, membersOf(event[BLOCK]));
        break;
      case "content_block_stop":
        this.#end(event.index);
        break;
      case "message_start":
        this.#start(membersOf(event.message));
        break;
      case "message_delta":
        this.#finish(event);
        break;
      case "error":
        this.#draft.fail(failureOf(event));
    }
  }

  #start({ id, model, usage }: Members): void {
    if (typeof id === "string") this.#draft.note("responseId", id);
    if (typeof model === "string") this.#draft.note("model", model);
    this.#use(membersOf(usage));
  }

  #begin(index: unknown, block: Members): void {
    const { type } = block;
    if (type === "text") this.#words(index, "text", block.text);
    if (type === "thinking") {
      this.#words(index, "reasoning", block.thinking);
      this.#sign(this.#open.get(index), block.signature);
    }
    if (type === "redacted_thinking" && typeof block.data === "string" && this.#draft.keep(block.data)) {
      this.#draft.words("reasoning").metadata = { anthropic: { redactedData: block.data } };
    }
    if (type === "tool_use") this.#call(index, block);
  }

  #call(index: unknown, { id, name, input }: Members): void {
    const call = this.#draft.call(String(id ?? ""), String(name ?? ""));
    this.#open.set(index, call);
    if (Object.keys(membersOf(input)).length > 0) this.#draft.growCall(call, JSON.stringify(input));
  }

  #words(index: unknown, kind: DraftedWords["kind"], text: unknown): void {
    const words = this.#draft.words(kind);
    this.#open.set(index, words);
    if (typeof text === "string") this.#draft.grow(words, text);
  }

  #grow(part: DraftedWords | DraftedCall | undefined, delta: Members): void {
    if (part === undefined) return;
    if (part.kind === "tool_call") {
      if (typeof delta.partial_json === "string") this.#draft.growCall(part, delta.partial_json);
      return;
    }
    const text = part.kind === "text" ? delta.text : delta.thinking;
    if (typeof text === "string") this.#draft.grow(part, text);
    else this.#sign(part, delta.signature);
  }

  #sign(part: DraftedWords | DraftedCall | undefined, piece: unknown): void {
    if (part?.kind !== "reasoning" || typeof piece !== "string" || piece === "") return;
    if (!this.#draft.keep(piece)) return;
    const known = part.metadata?.anthropic?.signature;
    part.metadata = { anthropic: { signature: `${typeof known === "string" ? known : ""}${piece}` } };
  }

  #end(index: unknown): void {
    const part = this.#open.get(index);
    if (part?.kind === "tool_call") part.isComplete = true;
    this.#open.delete(index);
  }

  #finish({ delta, usage }: Members): void {
    this.#use(membersOf(usage));
    const { stop_reason: raw } = membersOf(delta);
    if (typeof raw === "string") this.#draft.finish(REASONS[raw], raw);
  }

  /** Counts are of the whole answer so far: what an event does not name is as it was. */
  #use(usage: Members): void {
    const count = (value: unknown, known: number): number =>
      typeof value === "number" ? tokenCount(value) : known;
    const { input, output, cacheRead, cacheWrite, reasoning } = this.#usage;
    this.#usage = {
      input: count(usage.input_tokens, input),
      output: count(usage.output_tokens, output),
      cacheRead: count(usage.cache_read_input_tokens, cacheRead),
      cacheWrite: count(usage.cache_creation_input_tokens, cacheWrite),
      reasoning: count(membersOf(usage.output_tokens_details).thinking_tokens, reasoning),
    };
    this.#draft.use(this.#usage);
  }
}
