// Which finish reasons end a turn, and how. The same for every protocol.

import type { FinishReason, ModelResponse } from "../model/model-response.ts";
import type { StopReason } from "../model/turn.ts";
import type { TokenUsage } from "../model/usage.ts";

/** How a turn stops: an outcome that is not made yet, and whether trying again could help. */
export interface TerminalStop {
  readonly reason: StopReason;
  readonly code?: string;
  readonly message: string;
  readonly retryable: boolean;
}

/** With this share of the window filled, an answer without a single token means that nothing more fits. */
const FULL_WINDOW = 0.95;

const STOPS: { readonly [F in FinishReason]: TerminalStop | undefined } = {
  stop: undefined,
  tool_use: undefined,
  unknown: undefined,
  output_limit: {
    reason: "incomplete",
    code: "output_limit",
    message: "the model reached its output limit before it was done",
    retryable: false,
  },
  context_overflow: {
    reason: "provider_error",
    code: "context_overflow",
    message: "the conversation does not fit into the model's context window",
    retryable: false,
  },
  content_filter: {
    reason: "provider_error",
    code: "content_filter",
    message: "the provider withheld the answer by its content filter",
    retryable: false,
  },
  provider_error: {
    reason: "provider_error",
    code: "provider_error",
    message: "the provider broke off the answer with an error",
    retryable: false,
  },
  cancelled: { reason: "cancelled", message: "the model call was cancelled", retryable: false },
};

/** How a response ends the turn; `undefined` when the driver goes on with it. */
export function terminalStop(
  response: ModelResponse,
  contextWindow: number | undefined,
): TerminalStop | undefined {
  return STOPS[refinedFinish(response, contextWindow)];
}

function refinedFinish({ finish, usage }: ModelResponse, contextWindow: number | undefined): FinishReason {
  if (finish !== "output_limit" || usage.output > 0 || contextWindow === undefined) return finish;
  return promptTokens(usage) >= FULL_WINDOW * contextWindow ? "context_overflow" : finish;
}

function promptTokens({ input, cacheRead, cacheWrite }: TokenUsage): number {
  return input + cacheRead + cacheWrite;
}
