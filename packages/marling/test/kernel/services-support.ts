// What plugins and tools ask of their host, made callable for tests: in a tool, in a hook, and beside turns.

import {
  definePlugin,
  defineTool,
  type Json,
  type Plugin,
  type ReplayPolicy,
  type Session,
  type ToolContext,
  type ToolDefinition,
  type UsageEntry,
} from "marling";
import { type ScriptFunction, type ScriptStep, say } from "marling/testing";
import type { HostServices } from "../../src/plugin/host-services.ts";

/** What is answered to each input, round by round; an input that is not named is answered by its own text. */
export type Answers = Readonly<Record<string, readonly (ScriptStep | ScriptFunction)[]>>;

/** A model that answers from the conversation, so that any session and any runtime can go on with it. */
export function answering(answers: Answers): ScriptFunction {
  return (request) => {
    const { messages } = request;
    const last = messages.findLastIndex(({ role }) => role === "user");
    const parts = messages[last]?.parts ?? [];
    const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("");
    const round = messages.slice(last).filter(({ role }) => role === "assistant").length;
    const step = answers[text]?.[round] ?? say(`Answer to ${text}.`);
    return typeof step === "function" ? step(request) : step;
  };
}

type Act = (host: HostServices, args: Json, ctx: ToolContext) => Promise<unknown>;

/** A tool that does something with everything it may ask for. */
export function hostTool(
  name: string,
  act: Act,
  { replay = "safe", ...more }: { readonly replay?: ReplayPolicy; readonly isOrchestrating?: true } = {},
): ToolDefinition {
  return defineTool({
    name,
    description: "Asks its host.",
    input: { type: "object" },
    replay,
    ...more,
    execute: (input: unknown, ctx: ToolContext) => act(ctx.host as HostServices, input as Json, ctx),
  }) as ToolDefinition;
}

/** A plugin whose actions do something with everything they may ask for; actions run beside turns. */
export function acting(
  acts: Readonly<Record<string, (host: HostServices, args: Json) => Promise<unknown>>>,
): Plugin {
  const actions = Object.entries(acts).map(([name, act]) => [
    name,
    {
      session: "required" as const,
      handler: (ctx: { readonly host: HostServices }, args: Json) => act(ctx.host, args),
    },
  ]);
  return definePlugin({
    id: "acting",
    build: () => ({ operations: { actions: Object.fromEntries(actions) } }),
  })();
}

/** What an action came to; its failure is thrown. */
export async function act(session: Session, name: string, args: Json = null): Promise<Json> {
  const { outcome } = await session.action(name, args);
  if (outcome.kind === "success") return outcome.value as Json;
  throw new Error(`${outcome.kind === "failure" ? outcome.code : outcome.kind}: ${outcome.message}`);
}

/** The ledger as lines: source, model and tokens in and out. */
export function ledger(session: Session): readonly string[] {
  return lines(session.usage().entries);
}

export function lines(entries: readonly UsageEntry[]): readonly string[] {
  return entries
    .map(({ source, model, usage }) => `${source} ${model} ${usage.input}+${usage.output}`)
    .sort();
}

/** The code that a promise was rejected with, or what it came to. */
export async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => value,
    (thrown: unknown) => (thrown as { readonly code?: string }).code ?? String(thrown),
  );
}
