// A call on its way to its tool: may it be called, do the hooks agree, are the arguments right.
//   PC1  what nobody may call ends here, before its contract is resolved and before any hook is asked.
//   PC2  hooks, then validation, then approval, then the provider: whoever decides sees the arguments in their final form.
//   PC3  what user code decided is one effect; validated arguments are no part of it and are made again when needed.
//   PC5  a path among the arguments, in their final form, is one that the session may reach. Which arguments are paths is
//        said by the tool that runs: a grant may add some, and takes none away.
//   PC6  a grant gets past the catalog, and past nothing that the session was denied.
//   PC7  a call that an earlier run of its turn has refused stays refused, and one that ran or was cut has run, whatever may
//        be called since: a refusal is recorded, and what has begun is not refused.
//   PC4  a result that a provider gives while preparing is a result of its tool: the hooks after calls see it.

import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { isJsonObject, type Json } from "../model/json.ts";
import { isToolOutput, reviveToolOutput, type ToolOutput } from "../model/tool-output.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import {
  brokenTool,
  contractUnavailable,
  deniedPath,
  hiddenGrant,
  unavailableTool,
  uncallableTool,
} from "../tool/call-refusal.ts";
import type {
  ExecutionGrant,
  PrepareContext,
  PrepareResult,
  ToolContract,
  ToolManifest,
} from "../tool/contract.ts";
import { type CallCheck, grantLookup, validateCall } from "../tool/dispatch.ts";
import { isReachable } from "../tool/path-access.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import { afterCall } from "./after-call.ts";
import { type ApprovalQuestion, askPolicies, digestOf } from "./approval.ts";
import { keepAttachments } from "./attachments.ts";
import type { DispatchCall } from "./dispatch.ts";
import { failedHookOutput } from "./failed-hook-output.ts";
import { withHost } from "./services.ts";
import { beforeToolCall } from "./tool-hooks.ts";
import { preparedInTime } from "./tool-limit.ts";
import { attemptKey, type EffectOf, hasBegun, isRecorded, performEffect, type TurnRun } from "./turn-run.ts";

/** A call that may run. */
export interface ReadyCall {
  readonly kind: "ready";
  readonly call: DispatchCall;
  readonly manifest: ToolManifest;
  /** What the provider wants `execute` to have. */
  readonly payload?: Json;
  /** The arguments as the tool takes them, where they were checked in this run. */
  readonly checked?: CallCheck;
  /** Checks them again, where they were not. */
  check(): Awaitable<CallCheck>;
  /** Set when somebody has to allow the call before it goes on. */
  readonly approval?: PendingApproval;
}

export interface PendingApproval {
  readonly question: ApprovalQuestion;
  /** What a decision would be bound to now. */
  readonly digest: string;
  /** What is left to do when it was allowed. */
  goOn(scope: TurnRun): Promise<PreparedDispatch>;
}

export type PreparedDispatch =
  | ReadyCall
  | { readonly kind: "settled"; readonly call: DispatchCall; readonly output: ToolOutput };

interface Resolved {
  readonly manifest: ToolManifest;
  readonly contract: ToolContract;
  /** Whether the code of its provider takes part in preparing its calls. */
  readonly isPrepared: boolean;
  /** The arguments that are paths. */
  readonly pathArgs: readonly string[];
}

/** What was decided about a call. Plain JSON; arguments are in it when a hook replaced them. */
interface Decision {
  readonly args?: Json;
  readonly output?: ToolOutput;
  readonly payload?: Json;
  /** Somebody has to allow it first; the provider is asked after that. */
  readonly question?: ApprovalQuestion;
}

export interface PrepareOptions {
  readonly round: number;
  /** Whether an earlier run of the turn may have come to the call. */
  readonly isReplaying: boolean;
}

/** Ready at once where nobody has a say in the call and its arguments fit. */
export function prepareCall(
  turn: TurnRun,
  call: DispatchCall,
  options: PrepareOptions,
): Awaitable<PreparedDispatch> {
  if (options.isReplaying || call.malformed !== undefined || call.grant !== undefined)
    return prepareAsking(turn, call, options);
  const resolved = resolve(turn, call);
  if (!("manifest" in resolved) || asksSomebody(turn, resolved))
    return prepareAsking(turn, call, { ...options, resolved });
  const checked = check(turn, call, resolved);
  if (isPromise(checked) || checked.kind === "refused")
    return prepareChecked(turn, call, { round: options.round, resolved, checked });
  return checkedCall(call, resolved.manifest, checked);
}

