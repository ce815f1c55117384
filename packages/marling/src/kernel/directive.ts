// Directives are applied here and nowhere else. The table says what each phase makes of each directive.
//   DR1  hooks of a phase have all run before the first directive is applied.
//   DR2  a directive that a phase does not allow fails the phase (or the call), naming plugin and hook.
//   DR3  of messages, only user and system roles are taken; others are dropped and reported.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { PluginId } from "../model/ids.ts";
import { type Message, type MessageInput, toMessage } from "../model/message.ts";
import type { PluginEvent } from "../model/turn.ts";
import type { Directive, DirectiveKind } from "../plugin/directive.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { TurnRun } from "./turn-run.ts";

/** The phases in which hooks return directives. */
export type DirectivePhase = "before_turn" | "before_tool_call" | "after_tool_call" | "checkpoint" | "after_turn";

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

/** What the directives of a phase around a turn came to. */
export interface PhaseResult {
  readonly messages: readonly Message[];
  readonly events: readonly PluginOwned<PluginEvent>[];
  /** The last abort wins. */
  readonly abort: (PluginOwned<{ readonly code: string; readonly message: string }>) | undefined;
}

/** Applies the directives of `before_turn`, `checkpoint` or `after_turn`, in order. */
export async function applyDirectives(
  turn: TurnRun,
  owned: readonly PluginOwned<Directive>[],
  { phase, prefix }: { readonly phase: "before_turn" | "checkpoint" | "after_turn"; readonly prefix: string },
): Promise<PhaseResult> {
  for (const { pluginId, value } of owned) refuseIllegal(value, { phase, pluginId });
  const messages: Message[] = [];
  const events: PluginOwned<PluginEvent>[] = [];
  let abort: PhaseResult["abort"];
  for (const { pluginId, value } of owned) {
    switch (value.kind) {
      case "abort_turn":
        abort = { pluginId, value: { code: value.code, message: value.message } };
        break;
      case "enqueue_messages":
        messages.push(...acceptMessages(turn, value.messages, { pluginId, prefix: `${prefix}.${messages.length}` }));
        break;
      case "create_session":
      case "emit_trace":
        await applyNow(turn.session, value, { pluginId, phase });
        break;
      case "emit_events":
        events.push(...value.events.map((event) => ({ pluginId, value: event })));
        break;
      case "replace_tool_args":
      case "short_circuit_tool":
        break;
      default:
        unreachable(value);
    }
  }
  return { messages, events, abort };
}

/** A session to create or a trace to write: done at once; a failure names the plugin. */
export async function applyNow(
  session: ResidentSession,
  value: Extract<Directive, { kind: "create_session" | "emit_trace" }>,
  { pluginId, phase }: { readonly pluginId: string; readonly phase: DirectivePhase },
): Promise<void> {
  try {
    if (value.kind === "create_session") await session.services.createSession(value.request);
    else await session.services.emitTrace({ name: `plugin.${pluginId}.${value.name}`, payload: value.payload, context: value.context });
  } catch (cause) {
    const code = value.kind === "create_session" ? "plugin_session_create_failed" : "plugin_trace_failed";
    throw new MarlingError(code, `plugin ${pluginId} in ${phase}: ${value.kind} failed: ${messageOf(cause)}`, {
      cause,
      details: { pluginId, hook: phase },
    });
  }
}

/** Throws for a directive that the phase does not allow. */
export function refuseIllegal(value: Directive, { phase, pluginId }: { readonly phase: DirectivePhase; readonly pluginId: string }): void {
  if (LEGALITY[phase][value.kind] === "refuse") throw notAllowed(value.kind, { phase, pluginId });
}

export function notAllowed(kind: DirectiveKind, { phase, pluginId }: { readonly phase: DirectivePhase; readonly pluginId: string }): MarlingError {
  const allowed = (Object.keys(LEGALITY[phase]) as DirectiveKind[]).filter((name) => LEGALITY[phase][name] !== "refuse");
  return new MarlingError("directive_not_allowed", `plugin ${pluginId}: ${kind} is not allowed in ${phase}; expected one of ${allowed.join(", ")}`, {
    details: { pluginId, hook: phase, directive: kind },
  });
}

/** Messages from a hook with derived ids and the plugin as their origin. */
export function acceptMessages(
  turn: TurnRun,
  inputs: readonly MessageInput[],
  { pluginId, prefix }: { readonly pluginId: string; readonly prefix: string },
): readonly Message[] {
  const messages: Message[] = [];
  for (const [index, input] of inputs.entries()) {
    const message = toMessage(input, `m_${turn.turnId}.${prefix}.${index}`, { kind: "plugin", pluginId: pluginId as PluginId, transient: false });
    if (message.role === "user" || message.role === "system") messages.push(message);
    else turn.log.issues.push({ kind: "plugin", code: "message_role_dropped", pluginId, message: `plugin ${pluginId}: expected a message of role user or system, found ${message.role}` });
  }
  return messages;
}
