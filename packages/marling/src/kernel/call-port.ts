// The way to a model and back: what a port says is checked before anything counts it.
//   CP1  a port that throws or answers nonsense, in spite of its contract, is a failed call.
//   CP2  usage is whole numbers from 0 on, streamed or with the outcome; what is not told of it is 0. An answer with any
//        other usage is a failed call, and nothing counts it. A failure stays what it is, without such a usage.
//   CP3  an answer with more bytes or calls than the limits allow is a failure `answer_limit`. The port is told by its
//        signal and not waited for. Of what it still sends only usage counts.
//   CP5  a failure holds no key, and is short, whatever a port says.
//   CP4  so is an answer that has not ended in its time, by the runtime's clock.

import { messageOf } from "../base/errors.ts";
import { secretsInHeaders } from "../base/secrets.ts";
import type { ModelCallOptions, ModelRequest, ModelSink } from "../llm/contract.ts";
import type { ModelOutcome } from "../model/model-response.ts";
import { shownFailure } from "../model/shown-failure.ts";
import { decodeUsage, NO_USAGE } from "../model/usage.ts";
import { LimitedAnswer } from "./limited-answer.ts";
import type { KernelParts, ModelBinding } from "./parts.ts";

export interface PortCall {
  readonly binding: ModelBinding;
  readonly request: ModelRequest;
}

/** Calls the port of a model. Never throws. */
export async function callPort(
  { clock, answerLimits: limits }: Pick<KernelParts, "clock" | "answerLimits">,
  call: PortCall,
  options: Omit<ModelCallOptions, "limits">,
): Promise<ModelOutcome> {
  const { binding, request } = call;
  const usage = new UsageCheck(binding.name, options.sink);
  const answer = new LimitedAnswer({ clock, limits }, { sink: usage.sink, signal: options.signal });
  try {
    const { sink, signal } = answer;
    const outcome = await answer.of(binding.port.call(request, { ...options, sink, signal, limits }));
    if (isAnswer(outcome)) return shown(usage.check(answer.check(outcome)), request);
    return brokenPort(
      "model_port_returned_nonsense",
      `model ${binding.name}: expected a response or a failure, found neither`,
    );
  } catch (thrown) {
    const message = `model ${binding.name}: the port threw: ${messageOf(thrown)}`;
    return shown(brokenPort("model_port_threw", message), request);
  } finally {
    answer.release();
  }
}

/** Of keys the kernel knows those that hooks and settings put into the request; the others are known by their form. */
function shown(outcome: ModelOutcome, { headers }: ModelRequest): ModelOutcome {
  if (outcome.kind === "response") return outcome;
  const secrets = secretsInHeaders(Object.entries(headers));
  return { kind: "failure", failure: shownFailure(outcome.failure, secrets) };
}

/** Looks at every usage of one call. */
class UsageCheck {
  readonly #model: string;
  readonly #next: ModelSink;
  #mistake: string | undefined;

  constructor(model: string, next: ModelSink) {
    this.#model = model;
    this.#next = next;
  }

  readonly sink: ModelSink = (part) => {
    if (part.kind !== "usage") return this.#next(part);
    const usage = this.#read(part.usage);
    if (usage !== undefined) this.#next({ kind: "usage", usage });
  };

  check(outcome: ModelOutcome): ModelOutcome {
    if (outcome.kind === "failure") {
      const { usage: given, ...failure } = outcome.failure;
      const usage = given === undefined ? undefined : this.#read(given);
      return { kind: "failure", failure: usage === undefined ? failure : { ...failure, usage } };
    }
    const { response } = outcome;
    const usage = response.usage === undefined ? NO_USAGE : this.#read(response.usage);
    if (usage !== undefined && this.#mistake === undefined)
      return { kind: "response", response: { ...response, usage } };
    return brokenPort("invalid_usage", `model ${this.#model}: ${this.#mistake}`);
  }

  #read(raw: unknown): ReturnType<typeof decodeUsage> | undefined {
    try {
      return decodeUsage(raw);
    } catch (thrown) {
      this.#mistake ??= messageOf(thrown);
      return undefined;
    }
  }
}

function isAnswer(outcome: ModelOutcome | undefined): outcome is ModelOutcome {
  if (outcome?.kind === "response") return Array.isArray(outcome.response?.parts);
  return outcome?.kind === "failure" && typeof outcome.failure === "object" && outcome.failure !== null;
}

function brokenPort(code: string, message: string): ModelOutcome {
  return { kind: "failure", failure: { kind: "unknown", code, message, retryable: false } };
}