/** A call whose arguments were checked in this run. */
function checkedCall(call: DispatchCall, manifest: ToolManifest, checked: CallCheck): ReadyCall {
  return { kind: "ready", call, manifest, checked, check: () => checked };
}

/** As `prepareCall`, of a call in which nobody has a say. */
async function prepareChecked(
  turn: TurnRun,
  call: DispatchCall,
  {
    round,
    resolved,
    checked: checking,
  }: { readonly round: number; readonly resolved: Resolved; readonly checked: Awaitable<CallCheck> },
): Promise<PreparedDispatch> {
  const checked = await checking;
  if (checked.kind === "refused" && (await cameTo(turn, call, round))?.kind !== "ran")
    return refused(turn, call, { round, output: checked.output });
  return checkedCall(call, resolved.manifest, checked);
}

async function prepareAsking(
  turn: TurnRun,
  call: DispatchCall,
  { round, isReplaying, resolved: known }: PrepareOptions & { readonly resolved?: Resolved | ToolOutput },
): Promise<PreparedDispatch> {
  const before = isReplaying ? await cameTo(turn, call, round) : undefined;
  if (before?.kind === "refused") return refused(turn, call, { round });
  const resolved = known ?? resolve(turn, call);
  if (!("manifest" in resolved)) {
    const earlier = before ?? (await cameTo(turn, call, round));
    return earlier?.kind === "ran"
      ? ranBefore(call, earlier.attempts)
      : refused(turn, call, { round, output: resolved });
  }
  if (call.malformed !== undefined) return settled(call, refusalOf(await check(turn, call, resolved), call));
  let checked: CallCheck | undefined;
  const ask = (scope: TurnRun): Promise<Decision> =>
    decide(scope, { call, resolved }, (input) => {
      checked = input;
    });
  const effect: EffectOf<Decision> = {
    key: `${round}.prepare.${call.callId}`,
    kind: "hook_phase",
    ended: async () => (before?.kind === "ran" ? {} : undefined),
  };
  const isAsked = asksSomebody(turn, resolved);
  const decision = isAsked ? await performEffect(turn, effect, ask) : await ask(turn);
  const now = Object.hasOwn(decision, "args") ? { ...call, args: decision.args as Json } : call;
  if (decision.output !== undefined && (before ?? (await cameTo(turn, call, round)))?.kind !== "ran") {
    const { output } = decision;
    return isAsked ? settled(now, reviveToolOutput(output)) : refused(turn, now, { round, output });
  }
  const payload = decision.payload === undefined ? {} : { payload: decision.payload };
  const ready: ReadyCall = {
    kind: "ready",
    call: now,
    manifest: resolved.manifest,
    ...payload,
    ...(checked === undefined ? {} : { checked }),
    check: () => check(turn, now, resolved),
  };
  const { question } = decision;
  if (question === undefined) return ready;
  const goOn = (scope: TurnRun): Promise<PreparedDispatch> => prepareAllowed(scope, ready, round);
  return { ...ready, approval: { question, digest: digestOf(turn, now, resolved.contract), goOn } };
}

/** What an earlier run came to with a call. */
type Earlier = { readonly kind: "refused" } | { readonly kind: "ran"; readonly attempts: number };

export async function cameTo(
  turn: TurnRun,
  { callId }: DispatchCall,
  round: number,
): Promise<Earlier | undefined> {
  if (await isRecorded(turn, refusalKey(callId, round))) return { kind: "refused" };
  let attempts = 0;
  while (await hasBegun(turn, attemptKey(callId, round, attempts + 1))) attempts += 1;
  return attempts === 0 ? undefined : { kind: "ran", attempts };
}

/** A call that may not be made, as it was refused first. */
async function refused(
  turn: TurnRun,
  call: DispatchCall,
  { round, output }: { readonly round: number; readonly output?: ToolOutput },
): Promise<PreparedDispatch> {
  const effect = { key: refusalKey(call.callId, round), kind: "hook_phase" } as const;
  const refuse = async (): Promise<ToolOutput> => output ?? brokenTool("it was refused before");
  const first = await performEffect(turn, { ...effect, ended: refuse }, refuse);
  return settled(call, reviveToolOutput(first));
}

