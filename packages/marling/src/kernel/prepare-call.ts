// A call on its way to its tool: may it be called, do the hooks agree, are the arguments right.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import { type ToolFailureInput, type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { ApprovalDecision } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import { contractUnavailable, unavailableTool, uncallableTool } from "../tool/call-refusal.ts";
import type { ExecutableCall, PrepareContext, ToolContract, ToolManifest } from "../tool/contract.ts";
import { type CallCheck, grantLookup, validateCall } from "../tool/dispatch.ts";
import type { DispatchCall } from "./dispatch.ts";
import { beforeToolCall } from "./tool-hooks.ts";
import type { TurnRun } from "./turn-run.ts";

/** A call that may run. */
export interface ReadyCall {
  readonly kind: "ready";
  readonly call: DispatchCall;
  readonly args: Json;
  readonly manifest: ToolManifest;
  readonly prepared: ExecutableCall;
}

export type PreparedDispatch =
  | ReadyCall
  | { readonly kind: "settled"; readonly call: DispatchCall; readonly args: Json; readonly output: ToolOutput };

interface Resolved {
  readonly manifest: ToolManifest;
  readonly contract: ToolContract;
}

export async function prepareCall(turn: TurnRun, call: DispatchCall): Promise<PreparedDispatch> {
  const resolved = resolve(turn, call);
  if (!("manifest" in resolved)) return settled(call, resolved);
  if (call.malformed !== undefined) return refused(call, await check(turn, call, resolved));
  const before = await askHooks(turn, call, resolved);
  const now: DispatchCall = { ...call, args: before.args };
  if (before.output !== undefined) return settled(now, before.output);
  const checked = await check(turn, now, resolved);
  if (checked.kind === "refused") return settled(now, checked.output);
  const denied = await askApproval(turn, now);
  if (denied !== undefined) return settled(now, denied);
  return prepareAtProvider(turn, now, { manifest: resolved.manifest, input: checked.input });
}

export function settled(call: DispatchCall, output: ToolOutput): PreparedDispatch {
  return { kind: "settled", call, args: call.args, output };
}

function resolve(turn: TurnRun, call: DispatchCall): Resolved | ToolOutput {
  if (call.grant !== undefined) return { manifest: call.grant.manifest, contract: call.grant.contract };
  const { session } = turn;
  const catalog = session.resolvedToolCatalog();
  const manifest = catalog.manifest(call.name);
  if (manifest === undefined) return unavailableTool(call.name);
  if (!catalog.isCallable(call.name)) return uncallableTool(call.name);
  const contract = session.tools().contract(call.name);
  return contract === undefined ? contractUnavailable(call.name) : { manifest, contract };
}

async function askHooks(
  turn: TurnRun,
  call: DispatchCall,
  resolved: Resolved,
): Promise<{ readonly args: Json; readonly output: ToolOutput | undefined }> {
  const { session } = turn;
  const context = {
    sessionId: session.id,
    toolName: resolved.manifest.name,
    callId: call.callId,
    args: call.args,
    argumentProjection: resolved.manifest.argumentProjection,
    turnContext: turn.context,
    host: session.host("tool"),
  };
  try {
    return await beforeToolCall(turn, context, async (args) => {
      const checked = await check(turn, { ...call, args }, resolved);
      return checked.kind === "refused" ? checked.output : undefined;
    });
  } catch (thrown) {
    const failure = { code: "before_tool_call_failed", class: "internal", source: "plugin", message: messageOf(thrown) } as const;
    return { args: call.args, output: toolFailure(failure) };
  }
}

function check(turn: TurnRun, call: DispatchCall, { contract }: Resolved): Promise<CallCheck> {
  const lookup = call.grant === undefined ? turn.session.tools() : grantLookup(call.grant);
  return validateCall(lookup, call, { contract });
}

function refused(call: DispatchCall, checked: CallCheck): PreparedDispatch {
  if (checked.kind === "refused") return settled(call, checked.output);
  throw new MarlingError("illegal_outcome", `call ${call.callId}: expected malformed arguments to be refused, found them accepted`);
}

/** Asks every policy; the strictest answer holds. Nobody can be asked yet, so `ask` is a refusal that says so. */
async function askApproval(turn: TurnRun, call: DispatchCall): Promise<ToolOutput | undefined> {
  const { plugins, id } = turn.session;
  if (!plugins.hasApprovalHooks) return undefined;
  const context = { sessionId: id, toolName: call.name, callId: call.callId, args: call.args };
  const decisions = await approvals(turn, context);
  const strictest =
    decisions.find(({ value }) => value.decision === "deny") ?? decisions.find(({ value }) => value.decision === "ask");
  if (strictest === undefined) return undefined;
  const { pluginId, value } = strictest;
  const isDenied = value.decision === "deny";
  const message = value.reason ?? (isDenied ? "The call was denied." : "The call needs an approval, and nobody can be asked here.");
  return denial({ code: isDenied ? "approval_denied" : "approval_unavailable", message, raw: { pluginId } });
}

/** A policy that fails denies the call: an approval that could not be decided is none. */
async function approvals(turn: TurnRun, context: Parameters<TurnRun["session"]["plugins"]["requestApproval"]>[0]): Promise<readonly PluginOwned<ApprovalDecision>[]> {
  try {
    return await turn.session.plugins.requestApproval(context);
  } catch (thrown) {
    const pluginId = MarlingError.is(thrown) ? String(thrown.details["pluginId"]) : "unknown";
    return [{ pluginId, value: { decision: "deny", reason: messageOf(thrown) } }];
  }
}

function denial(failure: ToolFailureInput): ToolOutput {
  return toolFailure({ class: "permission_denied", source: "policy", ...failure });
}

async function prepareAtProvider(
  turn: TurnRun,
  call: DispatchCall,
  { manifest, input }: { readonly manifest: ToolManifest; readonly input: unknown },
): Promise<PreparedDispatch> {
  const { session } = turn;
  const { grant, callId, args } = call;
  const context: PrepareContext = {
    sessionId: session.id,
    turnId: turn.turnId,
    callId,
    signal: turn.control.signal,
    pluginInput: (pluginId) => turn.context.pluginInput(pluginId),
    ...(grant === undefined ? {} : { binding: grant.binding }),
  };
  const valid = { toolId: manifest.id, name: manifest.name, callId, args, input };
  const registry = session.tools();
  const result = grant === undefined ? await registry.prepare(valid, context) : await registry.prepareGranted(grant, valid, context);
  if (result.kind === "completed") return settled(call, result.output);
  return { kind: "ready", call, args, manifest, prepared: { ...result.call, input } };
}
