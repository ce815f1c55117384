// How an operation is called: who is meant, what it is given, what comes back.
//   OI1  lookup is per kind; then the session parameter is checked, then the arguments; only then the handler runs.
//   OI2  a query gets reading services only and cannot write state; commands, tasks and actions draft state that is
//        applied when they succeed.
//   OI3  a handler that throws fails the operation; an action that throws is a failed output.

import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, decodeJsonObject, isJsonObject, type Json } from "../model/json.ts";
import {
  isPendingResult,
  isToolOutput,
  type PendingResult,
  type ToolOutput,
  toolFailure,
  toolSuccess,
} from "../model/tool-output.ts";
import type { TurnInput } from "../model/turn.ts";
import type { ToolValidator, ValidatedArgs } from "../tool/contract.ts";
import { mismatchText } from "../tool/schema.ts";
import type { Awaitable } from "./hooks.ts";
import type { OperationContexts, OperationDirective, OperationKind, SettledOutcome } from "./operation.ts";
import type { OperationTable, RegisteredOperation } from "./operation-table.ts";
import { decodePluginEvents } from "./plugin-event.ts";
import type { StateScopes } from "./state-scopes.ts";

/** What an invocation works on: the operations, the state and the id of a plugin session. */
export interface OperationTarget {
  readonly operations: OperationTable;
  readonly scopes: StateScopes;
  readonly sessionId: string;
}

export interface Invocation<K extends OperationKind> {
  readonly kind: K;
  readonly name: string;
  readonly args: unknown;
  readonly session: string | null | undefined;
  readonly defaultToCurrentSession: boolean;
  readonly sees: "working" | "committed";
  context(sessionId: string | undefined): OperationContexts[K];
}

/** Runs a query, command or task and reads its outcome. Throws the operation errors of the contract. */
export async function runOperation(
  target: OperationTarget,
  call: Invocation<"query" | "command" | "task">,
): Promise<{ readonly pluginId: string; readonly outcome: SettledOutcome }> {
  const ready = prepare(target, call);
  const { operation, sessionId, args } = isPromise(ready) ? await ready : ready;
  const { pluginId } = operation.def;
  const isQuery = call.kind === "query";
  const effect = {
    pluginIds: [pluginId],
    mode: isQuery ? "read_only" : "sequential",
    sees: call.sees,
  } as const;
  try {
    const outcome = await target.scopes.runEffect(effect, async () => {
      const returned: unknown = await operation.call(Object.freeze(call.context(sessionId)), args);
      return isQuery ? plainOutcome(operation, returned) : readOutcome(operation, returned);
    });
    return { pluginId, outcome };
  } catch (cause) {
    throw failed(operation, cause);
  }
}

/** Runs an action: whatever it does, the answer is an output. Throws only where no handler was called. */
export async function runAction(
  target: OperationTarget,
  call: Invocation<"action">,
): Promise<ToolOutput | PendingResult> {
  const ready = prepare(target, call);
  const { operation, sessionId, args } = isPromise(ready) ? await ready : ready;
  const effect = {
    pluginIds: [operation.def.pluginId],
    mode: "sequential",
    sees: call.sees,
    hasSucceeded,
  } as const;
  try {
    return await target.scopes.runEffect(effect, async () => {
      const returned: unknown = await operation.call(Object.freeze(call.context(sessionId)), args);
      return isToolOutput(returned) || isPendingResult(returned) ? returned : toolSuccess(returned);
    });
  } catch (thrown) {
    return toolFailure({ code: "action_failed", source: "plugin", message: messageOf(thrown) });
  }
}

function hasSucceeded(output: ToolOutput | PendingResult): boolean {
  return isPendingResult(output) || output.outcome.kind === "success";
}

interface Prepared {
  readonly operation: RegisteredOperation;
  readonly sessionId: string | undefined;
  readonly args: unknown;
}

/** Everything before the handler; at once where the schema checks at once, so that the handler starts with the call. */
function prepare(target: OperationTarget, call: Invocation<OperationKind>): Awaitable<Prepared> {
  const operation = target.operations.get(call.name);
  if (operation === undefined || operation.def.kind !== call.kind) throw unknownOperation(target, call);
  const sessionId = effectiveSession(target, call, operation);
  const read = readArgs(operation, call.args);
  return isPromise(read)
    ? read.then(({ args }) => ({ operation, sessionId, args }))
    : { operation, sessionId, ...read };
}

/** The caller's session, else this one where that is wanted and it has an id. The id is not checked for existence. */
function effectiveSession(
  target: OperationTarget,
  call: Invocation<OperationKind>,
  { def }: RegisteredOperation,
): string | undefined {
  const { session, defaultToCurrentSession } = call;
  const own =
    defaultToCurrentSession && session !== null && target.sessionId !== "" ? target.sessionId : undefined;
  const effective = session ?? own;
  const details = { operation: def.name, pluginId: def.pluginId };
  if (def.session === "required" && effective === undefined) {
    throw new MarlingError("missing_session", `operation ${def.name}: expected a session, found none`, {
      details,
    });
  }
  if (def.session === "forbidden" && effective !== undefined) {
    throw new MarlingError(
      "unexpected_session",
      `operation ${def.name}: expected no session, found ${effective}`,
      { details },
    );
  }
  return effective;
}