function refusalKey(callId: string, round: number): string {
  return `${round}.refuse.${callId}`;
}

/** A call of a tool that nobody may call any more: what its attempts came to is known, or that one was cut. */
function ranBefore(call: DispatchCall, attempts: number): ReadyCall {
  const { name } = call;
  const retry = attempts === 1 ? {} : { retry: { attempts } };
  const manifest: ToolManifest = { id: name, name, description: "", ...retry };
  return checkedCall(call, manifest, { kind: "refused", output: unavailableTool(name) });
}

/** A call that was allowed: its provider has not been asked yet. */
async function prepareAllowed(turn: TurnRun, ready: ReadyCall, round: number): Promise<PreparedDispatch> {
  const { call, manifest } = ready;
  const checked = ready.checked ?? (await ready.check());
  if (checked.kind === "refused") return settled(call, checked.output);
  if (!hasPrepare(turn.session.tools(), manifest)) return ready;
  const effect = { key: `${round}.provider.${call.callId}`, kind: "hook_phase" } as const;
  const { output, payload } = await performEffect(turn, effect, (scope) =>
    askProvider(scope, call, { manifest, input: checked.input }),
  );
  if (output !== undefined) return settled(call, reviveToolOutput(output));
  return payload === undefined ? ready : { ...ready, payload };
}

export function settled(call: DispatchCall, output: ToolOutput): PreparedDispatch {
  return { kind: "settled", call, output };
}

function resolve(turn: TurnRun, { name, grant }: DispatchCall): Resolved | ToolOutput {
  const { session } = turn;
  if (grant !== undefined) return resolveGrant(turn, grant);
  const catalog = session.resolvedToolCatalog();
  const manifest = catalog.manifest(name);
  if (manifest === undefined) return unavailableTool(name);
  if (!catalog.isCallable(name)) return uncallableTool(name);
  const contract = catalog.contract(name);
  if (contract === undefined) return contractUnavailable(name);
  const isPrepared = hasPrepare(session.tools(), manifest);
  return { manifest, contract, isPrepared, pathArgs: manifest.pathArgs ?? [] };
}

/** A tool that was granted, by the name in the grant and by the one that it has where it comes from. */
function resolveGrant({ session }: TurnRun, grant: ExecutionGrant): Resolved | ToolOutput {
  const { manifest, contract } = grant;
  const registry = session.tools();
  const { tools } = session.frame.assignment.authority.toolAccess;
  try {
    const { name, pathArgs = [] } = registry.offered(grant) ?? manifest;
    const isDenied = (one: string): boolean =>
      registry.hiddenNames.has(one) || (tools.length > 0 && !tools.includes(one));
    if (isDenied(name) || isDenied(manifest.name)) return hiddenGrant(manifest.name);
    const isPrepared = hasPrepare(registry, manifest);
    const paths = new Set([...pathArgs, ...(manifest.pathArgs ?? [])]);
    return { manifest, contract, isPrepared, pathArgs: [...paths] };
  } catch (thrown) {
    return brokenTool(messageOf(thrown));
  }
}

/** Whether code of plugins or providers takes part in the decision. */
function asksSomebody({ session }: TurnRun, { isPrepared }: Resolved): boolean {
  const { runner, hasApprovalHooks } = session.plugins;
  return isPrepared || hasApprovalHooks || runner.has("tool_calls.before");
}

/** Whether the code of a provider takes part in preparing the calls of a tool. */
function hasPrepare(registry: ToolRegistry, { id }: ToolManifest): boolean {
  const provider = registry.providerOf(id);
  return provider?.prepare !== undefined || provider?.prepareGranted !== undefined;
}

