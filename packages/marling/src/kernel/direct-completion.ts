// A model call that plugins and tools make themselves: no tools, no session.
//   DC1  inside an effect of a turn it is an effect of its own: one that was finished is not bought again.
//   DC2  what it used is in the ledger, under its source and model: with the turn's commit, or at once beside turns. What
//        used nothing is not there.
//   DC3  it is asked once: who wants another try asks again.
//   DC4  inside an effect it is under the budget of the session, as every model call of the turn is.

import { MarlingError } from "../base/errors.ts";
import type { ModelRequest, ModelSink } from "../llm/contract.ts";
import { type MessageInput, toMessage } from "../model/message.ts";
import { type ModelResponse, visibleTexts } from "../model/model-response.ts";
import type { DirectLlmCompletion, DirectRequest } from "../model/session-host.ts";
import type { TurnOutcome } from "../model/turn.ts";
import { isNoUsage, NO_USAGE, type TokenUsage, type UsageEntry } from "../model/usage.ts";
import { projectMessage } from "../turn/project-messages.ts";
import { callPort } from "./call-port.ts";
import { commitBeside, operationOf } from "./commit.ts";
import { modelOf } from "./model-binding.ts";
import type { ModelBinding } from "./parts.ts";
import type { ResidentSession } from "./resident-session.ts";
import { serviceKey } from "./service-scope.ts";
import { budgetOutcome, spend } from "./spending.ts";
import { tracedDirectCall } from "./trace-model.ts";
import { performEffect, type TurnRun } from "./turn-run.ts";

/** What a call came to. Plain JSON. */
interface Answer {
  readonly response?: ModelResponse;
  readonly failure?: { readonly code: string; readonly message: string };
  readonly usage: TokenUsage;
}

export async function directCompletion(
  session: ResidentSession,
  request: DirectRequest,
  { usageSource, scope }: { readonly usageSource: string; readonly scope: TurnRun | undefined },
): Promise<DirectLlmCompletion> {
  const binding = modelOf(session, request.model);
  const spent = (usage: TokenUsage): UsageEntry => ({ source: usageSource, model: binding.name, usage });
  const answer =
    scope === undefined
      ? await askBesideTurns(session, { request, binding, spent, source: usageSource })
      : await askInEffect(scope, { request, binding, spent, source: usageSource });
  const { response, failure, usage } = answer;
  if (response !== undefined) return { response, usage, model: binding.name };
  const message = `direct completion on model ${binding.name}: ${failure?.message ?? "no answer"}`;
  throw new MarlingError("direct_completion_failed", message, {
    details: { code: failure?.code ?? "unknown" },
  });
}

/** The words of a completion. */
export function completionText({ response }: DirectLlmCompletion): string {
  return visibleTexts(response).join("");
}

interface Ask {
  readonly request: DirectRequest;
  readonly binding: ModelBinding;
  readonly source: string;
  spent(usage: TokenUsage): UsageEntry;
}

function askInEffect(scope: TurnRun, { request, binding, spent, source }: Ask): Promise<Answer> {
  const key = serviceKey(scope, "direct", request.key);
  const effect = { key: key.slice(scope.acceptedScope.length + 1), kind: "direct_completion" } as const;
  return performEffect(scope, effect, async (inner) => {
    const exhausted = budgetOutcome(scope.session);
    if (exhausted?.kind === "stopped") return refused(exhausted);
    const answer = await ask(scope.session, {
      request,
      binding,
      requestId: key,
      signal: scope.control.signal,
      source,
      parentId: scope.span,
    });
    if (!isNoUsage(answer.usage)) inner.spent.push(spent(answer.usage));
    spend(scope.session, inner.spent);
    return answer;
  });
}

function refused({ code = "", message = "" }: Extract<TurnOutcome, { kind: "stopped" }>): Answer {
  return { failure: { code, message }, usage: NO_USAGE };
}

async function askBesideTurns(
  session: ResidentSession,
  { request, binding, spent, source }: Ask,
): Promise<Answer> {
  const { operation } = operationOf(session, "direct");
  const { signal } = new AbortController();
  const requestId = `${session.id}:${operation}`;
  const answer = await ask(session, { request, binding, requestId, signal, source, parentId: undefined });
  if (isNoUsage(answer.usage)) return answer;
  await commitBeside(session, () => ({
    operation: operationOf(session, "direct").operation,
    usage: [spent(answer.usage)],
    rebases: true,
    change: (graph) => ({ graph, nodes: [] }),
  }));
  return answer;
}

async function ask(
  session: ResidentSession,
  call: {
    readonly request: DirectRequest;
    readonly binding: ModelBinding;
    readonly requestId: string;
    readonly signal: AbortSignal;
    readonly source: string;
    readonly parentId: string | undefined;
  },
): Promise<Answer> {
  const { binding, signal, source, parentId } = call;
  let usage = NO_USAGE;
  const sink: ModelSink = (part) => {
    if (part.kind === "usage") usage = part.usage;
  };
  const { trace, parts } = session;
  const request = requestOf(session, call);
  const traced = trace && tracedDirectCall(trace, { binding, request, source, parentId });
  const { blobs } = parts.store;
  const options = { sink: traced?.sink(sink) ?? sink, signal, blobs };
  const outcome = await callPort(parts, { binding, request }, options);
  traced?.end(outcome, usage);
  if (outcome.kind === "response") return { response: outcome.response, usage: outcome.response.usage };
  const { kind, code = kind, message } = outcome.failure;
  return { failure: { code, message }, usage: outcome.failure.usage ?? usage };
}

function requestOf(
  session: ResidentSession,
  {
    request,
    binding,
    requestId,
  }: { readonly request: DirectRequest; readonly binding: ModelBinding; readonly requestId: string },
): ModelRequest {
  const { messages, system = "", parameters = {}, outputSchema } = request;
  const given: readonly MessageInput[] =
    typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
  const limit = binding.maxOutputTokens === undefined ? {} : { maxOutputTokens: binding.maxOutputTokens };
  return Object.freeze({
    model: binding.name,
    system,
    messages: given.flatMap(
      (message, index) => projectMessage(toMessage(message, `${requestId}.${index}`)) ?? [],
    ),
    tools: [],
    toolChoice: "none",
    parameters: { ...limit, ...parameters },
    providerOptions: {},
    headers: {},
    scope: { sessionId: session.id, frameId: session.frameId, requestId },
    ...(outputSchema === undefined ? {} : { outputSchema }),
  });
}
