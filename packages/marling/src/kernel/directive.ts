// Directives of the phases around a turn. One table says what every phase makes of every directive; how those around a
// tool call compose is in tool-hooks.ts.
//   DR1  the hooks of a phase have all run, and all their directives are allowed, before the first one is applied.
//   DR2  a directive that a phase does not allow fails the phase (or the call), naming plugin and hook.
//   DR3  a phase is one effect: what its directives came to is recorded, and a replay applies none of them again.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { Message } from "../model/message.ts";
import type { PluginEvent } from "../model/turn.ts";
import type { Directive, DirectiveKind } from "../plugin/directive.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { HookName } from "../plugin/hooks.ts";
import { acceptMessages } from "./hook-messages.ts";
import { hostServices } from "./services.ts";
import { type EffectOf, performEffect, type TurnRun } from "./turn-run.ts";

/** The phases in which hooks return directives. */
export type DirectivePhase =
  | "before_turn"
  | "before_tool_call"
  | "after_tool_call"
  | "checkpoint"
  | "after_turn";

/** `apply` does it, `buffer` keeps it for later, `decide` settles the call or turn by it, `refuse` is an error. */
export type Legality = "apply" | "buffer" | "decide" | "refuse";

export const LEGALITY: { readonly [P in DirectivePhase]: { readonly [K in DirectiveKind]: Legality } } = {
  before_turn: {
    abort_turn: "decide",
    enqueue_messages: "apply",
    create_session: "apply",
    replace_tool_args: "refuse",
    short_circuit_tool: "refuse",
    emit_events: "buffer",
    emit_trace: "apply",
  },
  before_tool_call: {
    abort_turn: "decide",
    enqueue_messages: "refuse",
    create_session: "apply",
    replace_tool_args: "decide",
    short_circuit_tool: "decide",
    emit_events: "apply",
    emit_trace: "apply",
  },
  after_tool_call: {
    abort_turn: "decide",
    enqueue_messages: "buffer",
    create_session: "apply",
    replace_tool_args: "refuse",
    short_circuit_tool: "decide",
    emit_events: "apply",
    emit_trace: "apply",
  },
  checkpoint: {
    abort_turn: "decide",
    enqueue_messages: "apply",
    create_session: "apply",
    replace_tool_args: "refuse",
    short_circuit_tool: "refuse",
    emit_events: "buffer",
    emit_trace: "apply",
  },
  after_turn: {
    abort_turn: "refuse",
    enqueue_messages: "apply",
    create_session: "apply",
    replace_tool_args: "refuse",
    short_circuit_tool: "refuse",
    emit_events: "buffer",
    emit_trace: "apply",
  },
};

const HOOK_OF: { readonly [P in DirectivePhase]: HookName } = {
  before_turn: "turn.before",
  before_tool_call: "tool_calls.before",
  after_tool_call: "tool_calls.after",
  checkpoint: "turn.checkpoint",
  after_turn: "turn.after",
};

type TurnPhase = "before_turn" | "checkpoint" | "after_turn";

interface Site {
  readonly phase: DirectivePhase;
  readonly pluginId: string;
}

/** What the directives of a phase around a turn came to. */
export interface PhaseResult {
  readonly messages: readonly Message[];
  readonly events: readonly PluginOwned<PluginEvent>[];
  /** The last abort wins. */
  readonly abort?: PluginOwned<{ readonly code: string; readonly message: string }>;
}

export interface PhaseInit {
  readonly phase: TurnPhase;
  readonly effect: EffectOf<PhaseResult>;
  ask(scope: TurnRun): Promise<readonly PluginOwned<Directive>[]>;
}

/** A phase of a turn that is ending, whose hooks are not asked. */
export async function noHooks(): Promise<PhaseResult> {
  return { messages: [], events: [] };
}

/** Asks the hooks of a phase and applies what they want, in order. */
export async function runPhase(turn: TurnRun, { phase, effect, ask }: PhaseInit): Promise<PhaseResult> {
  return performEffect(turn, effect, async (scope) => applyDirectives(scope, await ask(scope), phase));
}

/** A session to create or a trace to write: done at once; a failure names plugin and hook. */
export async function applyNow(
  scope: TurnRun,
  value: Extract<Directive, { kind: "create_session" | "emit_trace" }>,
  { pluginId, phase }: Site,
): Promise<void> {
  const services = hostServices(scope.session, scope);
  try {
    if (value.kind === "create_session") await services.createSession(value.request);
    else await services.emitTrace({ ...value, name: `plugin.${pluginId}.${value.name}` });
  } catch (cause) {
    const code = value.kind === "create_session" ? "plugin_session_create_failed" : "plugin_trace_failed";
    const hook = HOOK_OF[phase];
    throw new MarlingError(
      code,
      `plugin ${pluginId}: hook ${hook}: ${value.kind} failed: ${messageOf(cause)}`,
      {
        cause,
        details: { pluginId, hook },
      },
    );
  }
}

/** Whether the phase does not allow the directive. */
export function isRefused(value: Directive, phase: DirectivePhase): boolean {
  return LEGALITY[phase][value.kind] === "refuse";
}

export function notAllowed(kind: DirectiveKind, { phase, pluginId }: Site): MarlingError {
  const hook = HOOK_OF[phase];
  const allowed = Object.entries(LEGALITY[phase]).filter(([, legality]) => legality !== "refuse");
  const message = `plugin ${pluginId}: hook ${hook}: ${kind} is not allowed here; expected one of ${allowed.map(([name]) => name).join(", ")}`;
  return new MarlingError("directive_not_allowed", message, { details: { pluginId, hook, directive: kind } });
}

async function applyDirectives(
  turn: TurnRun,
  owned: readonly PluginOwned<Directive>[],
  phase: TurnPhase,
): Promise<PhaseResult> {
  for (const { pluginId, value } of owned)
    if (isRefused(value, phase)) throw notAllowed(value.kind, { phase, pluginId });
  const messages: Message[] = [];
  const events: PluginOwned<PluginEvent>[] = [];
  let abort: PhaseResult["abort"];
  let offered = 0;
  for (const { pluginId, value } of owned) {
    switch (value.kind) {
      case "abort_turn":
        abort = { pluginId, value: { code: value.code, message: value.message } };
        break;
      case "enqueue_messages":
        messages.push(...(await acceptMessages(turn, value.messages, { pluginId, from: offered })));
        offered += value.messages.length;
        break;
      case "create_session":
      case "emit_trace":
        await applyNow(turn, value, { pluginId, phase });
        break;
      case "emit_events":
        events.push(...value.events.map((event) => ({ pluginId, value: event })));
        break;
      case "replace_tool_args":
      case "short_circuit_tool":
        throw notAllowed(value.kind, { phase, pluginId });
      default:
        unreachable(value);
    }
  }
  return { messages, events, ...(abort === undefined ? {} : { abort }) };
}
