// From messages to a request.

import type { ModelRequest } from "../llm/contract.ts";
import type { JsonObject } from "../model/json.ts";
import type { ModelRequestPatch } from "../plugin/hook-context.ts";
import type { TurnRecord } from "../turn/effect.ts";
import type { ModelBinding } from "./parts.ts";
import { messagesOf, type TurnRun } from "./turn-run.ts";

export function buildRequest(
  turn: TurnRun,
  records: readonly TurnRecord[],
  { binding, round }: { readonly binding: ModelBinding; readonly round: number },
): ModelRequest {
  const { session, environment } = turn;
  const parameters: JsonObject =
    binding.maxOutputTokens === undefined ? {} : { maxOutputTokens: binding.maxOutputTokens };
  return Object.freeze({
    model: binding.name,
    system: environment?.system ?? "",
    messages: session.projectedHistory.project(messagesOf(turn, records)),
    tools: environment?.tools ?? [],
    toolChoice: "auto",
    parameters,
    providerOptions: {},
    headers: {},
    scope: {
      sessionId: session.id,
      frameId: session.frameId,
      requestId: `${session.id}:${turn.turnId}:${round}`,
    },
    ...(turn.outputSchema === undefined ? {} : { outputSchema: turn.outputSchema }),
  });
}

/** A request with a hook's changes: records are merged member by member, the rest is replaced. */
export function patchRequest(request: ModelRequest, patch: ModelRequestPatch): ModelRequest {
  return Object.freeze({
    ...request,
    parameters: { ...request.parameters, ...patch.parameters },
    providerOptions: { ...request.providerOptions, ...patch.providerOptions },
    headers: { ...request.headers, ...patch.headers },
    toolChoice: patch.toolChoice ?? request.toolChoice,
  });
}
