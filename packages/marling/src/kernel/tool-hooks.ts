// How the hooks around a tool call compose.
//   TH1  all hooks have answered before the first directive is applied: when one fails, none of the others' is.
//   TH2  a replacement of arguments holds at once for later hooks, is checked against the tool's schema, and is shown
//        once to every earlier hook whose plugin has not refused the call. In that second look only what restricts
//        counts, and another replacement is a conflict that fails the call. A result is replaced the same way; of several
//        replacements the first stays.
//   TH3  abort beats denial, denial beats success, in whatever order they come. Equals: before a call the smaller plugin
//        id wins, after it the first. An abort shows the text of the denial it displaced.
//   TH4  what another plugin decided against is reported with both plugin ids.
//   TH5  a directive whose application fails settles the call, and nothing after it is applied.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { type Json, jsonEqual } from "../model/json.ts";
import { type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { Directive } from "../plugin/directive.ts";
import type { ToolCallHookContext, ToolResultHookContext } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import { applyNow, isRefused, notAllowed } from "./directive.ts";
import { acceptMessages } from "./hook-messages.ts";
import { reportIssues } from "./lifecycle.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { emitPluginEvents, type TurnRun } from "./turn-run.ts";

type ToolPhase = "before_tool_call" | "after_tool_call";
type Owned = PluginOwned<Directive>;

/** One registered hook, ready to be asked about one context. */
interface AskableHook<Context> {
  readonly pluginId: string;
  ask(context: Context): Promise<readonly Directive[]>;
}

export interface BeforeResult {
  readonly args: Json;
  /** Set when a hook settled the call: it is neither validated, prepared nor run. */
  readonly output: ToolOutput | undefined;
}

/** Checks arguments that a hook put in the place of others; a refusal is the output the call would have. */
export type ArgsCheck = (args: Json) => Promise<ToolOutput | undefined>;

/** Asks the hooks before a call and applies what they want. Rejects when a hook fails, with nothing applied. */
export async function beforeToolCall(
  turn: TurnRun,
  context: ToolCallHookContext,
  check: ArgsCheck,
): Promise<BeforeResult> {
  const board = new VerdictBoard(turn, "before_tool_call", context);
  const heard = await reporting(turn, () => hearBefore(turn, context, { board, check }));
  let { args } = context;
  for (const owned of heard) {
    if (owned.value.kind === "replace_tool_args") args = owned.value.args;
    else if (!(await board.take(owned))) break;
  }
  return { args, output: board.output };
}

/** Asks the hooks after a call and applies what they want. Rejects when a hook fails, with nothing applied. */
export async function afterToolCall(turn: TurnRun, context: ToolResultHookContext): Promise<ToolOutput> {
  const board = new VerdictBoard(turn, "after_tool_call", context);
  const heard = await reporting(turn, () => hearAfter(turn, context));
  for (const owned of heard) if (!(await board.take(owned))) break;
  return board.output ?? context.result;
}

async function hearBefore(
  turn: TurnRun,
  context: ToolCallHookContext,
  { board, check }: { readonly board: VerdictBoard; readonly check: ArgsCheck },
): Promise<readonly Owned[]> {
  const hooks = turn.session.plugins.toolCallHooks("tool_calls.before", { deltas: turn.deltas });
  const heard: Owned[] = [];
  let { args } = context;
  for (const [index, hook] of hooks.entries()) {
    const { pluginId } = hook;
    for (const value of await hook.ask({ ...context, args })) {
      heard.push({ pluginId, value });
      if (value.kind !== "replace_tool_args" || jsonEqual(value.args, args)) continue;
      args = value.args;
      const refused = await check(args);
      if (refused !== undefined) return [...heard, denial(pluginId, badReplacement(pluginId, refused))];
      const look = { phase: "before_tool_call", context: { ...context, args }, heard } as const;
      const again = await lookAgain(hooks.slice(0, index), look);
      if (again !== undefined)
        return [...heard, denial(pluginId, board.replacementConflict(pluginId, again))];
    }
  }
  return heard;
}

async function hearAfter(turn: TurnRun, context: ToolResultHookContext): Promise<readonly Owned[]> {
  const hooks = turn.session.plugins.toolCallHooks("tool_calls.after", { deltas: turn.deltas });
  const heard: Owned[] = [];
  let replaced: ToolOutput | undefined;
  for (const [index, hook] of hooks.entries()) {
    for (const value of await hook.ask({ ...context, result: replaced ?? context.result })) {
      heard.push({ pluginId: hook.pluginId, value });
      if (replaced !== undefined || value.kind !== "short_circuit_tool" || isDenial(value)) continue;
      replaced = value.output;
      const look = { phase: "after_tool_call", context: { ...context, result: replaced }, heard } as const;
      await lookAgain(hooks.slice(0, index), look);
    }
  }
  return heard;
}

/** Shows a replacement to the hooks that ran before it; returns the plugin that would replace it again. */
async function lookAgain<Context extends { readonly args: Json }>(
  earlier: readonly AskableHook<Context>[],
  {
    phase,
    context,
    heard,
  }: { readonly phase: ToolPhase; readonly context: Context; readonly heard: Owned[] },
): Promise<string | undefined> {
  const refusers = new Set(
    heard.filter(({ value }) => restricts(value, phase)).map(({ pluginId }) => pluginId),
  );
  for (const { pluginId, ask } of earlier) {
    if (refusers.has(pluginId)) continue;
    for (const value of await ask(context)) {
      if (restricts(value, phase)) heard.push({ pluginId, value });
      else if (value.kind === "replace_tool_args" && !jsonEqual(value.args, context.args)) return pluginId;
    }
  }
  return undefined;
}

function restricts(value: Directive, phase: ToolPhase): boolean {
  return value.kind === "abort_turn" || isDenial(value) || isRefused(value, phase);
}

function isDenial(value: Directive): boolean {
  return value.kind === "short_circuit_tool" && value.output.outcome.kind !== "success";
}

/** Whatever fails a call is in the report of the turn, with the plugin and the hook. */
async function reporting<T>(turn: TurnRun, hear: () => Promise<T>): Promise<T> {
  try {
    return await hear();
  } catch (thrown) {
    reportIssues(turn, [issueOfThrown(thrown)]);
    throw thrown;
  }
}

const STRENGTHS = ["success", "denial", "abort", "error"] as const;
type Strength = (typeof STRENGTHS)[number];

interface Verdict {
  readonly pluginId: string;
  readonly strength: Strength;
  readonly output: ToolOutput;
}

/** One side of a conflict. */
interface Contender {
  readonly pluginId: string;
  readonly strength: Strength | "replacement";
}

/** What the plugins decided about one call, and what lost. */
class VerdictBoard {
  readonly #turn: TurnRun;
  readonly #phase: ToolPhase;
  readonly #call: Pick<ToolCallHookContext, "toolName" | "callId">;
  readonly #best = new Map<Strength, Verdict>();
  #offered = 0;

  constructor(turn: TurnRun, phase: ToolPhase, call: Pick<ToolCallHookContext, "toolName" | "callId">) {
    this.#turn = turn;
    this.#phase = phase;
    this.#call = call;
  }

  /** The output that the decisions so far come to, if there was any. */
  get output(): ToolOutput | undefined {
    const winner = this.#winner;
    const displaced = winner?.strength === "abort" ? this.#best.get("denial") : undefined;
    return (displaced ?? winner)?.output;
  }

  /** Applies one directive; false when nothing after it may be applied. */
  async take({ pluginId, value }: Owned): Promise<boolean> {
    if (isRefused(value, this.#phase)) {
      const output = failed(notAllowed(value.kind, { phase: this.#phase, pluginId }));
      return this.#judge({ pluginId, strength: "denial", output });
    }
    switch (value.kind) {
      case "abort_turn":
        return this.#judge({ pluginId, strength: "abort", output: aborted(value) });
      case "short_circuit_tool":
        return this.#judge({
          pluginId,
          strength: isDenial(value) ? "denial" : "success",
          output: value.output,
        });
      case "emit_events":
        emitPluginEvents(this.#turn, pluginId, value.events);
        return true;
      case "enqueue_messages":
      case "create_session":
      case "emit_trace":
        return this.#apply(pluginId, value);
      case "replace_tool_args":
        return true;
      default:
        return unreachable(value);
    }
  }

  replacementConflict(by: string, again: string): ToolOutput {
    this.#report({ pluginId: by, strength: "replacement" }, { pluginId: again, strength: "replacement" });
    const message = `plugins ${by} and ${again} both replace the arguments of this call; expected one of them to leave the other's as they are`;
    return toolFailure({ code: "replacement_conflict", class: "internal", source: "plugin", message });
  }

  get #winner(): Verdict | undefined {
    const strongest = STRENGTHS.findLast((strength) => this.#best.has(strength));
    return strongest === undefined ? undefined : this.#best.get(strongest);
  }

  #judge(verdict: Verdict): true {
    const held = this.#winner;
    const rival = this.#best.get(verdict.strength);
    const isBest =
      rival === undefined || (this.#phase === "before_tool_call" && verdict.pluginId <= rival.pluginId);
    if (isBest) this.#best.set(verdict.strength, verdict);
    if (held === undefined || held.pluginId === verdict.pluginId) return true;
    if (this.#winner === verdict) this.#report(verdict, held);
    else this.#report(held, verdict);
    return true;
  }

  #report(winner: Contender, ignored: Contender): void {
    const { toolName, callId } = this.#call;
    const name = `${this.#phase}.directive_conflict`;
    const payload = {
      winner: winner.pluginId,
      winnerStrength: winner.strength,
      ignored: ignored.pluginId,
      ignoredStrength: ignored.strength,
      toolName,
      callId,
    };
    emitPluginEvents(this.#turn, winner.pluginId, [{ kind: "custom", name, payload }]);
    this.#turn.session.services.emitTrace({ name, payload }).catch(() => undefined); // a trace never decides anything
  }

  async #apply(
    pluginId: string,
    value: Extract<Directive, { kind: "enqueue_messages" | "create_session" | "emit_trace" }>,
  ): Promise<boolean> {
    try {
      if (value.kind === "enqueue_messages") await this.#buffer(pluginId, value.messages);
      else await applyNow(this.#turn, value, { pluginId, phase: this.#phase });
      return true;
    } catch (thrown) {
      this.#judge({ pluginId, strength: "error", output: failed(thrown) });
      return false;
    }
  }

  /** Keeps messages for the next checkpoint. */
  async #buffer(
    pluginId: string,
    inputs: Extract<Directive, { kind: "enqueue_messages" }>["messages"],
  ): Promise<void> {
    const from = this.#offered;
    this.#offered += inputs.length;
    this.#turn.buffer.push(...(await acceptMessages(this.#turn, inputs, { pluginId, from })));
  }
}

function denial(pluginId: string, output: ToolOutput): Owned {
  return { pluginId, value: { kind: "short_circuit_tool", output } };
}

function aborted({ code, message }: { readonly code: string; readonly message: string }): ToolOutput {
  return toolFailure({ code, message, class: "permission_denied", source: "plugin" });
}

function failed(thrown: unknown): ToolOutput {
  const code = MarlingError.is(thrown) ? thrown.code : "plugin_failed";
  return toolFailure({ code, message: messageOf(thrown), class: "internal", source: "plugin" });
}

function badReplacement(pluginId: string, refused: ToolOutput): ToolOutput {
  const { outcome } = refused;
  const reason = outcome.kind === "failure" ? outcome.message : outcome.kind;
  const message = `plugin ${pluginId} replaced the arguments by ones that the tool does not take: ${reason}`;
  return toolFailure({ code: "invalid_tool_args", class: "invalid_request", source: "plugin", message });
}
