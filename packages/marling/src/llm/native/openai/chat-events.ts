// The events of a streamed Chat Completion.
//   LN10  a call belongs to its index. An id that is not the one there begins another call, an index that is missing is
//         that of the call before: servers that say they are compatible do both.

import { decodeJson } from "../../../model/json.ts";
import type { FinishReason } from "../../../model/model-response.ts";
import type { TokenUsage } from "../../../model/usage.ts";
import { failureOf } from "../../failure.ts";
import { tokenCount } from "../../finish.ts";
import { membersOf } from "../../members-of.ts";
import type { ProviderData } from "../../prompt-message.ts";
import type { EventReader } from "../native-model.ts";
import type { DraftedCall, DraftedWords, ResponseDraft } from "../response-draft.ts";
import type { ReasoningField } from "./chat-messages.ts";

type Members = { readonly [name: string]: unknown };

const REASONS: { readonly [word: string]: FinishReason } = {
  stop: "stop",
  tool_calls: "tool_use",
  function_call: "tool_use",
  length: "output_limit",
  content_filter: "content_filter",
  error: "provider_error",
};

const FIELDS: { readonly [K in ReasoningField]: ProviderData } = {
  reasoning_content: { openai: { field: "reasoning_content" } },
  reasoning: { openai: { field: "reasoning" } },
};

export function chatEvents(draft: ResponseDraft): EventReader {
  const answer = new ChatAnswer(draft);
  return (event) => answer.take(event);
}

class ChatAnswer {
  readonly #draft: ResponseDraft;
  readonly #calls: DraftedCall[] = [];
  readonly #callAt = new Map<unknown, DraftedCall>();
  #words: DraftedWords | undefined;
  #isKnown = false;

  constructor(draft: ResponseDraft) {
    this.#draft = draft;
  }

  take(event: Members): void {
    const { choices, usage, error } = event;
    if (error !== undefined && error !== null) this.#draft.fail(errorOf(event));
    if (!this.#isKnown) this.#identify(event);
    if (usage !== undefined && usage !== null) this.#draft.use(usageOf(usage));
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
    if (choice === undefined) return;
    const { delta, finish_reason: reason } = membersOf(choice);
    if (typeof delta === "object" && delta !== null) this.#grow(delta as Members);
    if (typeof reason === "string") this.#finish(reason);
  }

  #grow(delta: Members): void {
    const { content, reasoning_content, reasoning, refusal, tool_calls } = delta;
    if (typeof reasoning_content === "string") this.#reason(reasoning_content, "reasoning_content");
    else if (typeof reasoning === "string") this.#reason(reasoning, "reasoning");
    if (typeof content === "string") this.#say(content);
    if (typeof refusal === "string") this.#say(refusal);
    if (Array.isArray(tool_calls)) this.#callAll(tool_calls);
  }

  #say(delta: string): void {
    if (delta === "") return;
    if (this.#words?.kind !== "text") this.#words = this.#draft.words("text");
    this.#draft.grow(this.#words, delta);
  }

  #reason(delta: string, field: ReasoningField): void {
    if (delta === "") return;
    if (this.#words?.kind !== "reasoning") {
      this.#words = this.#draft.words("reasoning");
      this.#words.metadata = FIELDS[field];
    }
    this.#draft.grow(this.#words, delta);
  }

  #callAll(calls: readonly unknown[]): void {
    for (const call of calls) {
      if (this.#draft.isLeft) return;
      this.#call(membersOf(call));
    }
  }

  #call({ index, id, function: called, extra_content: extra }: Members): void {
    const { name, arguments: args } = membersOf(called);
    const given = typeof id === "string" ? id : "";
    const known = index === undefined ? this.#calls.at(-1) : this.#callAt.get(index);
    const isOther = known === undefined || (given !== "" && known.callId !== "" && given !== known.callId);
    const call = isOther ? this.#draft.call(given, "") : known;
    if (isOther) this.#calls.push(call);
    if (isOther) this.#callAt.set(index, call);
    if (call.callId === "") call.callId = given;
    if (typeof name === "string" && name !== call.name && this.#draft.keep(name)) call.name += name;
    if (typeof args === "string") this.#draft.growCall(call, args);
    else if (typeof args === "object" && args !== null) this.#replace(call, JSON.stringify(args));
    if (extra !== undefined && extra !== null && this.#draft.keep(JSON.stringify(extra))) {
      call.metadata = { openai: { extraContent: decodeJson(extra, "extra_content") } };
    }
  }

  /** Arguments that come whole. */
  #replace(call: DraftedCall, args: string): void {
    call.args = "";
    this.#draft.growCall(call, args);
  }

  #finish(raw: string): void {
    for (const call of this.#calls) call.isComplete = true;
    this.#draft.finish(REASONS[raw], raw);
  }

  #identify({ id, model }: Members): void {
    this.#isKnown = true;
    if (typeof id === "string") this.#draft.note("responseId", id);
    if (typeof model === "string") this.#draft.note("model", model);
  }
}

/** Some servers give the status of the error as its code. */
function errorOf(event: Members): ReturnType<typeof failureOf> {
  const { code } = membersOf(event.error);
  return failureOf(typeof code === "number" ? { ...event, statusCode: code } : event);
}

function usageOf(raw: unknown): TokenUsage {
  const usage = membersOf(raw);
  const prompt = membersOf(usage.prompt_tokens_details);
  const cacheRead = tokenCount(prompt.cached_tokens ?? usage.prompt_cache_hit_tokens);
  const cacheWrite = tokenCount(prompt.cache_write_tokens);
  return {
    input: tokenCount(tokenCount(usage.prompt_tokens) - cacheRead - cacheWrite),
    output: tokenCount(usage.completion_tokens),
    cacheRead,
    cacheWrite,
    reasoning: tokenCount(membersOf(usage.completion_tokens_details).reasoning_tokens),
  };
}
