// How the hooks around a tool call compose.
//   TH1  a replacement of arguments holds at once for later hooks, is checked against the tool's schema, and is shown
//        once to every earlier hook; in that second look only abort and denial count, and another replacement is a
//        conflict.
//   TH2  abort beats denial, denial beats success. Equals: before a call the smaller plugin id wins, after it the first.
//   TH3  what another plugin decided against is reported with both plugin ids.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { type Json, jsonEqual } from "../model/json.ts";
import { type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { Directive } from "../plugin/directive.ts";
import type { ToolCallHookContext, ToolResultHookContext } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import { acceptMessages, applyNow, notAllowed } from "./directive.ts";
import { type TurnRun, emitPluginEvents } from "./turn-run.ts";

type HookPhase = "before_tool_call" | "after_tool_call";

/** One registered hook, ready to be asked about one context. */
export interface AskableHook<Context> {
  readonly pluginId: string;
  ask(context: Context): readonly Directive[] | Promise<readonly Directive[]>;
}

type Strength = 1 | 2 | 3;
interface Verdict {
  readonly pluginId: string;
  readonly strength: Strength;
  readonly output: ToolOutput;
}

export interface BeforeResult {
  readonly args: Json;
  /** Set when a hook settled the call: it is neither validated, prepared nor run. */
  readonly output: ToolOutput | undefined;
}

/** Checks arguments that a hook put in the place of others; a refusal is the output the call would have. */
export type ArgsCheck = (args: Json) => Promise<ToolOutput | undefined>;

export async function beforeToolCall(turn: TurnRun, context: ToolCallHookContext, check: ArgsCheck): Promise<BeforeResult> {
  const hooks = turn.session.plugins.toolCallHooks("tool_calls.before");
  const board = new VerdictBoard(turn, "before_tool_call");
  let args = context.args;
  for (const [index, hook] of hooks.entries()) {
    for (const directive of await hook.ask({ ...context, args })) {
      if (directive.kind !== "replace_tool_args") {
        if (await board.take({ pluginId: hook.pluginId, value: directive })) continue;
        return { args, output: board.winner?.output };
      }
      const refusal = await check(directive.args);
      if (refusal !== undefined) return { args: directive.args, output: badReplacement(hook.pluginId, refusal) };
      args = directive.args;
      const conflict = await lookAgain(hooks.slice(0, index), { ...context, args }, { board, by: hook.pluginId });
      if (conflict !== undefined) return { args, output: conflict };
    }
  }
  return { args, output: board.winner?.output };
}

export async function afterToolCall(turn: TurnRun, context: ToolResultHookContext): Promise<ToolOutput> {
  const hooks = turn.session.plugins.toolCallHooks("tool_calls.after");
  const board = new VerdictBoard(turn, "after_tool_call");
  let result = context.result;
  let replacedBy: string | undefined;
  for (const [index, hook] of hooks.entries()) {
    for (const directive of await hook.ask({ ...context, result })) {
      const isReplacement = directive.kind === "short_circuit_tool" && directive.output.outcome.kind === "success";
      if (!isReplacement) {
        if (await board.take({ pluginId: hook.pluginId, value: directive })) continue;
        return board.winner?.output ?? result;
      }
      if (replacedBy !== undefined && replacedBy !== hook.pluginId) {
        board.report({ winner: replacedBy, ignored: hook.pluginId, strength: 1 });
        continue;
      }
      result = directive.output;
      replacedBy = hook.pluginId;
      await lookAgain(hooks.slice(0, index), { ...context, result }, { board, by: hook.pluginId });
    }
  }
  return board.winner?.output ?? result;
}

/** Shows a replacement to the hooks that ran before it. Only what restricts counts. */
async function lookAgain<Context extends { readonly args: Json }>(
  earlier: readonly AskableHook<Context>[],
  context: Context,
  { board, by }: { readonly board: VerdictBoard; readonly by: string },
): Promise<ToolOutput | undefined> {
  for (const hook of earlier) {
    for (const directive of await hook.ask(context)) {
      if (directive.kind === "replace_tool_args" && !jsonEqual(directive.args, context.args)) return board.replacementConflict(by, hook.pluginId);
      board.restrict({ pluginId: hook.pluginId, value: directive });
    }
  }
  return undefined;
}

/** The strongest verdict so far, and what lost against it. */
class VerdictBoard {
  readonly #turn: TurnRun;
  readonly #phase: HookPhase;
  #winner: Verdict | undefined;

  constructor(turn: TurnRun, phase: HookPhase) {
    this.#turn = turn;
    this.#phase = phase;
  }

  get winner(): Verdict | undefined {
    return this.#winner;
  }

  /** Applies one directive; false when nothing after it may be applied. */
  async take({ pluginId, value }: PluginOwned<Directive>): Promise<boolean> {
    switch (value.kind) {
      case "abort_turn":
        this.#judge({ pluginId, strength: 3, output: aborted(value) });
        return true;
      case "short_circuit_tool":
        this.#judge({ pluginId, strength: value.output.outcome.kind === "success" ? 1 : 2, output: value.output });
        return true;
      case "emit_events":
        emitPluginEvents(this.#turn, pluginId, value.events);
        return true;
      case "enqueue_messages":
        return this.#enqueue(pluginId, value);
      case "replace_tool_args":
        this.#judge({ pluginId, strength: 2, output: refusal(notAllowed(value.kind, { phase: this.#phase, pluginId })) });
        return true;
      case "create_session":
      case "emit_trace":
        return this.#apply(pluginId, value);
      default:
        return unreachable(value);
    }
  }

  /** Counts a directive of the second look only if it restricts; side effects are not repeated. */
  restrict({ pluginId, value }: PluginOwned<Directive>): void {
    if (value.kind === "abort_turn") this.#judge({ pluginId, strength: 3, output: aborted(value) });
    if (value.kind === "short_circuit_tool" && value.output.outcome.kind !== "success") this.#judge({ pluginId, strength: 2, output: value.output });
  }

  replacementConflict(by: string, again: string): ToolOutput {
    this.report({ winner: by, ignored: again, strength: 2 });
    const message = `plugins ${by} and ${again} both replace the arguments of this call; expected one of them to leave the other's as they are`;
    return toolFailure({ code: "replacement_conflict", class: "internal", source: "plugin", message });
  }

  report({ winner, ignored, strength }: { readonly winner: string; readonly ignored: string; readonly strength: number }): void {
    const payload = { winner, ignored, strength };
    emitPluginEvents(this.#turn, winner, [{ kind: "custom", name: `${this.#phase}.directive_conflict`, payload }]);
    this.#turn.session.services.emitTrace({ name: `${this.#phase}.directive_conflict`, payload }).catch(() => undefined);
  }

  #judge(verdict: Verdict): void {
    const held = this.#winner;
    if (held === undefined) {
      this.#winner = verdict;
      return;
    }
    const wins = verdict.pluginId === held.pluginId ? verdict.strength >= held.strength : this.#beats(verdict, held);
    this.#winner = wins ? withDenialText(verdict, held) : held;
    if (verdict.pluginId === held.pluginId) return;
    const [winner, ignored] = wins ? [verdict, held] : [held, verdict];
    this.report({ winner: winner.pluginId, ignored: ignored.pluginId, strength: winner.strength });
  }

  #beats(challenger: Verdict, held: Verdict): boolean {
    if (challenger.strength !== held.strength) return challenger.strength > held.strength;
    return this.#phase === "before_tool_call" && challenger.pluginId < held.pluginId;
  }

  #enqueue(pluginId: string, value: Extract<Directive, { kind: "enqueue_messages" }>): boolean {
    if (this.#phase === "before_tool_call") {
      this.#judge({ pluginId, strength: 2, output: refusal(notAllowed(value.kind, { phase: this.#phase, pluginId })) });
      return true;
    }
    const { buffer } = this.#turn;
    buffer.push(...acceptMessages(this.#turn, value.messages, { pluginId, prefix: `after_tool_call.${buffer.length}.${this.#turn.log.toolCalls.length}` }));
    return true;
  }

  async #apply(pluginId: string, value: Extract<Directive, { kind: "create_session" | "emit_trace" }>): Promise<boolean> {
    try {
      await applyNow(this.#turn.session, value, { pluginId, phase: this.#phase });
      return true;
    } catch (thrown) {
      this.#judge({ pluginId, strength: 3, output: refusal(thrown) });
      return false;
    }
  }
}

/** A denial that an abort displaces keeps its text, so that the model still learns the reason. */
function withDenialText(verdict: Verdict, held: Verdict): Verdict {
  return verdict.strength === 3 && held.strength === 2 ? { ...verdict, output: held.output } : verdict;
}

function aborted({ code, message }: { readonly code: string; readonly message: string }): ToolOutput {
  return toolFailure({ code, message, class: "permission_denied", source: "plugin" });
}

function refusal(thrown: unknown): ToolOutput {
  const code = MarlingError.is(thrown) ? thrown.code : "plugin_failed";
  return toolFailure({ code, message: messageOf(thrown), class: "internal", source: "plugin" });
}

function badReplacement(pluginId: string, refused: ToolOutput): ToolOutput {
  const { outcome } = refused;
  const reason = outcome.kind === "failure" ? outcome.message : outcome.kind;
  const message = `plugin ${pluginId} replaced the arguments by ones that the tool does not take: ${reason}`;
  return toolFailure({ code: "invalid_tool_args", class: "invalid_request", source: "plugin", message });
}
