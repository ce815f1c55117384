// A language model of the AI SDK as a model port.

import { setImmediate as immediately } from "node:timers/promises";
import { type AnswerLimits, DEFAULT_ANSWER_LIMITS } from "../../model/answer-limits.ts";
import type { Json, JsonObject } from "../../model/json.ts";
import type { ModelOutcome } from "../../model/model-response.ts";
import { promptMemory } from "../build-prompt.ts";
import { unknownParameters } from "../call-parameters.ts";
import type { ModelCallOptions, ModelPort, ModelRequest } from "../contract.ts";
import { cancelled, failureOf } from "../failure.ts";
import { membersOf } from "../members-of.ts";
import { buildCall, type CallBuilder } from "./build-call.ts";
import type { CallOptions } from "./call-options.ts";
import { GuardedCall } from "./guarded-model.ts";
import type { AiSdkLanguageModel, AiSdkStream } from "./language-model.ts";
import { ResponseBuilder } from "./response-builder.ts";

/** What is known of a model, and what its calls are made with unless a request says otherwise. */
export interface AiSdkModelOptions {
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
  /**
   * Whether the prompt is marked for the provider's cache, where calls have to ask for that. `auto`, the default,
   * marks the system prompt and the end of the conversation for Anthropic's models.
   */
  readonly promptCache?: "auto" | "off";
}

type Reader = ReturnType<AiSdkStream["getReader"]>;

/** How long an answer that has ended is read on, for usage and so that the connection can be used again. */
const TRAILING_MS = 250;
/** Parts that are read before the event loop has its turn. */
const MOST_AT_ONCE = 1_024;

/**
 * A language model of the AI SDK as a model port; its id is `provider/modelId`.
 * Calls never throw: errors are failures with a kind, an abort is one of kind `cancelled`. Nothing is retried.
 */
export function aiSdkModel(model: AiSdkLanguageModel, options: AiSdkModelOptions = {}): ModelPort {
  const { contextWindow, maxOutputTokens, promptCache = "auto" } = options;
  const builder: CallBuilder = {
    model,
    id: `${model.provider}/${model.modelId}`,
    caches: promptCache === "auto" && model.provider.includes("anthropic"),
    ...promptMemory(),
  };
  return {
    id: builder.id,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    call: async (request, site) => {
      const { limits = DEFAULT_ANSWER_LIMITS, signal } = site;
      const guard = new GuardedCall(limits);
      try {
        return guard.shown(await callModel(builder, request, { ...site, limits, guard }));
      } catch (thrown) {
        const failure = signal.aborted ? cancelled() : (guard.failure ?? failureOf(thrown));
        return guard.shown({ kind: "failure", failure }, thrown);
      }
    },
  };
}

/** What a call has beside its request, with its way to the provider. */
interface CallSite extends ModelCallOptions {
  readonly limits: AnswerLimits;
  readonly guard: GuardedCall;
}

async function callModel(builder: CallBuilder, request: ModelRequest, site: CallSite): Promise<ModelOutcome> {
  const { sink, limits, signal, blobs } = site;
  const response = new ResponseBuilder(builder.id, { sink, limits });
  response.warn(unknownParameters(request.parameters).map(unknownParameter));
  const withheld = new Set<string>();
  for (;;) {
    const call = await buildCall(builder, request, { signal, blobs, withheld });
    try {
      return await ask({ model: builder.model, call, response }, site);
    } catch (thrown) {
      if (!withhold(thrown, call, withheld)) throw thrown;
      response.warn([{ type: "withheld", mediaTypes: [...withheld] }]);
    }
  }
}

/** What an abort does to a call, wherever that is. */
interface Leaving {
  leave(): void;
}

/** One request, and what its answer is read into. */
interface Asking {
  readonly model: AiSdkLanguageModel;
  readonly call: CallOptions;
  readonly response: ResponseBuilder;
}

async function ask(asking: Asking, { guard }: CallSite): Promise<ModelOutcome> {
  const { call, response } = asking;
  const { abortSignal } = call;
  const leaving: Leaving = { leave: () => {} };
  const leave = (): void => leaving.leave();
  abortSignal.throwIfAborted();
  abortSignal.addEventListener("abort", leave, { once: true });
  try {
    const reader = (await open(asking, guard, leaving)).getReader();
    await read(reader, response, { signal: abortSignal, leaving });
  } finally {
    abortSignal.removeEventListener("abort", leave);
  }
  const isCancelled = abortSignal.aborted && !response.isOver;
  return isCancelled ? { kind: "failure", failure: cancelled() } : response.outcome();
}

/** Begins the call. A model that does not heed the abort is not waited for. */
function open({ model, call }: Asking, guard: GuardedCall, leaving: Leaving): Promise<AiSdkStream> {
  const { abortSignal } = call;
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(abortSignal.reason);
    leaving.leave = leave;
    Promise.resolve(guard.doStream(model, call))
      .then(({ stream }) => {
        if (abortSignal.aborted) drop(stream.getReader(), abortSignal.reason);
        else resolve(stream);
      })
      .catch(reject);
  });
}

/** Nobody reads on; the call is over either way. */
function drop(reader: Reader, reason: unknown): void {
  reader.cancel(reason).catch(() => {});
}

/** Reads the stream to its end, or as far as it counts. */
async function read(
  reader: Reader,
  response: ResponseBuilder,
  { signal, leaving }: { readonly signal: AbortSignal; readonly leaving: Leaving },
): Promise<void> {
  let isLeft = false;
  const leave = (): void => {
    isLeft = true;
    drop(reader, signal.reason);
  };
  let timer: NodeJS.Timeout | undefined;
  let isTrailing = false;
  let taken = 0;
  let isOver = false;
  const giveTime = (): void => {
    if (!isOver) timer = setTimeout(leave, TRAILING_MS);
  };
  leaving.leave = leave;
  if (signal.aborted) leave();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (isLeft) signal.throwIfAborted();
      response.take(value);
      if (response.isLeft) {
        leave();
        break;
      }
      taken += 1;
      if (taken % MOST_AT_ONCE === 0) await immediately(); // A stream that is never empty would hold up everything else.
      if (!response.isOver || isTrailing) continue;
      isTrailing = true;
      process.nextTick(giveTime); // Most streams end with the tick, and need none.
    }
  } catch (thrown) {
    if (!response.isOver) throw thrown; // Else the answer is whole, or failed already.
  } finally {
    isOver = true;
    clearTimeout(timer);
  }
}

/** Notes the files that the provider does not take, so that the call can be made without; false when there is none. */
function withhold(thrown: unknown, { prompt }: CallOptions, withheld: Set<string>): boolean {
  if (membersOf(thrown).name !== "AI_UnsupportedFunctionalityError") return false;
  const sent = prompt.flatMap(({ content }) =>
    typeof content === "string"
      ? []
      : content.flatMap((part) => (part.type === "file" ? [part.mediaType] : [])),
  );
  const message = String(membersOf(thrown).message);
  const named = sent.filter((mediaType) => message.includes(mediaType));
  for (const mediaType of named.length > 0 ? named : sent) withheld.add(mediaType);
  return sent.length > 0;
}

function unknownParameter(name: string): Json {
  const warning: JsonObject = { type: "unknown_parameter", name };
  return warning;
}