async function decide(
  turn: TurnRun,
  { call, resolved }: { readonly call: DispatchCall; readonly resolved: Resolved },
  onChecked: (checked: CallCheck) => void,
): Promise<Decision> {
  const { plugins, parts } = turn.session;
  const { manifest, contract } = resolved;
  const hasHooks = plugins.runner.has("tool_calls.before");
  const before = hasHooks ? await askHooks(turn, call, resolved) : { args: call.args, output: undefined };
  const isReplaced = before.args !== call.args;
  const now: DispatchCall = isReplaced ? { ...call, args: before.args } : call;
  const args = isReplaced ? { args: before.args } : {};
  if (before.output !== undefined) {
    return { ...args, output: await keepAttachments(parts, before.output, call.name) };
  }
  const checked = await check(turn, now, resolved);
  if (checked.kind === "refused") return { ...args, output: checked.output };
  onChecked(checked);
  const verdict = plugins.hasApprovalHooks ? await askPolicies(turn, now, contract) : undefined;
  if (verdict?.kind === "denied") return { ...args, output: verdict.output };
  if (verdict?.kind === "asked") return { ...args, question: verdict.question };
  if (now.grant === undefined && !resolved.isPrepared) return args;
  return { ...args, ...(await askProvider(turn, now, { manifest, input: checked.input })) };
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
  };
  try {
    return await withHost(context, { scope: turn, name: "tool" }, (asked) =>
      beforeToolCall(turn, asked, async (args) => {
        const checked = await check(turn, { ...call, args }, resolved);
        return checked.kind === "refused" ? checked.output : undefined;
      }),
    );
  } catch (thrown) {
    return { args: call.args, output: failedHookOutput("before_tool_call_failed", thrown) };
  }
}

function check(turn: TurnRun, call: DispatchCall, { contract, pathArgs }: Resolved): Awaitable<CallCheck> {
  const lookup = call.grant === undefined ? turn.session.tools() : grantLookup(call.grant);
  const { paths } = turn.session.frame.assignment.authority;
  const checking = validateCall(lookup, call, { contract });
  return paths === undefined ? checking : inReach(checking, { call, pathArgs, paths });
}

async function inReach(
  checking: Awaitable<CallCheck>,
  { call, pathArgs, paths }: Pick<Resolved, "pathArgs"> & { call: DispatchCall; paths: readonly string[] },
): Promise<CallCheck> {
  const checked = await checking;
  if (checked.kind === "refused") return checked;
  const denied = pathsOf(call.args, pathArgs).find((path) => !isReachable(path, paths));
  return denied === undefined ? checked : { kind: "refused", output: deniedPath(denied, paths) };
}

/** The paths that a call names; an argument that is left out, or an empty list, is the root. */
function pathsOf(args: Json, pathArgs: readonly string[]): readonly string[] {
  const given = isJsonObject(args) ? args : {};
  return pathArgs.flatMap((name) => {
    const value = Object.hasOwn(given, name) ? given[name] : ".";
    const paths = Array.isArray(value) && value.length > 0 ? value : [value];
    return paths.map((path) => (typeof path === "string" ? path : "."));
  });
}

function refusalOf(checked: CallCheck, { callId }: DispatchCall): ToolOutput {
  if (checked.kind === "refused") return checked.output;
  const message = `call ${callId}: expected malformed arguments to be refused, found them accepted`;
  throw new MarlingError("illegal_outcome", message);
}

async function askProvider(
  turn: TurnRun,
  call: DispatchCall,
  { manifest, input }: { readonly manifest: ToolManifest; readonly input: unknown },
): Promise<Decision> {
  const { session } = turn;
  const { grant, callId, args } = call;
  const registry = session.tools();
  const contextOf = (signal: AbortSignal): PrepareContext => ({
    sessionId: session.id,
    turnId: turn.turnId,
    callId,
    signal,
    pluginInput: (pluginId) => turn.context.pluginInput(pluginId),
    ...(grant === undefined ? {} : { binding: grant.binding }),
  });
  const valid = { toolId: manifest.id, name: manifest.name, callId, args, input };
  const ask = async (limited: AbortSignal): Promise<PrepareResult> =>
    grant === undefined
      ? registry.prepare(valid, contextOf(limited))
      : registry.prepareGranted(grant, valid, contextOf(limited));
  const result = hasPrepare(registry, manifest)
    ? await preparedInTime(manifest, { call: turn.control, parts: session.parts }, ask)
    : await ask(turn.control.signal);
  if (isToolOutput(result) || result.kind === "completed") {
    const output = isToolOutput(result) ? result : result.output;
    return { output: await afterCall(turn, { call, manifest, output, durationMs: 0 }) };
  }
  return result.call.payload === undefined ? {} : { payload: result.call.payload };
}