function readArgs({ def, input }: RegisteredOperation, raw: unknown): Awaitable<Pick<Prepared, "args">> {
  const refuse = (reason: string, cause?: unknown): MarlingError =>
    new MarlingError("invalid_operation_args", `invalid ${def.name} args: ${reason}`, {
      ...(cause === undefined ? {} : { cause }),
      details: { operation: def.name, pluginId: def.pluginId },
    });
  let args: Json;
  try {
    args = decodeJson(raw === undefined ? {} : raw, "args");
  } catch (cause) {
    throw refuse(messageOf(cause), cause);
  }
  if (input === undefined) return { args };
  const take = (result: ValidatedArgs): Pick<Prepared, "args"> => {
    if (!result.ok) throw refuse(mismatchText(result));
    return { args: result.value };
  };
  const result = input.validate(args);
  return isPromise(result) ? result.then(take) : take(result);
}

async function plainOutcome(operation: RegisteredOperation, returned: unknown): Promise<SettledOutcome> {
  return { output: await readOutput(operation, returned), events: [], directives: [] };
}

/** A returned object is an outcome only if it has `output` and nothing that an outcome has not. */
async function readOutcome(operation: RegisteredOperation, returned: unknown): Promise<SettledOutcome> {
  if (!isOutcome(returned)) return plainOutcome(operation, returned);
  const { output, events, directives } = returned;
  return {
    output: await readOutput(operation, output),
    events: events === undefined ? [] : decodePluginEvents(events, "events"),
    directives: directives === undefined ? [] : decodeDirectives(directives),
  };
}

function isOutcome(
  value: unknown,
): value is { readonly output: unknown; readonly events?: unknown; readonly directives?: unknown } {
  if (!isJsonObject(value) || !Object.hasOwn(value, "output")) return false;
  return Object.keys(value).every((key) => key === "output" || key === "events" || key === "directives");
}

function decodeDirectives(raw: unknown): readonly OperationDirective[] {
  if (!Array.isArray(raw)) throw new MarlingError("invalid_directive", "directives: expected an array");
  return raw.map((item: unknown, index) => {
    const where = `directives[${index}]`;
    const { kind, input, key } = decodeJsonObject(item, where);
    if (kind !== "queue_turn")
      throw new MarlingError(
        "invalid_directive",
        `${where}.kind: expected queue_turn, found ${JSON.stringify(kind)}`,
      );
    if (typeof input !== "string" && !isJsonObject(input))
      throw new MarlingError("invalid_directive", `${where}.input: expected a text or an input`);
    if (key !== undefined && (typeof key !== "string" || key === ""))
      throw new MarlingError("invalid_directive", `${where}.key: expected a non-empty string`);
    return Object.freeze({ kind, input: input as TurnInput | string, ...(key === undefined ? {} : { key }) });
  });
}

async function readOutput({ def, output }: RegisteredOperation, raw: unknown): Promise<Json> {
  const json = decodeOutput(raw === undefined ? null : raw, def.name);
  const result = output === undefined ? undefined : await output.validate(json);
  if (result === undefined) return json;
  if (!result.ok) throw invalidOutput(def.name, mismatchText(result));
  return decodeOutput(result.value, def.name);
}

function decodeOutput(raw: unknown, name: string): Json {
  try {
    return decodeJson(raw, "output");
  } catch (cause) {
    throw invalidOutput(name, messageOf(cause), cause);
  }
}

/** Checks the output of a typed call. */
export async function decodeActionOutput(
  raw: Json,
  schema: ToolValidator | undefined,
  name: string,
): Promise<unknown> {
  const result = schema === undefined ? undefined : await schema.validate(raw);
  if (result?.ok === false) throw invalidOutput(name, mismatchText(result));
  return result === undefined ? raw : result.value;
}

function invalidOutput(name: string, reason: string, cause?: unknown): MarlingError {
  return new MarlingError("invalid_operation_output", `invalid ${name} output: ${reason}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { operation: name },
  });
}

function failed({ def }: RegisteredOperation, cause: unknown): MarlingError {
  const { name, kind, pluginId } = def;
  return new MarlingError(
    "operation_failed",
    `${kind} ${name} of plugin ${pluginId} failed: ${messageOf(cause)}`,
    { cause, details: { operation: name, pluginId } },
  );
}

function unknownOperation(target: OperationTarget, { kind, name }: Invocation<OperationKind>): MarlingError {
  const other = target.operations.get(name)?.def.kind;
  const found = other === undefined ? "none with this name" : `a ${other}`;
  return new MarlingError("unknown_operation", `operation ${name}: expected a ${kind}, found ${found}`, {
    details: { operation: name },
  });
}
