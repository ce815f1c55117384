// The environment of a round: the system prompt and the tools the model is told of.
//   EN1  within a turn it is made again only when the tools, a plugin's state or the overlay moved. Where nothing did, and
//        no earlier run says otherwise, the round asks for no effect and costs no write.
//   EN2  what a turn was begun with is kept by content address, and every run of it uses that: a deployment in between
//        changes the next turn, not this one.
//   EN3  where no code of plugins takes part, it is made when the input is accepted and kept with it, so that it costs no
//        write of its own.
//   EN4  sessions of a runtime that have the same environment have one object of it.
//   EN5  plugins are asked what they contribute; where they say what they said last, nothing is put together anew.

import { isPromise } from "../base/deferred.ts";
import type { ToolSpec } from "../llm/contract.ts";
import type { EffectKey } from "../model/ids.ts";
import { isJsonObject, type Json, jsonEqual } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution, PromptLayer } from "../model/prompt.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import { DEFAULT_TEMPLATE } from "../prompt/render.ts";
import { resolveLayers } from "../prompt/resolve.ts";
import type { TurnEffect, TurnRecord } from "../turn/effect.ts";
import { givenTo, namesOf } from "./environment-names.ts";
import type { ResidentSession } from "./resident-session.ts";
import { withHost } from "./services.ts";
import { TurnFault } from "./turn-fault.ts";
import { isRecorded, performEffect, type TurnRun, viewOf } from "./turn-run.ts";

export interface Environment {
  readonly system: string;
  readonly tools: readonly ToolSpec[];
}

/** What is contributed where nobody is asked. */
const NOBODY: readonly PromptContribution[] = Object.freeze([]);

/** An environment that was made when its input was accepted, by its address. */
export interface PlannedEnvironment {
  readonly ref: string;
  /** What it was made from, when this process made it. */
  readonly from?: EnvironmentSource;
}

/** What an environment is made from where nobody is asked; both are replaced when they change. */
export interface EnvironmentSource {
  readonly catalogKey: string;
  readonly policy: SessionPolicy;
}

/** What is recorded of a round: a new environment by its address or, where nothing is kept, the thing itself. */
type EnvironmentOutcome = { readonly ref: string } | { readonly environment: Environment };

type EnvironmentEffect = Extract<TurnEffect, { kind: "environment" }>;

/** Puts the environment of a round in place; at once where nothing moved. */
export function performEnvironment(
  turn: TurnRun,
  effect: EnvironmentEffect,
  records: readonly TurnRecord[],
): Awaitable<void> {
  const isInPlace = isUnmoved(turn, effect.key as EffectKey);
  if (isInPlace !== true) return placeEnvironment(turn, effect, { records, isInPlace });
}

async function placeEnvironment(
  turn: TurnRun,
  effect: EnvironmentEffect,
  { records, isInPlace }: { records: readonly TurnRecord[]; isInPlace: Awaitable<boolean> },
): Promise<void> {
  const { session } = turn;
  if (await isInPlace) return;
  const key = effect.key as EffectKey;
  // No model is asked in a turn that is ending.
  if (turn.control.ending !== undefined && !(await isRecorded(turn, key))) return;
  const planned = turn.environment === undefined ? await plannedEnvironment(turn, key) : undefined;
  if (planned !== undefined) return use(turn, planned);
  let made: Environment | undefined;
  const outcome = await performEffect<EnvironmentOutcome>(turn, effect, async (scope) => {
    const contributed = await contributionsTo(scope, records);
    const { kept } = environmentWith(session, contributed);
    made = kept.environment;
    return session.parts.effects.remembers === true ? { ref: put(session, kept).ref } : { environment: made };
  });
  made ??= "ref" in outcome ? await read(session, outcome.ref) : outcome.environment;
  use(turn, made ?? environmentOf(session, await contributionsTo(turn, records)));
}

/** Makes the environment of the next turn and keeps it, where that can be done without asking anybody. */
export function planEnvironment(session: ResidentSession): PlannedEnvironment | undefined {
  const { plugins, parts } = session;
  const isAsked =
    plugins.runner.has("prompt.contribute") || plugins.hasBeforeTurnHooks || plugins.hasContextTransforms;
  if (parts.effects.remembers !== true || isAsked || !session.turnPreamble().syncsEnvironment)
    return undefined;
  const { kept, from } = environmentWith(session, NOBODY);
  return { ref: put(session, kept).ref, from };
}

/** The environment with what was contributed: that of the last time, where it was made from the same. */
function environmentWith(
  session: ResidentSession,
  contributed: readonly PromptContribution[],
): MadeEnvironment {
  const from = { catalogKey: session.catalogKey, policy: session.policy };
  const known = session.madeEnvironment;
  if (known !== undefined && isSameSource(known.from, from) && isSame(known.contributed, contributed))
    return known;
  const made = { from, contributed, kept: keptOf(session, environmentOf(session, contributed)) };
  session.madeEnvironment = made;
  return made;
}

function isSame(one: readonly PromptContribution[], other: readonly PromptContribution[]): boolean {
  return jsonEqual(one as unknown as Json, other as unknown as Json); // They are plain.
}

/** Whether the environment of the round before is that of this one: nothing moved, and no earlier run has made another. */
function isUnmoved(turn: TurnRun, key: EffectKey): Awaitable<boolean> {
  const { session, environment, environmentMark } = turn;
  if (environment === undefined || environmentMark !== session.catalogKey) return false;
  const known = isRecorded(turn, key);
  return isPromise(known) ? known.then((isKnown) => !isKnown) : !known;
}

function use(turn: TurnRun, environment: Environment): void {
  turn.environment = environment;
  turn.environmentMark = turn.session.catalogKey;
}

/** What the input was accepted with, unless the session has moved between that and now, or had in an earlier run. */
async function plannedEnvironment(turn: TurnRun, key: EffectKey): Promise<Environment | undefined> {
  const { plan, session } = turn;
  if (plan === undefined) return undefined;
  if (plan.from === undefined) return (await isRecorded(turn, key)) ? undefined : read(session, plan.ref);
  if (!isSameSource(plan.from, session)) return undefined;
  const here = session.madeEnvironment;
  return here?.kept.ref === plan.ref ? here.kept.environment : read(session, plan.ref);
}

function isSameSource(
  one: EnvironmentSource | undefined,
  { catalogKey, policy }: EnvironmentSource,
): boolean {
  return one?.catalogKey === catalogKey && one.policy === policy;
}

/** The environment that a session made last, and what it was made from. */
export interface MadeEnvironment {
  readonly from: EnvironmentSource;
  readonly contributed: readonly PromptContribution[];
  readonly kept: KeptEnvironment;
}

/** An environment as it is kept; all sessions that have the same one have this. */
export interface KeptEnvironment {
  readonly environment: Environment;
  readonly ref: string;
  readonly bytes: Uint8Array;
}

/** The one that all sessions with the same environment have. It names what a runtime needs to resume a turn with it. */
function keptOf({ parts, plugins, turnPlugins }: ResidentSession, environment: Environment): KeptEnvironment {
  const names =
    parts.effects.remembers === true
      ? { names: namesOf(plugins, turnPlugins ?? givenTo(parts), environment.tools) }
      : {};
  const text = JSON.stringify({ version: 1, ...environment, ...names });
  return parts.environments.get(text, () => {
    const bytes = Buffer.from(text);
    return { environment, ref: parts.store.blobs.ref(bytes), bytes };
  });
}

/** Keeps an environment; for a store that has it already that costs nothing. What names it is written together with it, or after it. */
function put({ parts }: ResidentSession, kept: KeptEnvironment): KeptEnvironment {
  parts.store.blobs.put(kept.bytes).catch(() => undefined); // Whatever names it fails as well, or makes it again.
  return kept;
}

/** What was kept under an address; nothing when the store failed to keep it, and what named it was written all the same. */
async function read({ parts }: ResidentSession, ref: string): Promise<Environment | undefined> {
  const bytes = await parts.store.blobs.get(ref);
  if (bytes === undefined) return undefined;
  const json = JSON.parse(Buffer.from(bytes).toString()) as Json;
  if (isJsonObject(json) && json.version === 1) return json as unknown as Environment; // as `keep` wrote it
  throw new TurnFault("unsupported_version", `environment ${ref}: expected version 1, found another version`);
}

/** What plugins want in the prompt. */
async function contributionsTo(
  turn: TurnRun,
  records: readonly TurnRecord[],
): Promise<readonly PromptContribution[]> {
  const { session } = turn;
  const context = {
    sessionId: session.id,
    state: viewOf(turn, records),
    protocolTurnOptions: session.frame.protocolOptions,
    turnContext: turn.context,
  };
  return withHost(context, { scope: turn, name: "prompt" }, (asked) =>
    session.plugins.collectPromptContributions(asked),
  );
}

function environmentOf(session: ResidentSession, contributed: readonly PromptContribution[]): Environment {
  return { system: renderSystem(session, contributed), tools: session.resolvedToolCatalog().specs() };
}

function renderSystem(session: ResidentSession, contributed: readonly PromptContribution[]): string {
  const catalog = session.resolvedToolCatalog();
  const preamble = session.turnPreamble();
  const { policy } = session;
  const layers: readonly PromptLayer[] = [
    contributionLayer(preamble.promptContributions),
    contributionLayer([...session.contextPromptContributions, ...contributed]),
    instructionLayer(policy.instructions ?? session.parts.instructions),
    policy.prompt ?? {},
  ];
  const { template, contributions } = resolveLayers(layers, {
    template: DEFAULT_TEMPLATE,
    toolNames: catalog.names,
  });
  const { text } = session.promptCache.render({
    template,
    contributions,
    executionPrompt: preamble.executionPrompt,
    toolNames: catalog.names,
  });
  return text;
}

function contributionLayer(contributions: readonly PromptContribution[]): PromptLayer {
  const slots: {
    -readonly [S in keyof NonNullable<PromptLayer["slots"]>]: NonNullable<PromptLayer["slots"]>[S];
  } = {};
  for (const contribution of contributions) {
    slots[contribution.slot] = {
      contributions: [...(slots[contribution.slot]?.contributions ?? []), contribution],
    };
  }
  return { slots };
}

function instructionLayer(instructions: string | undefined): PromptLayer {
  if (instructions === undefined || instructions.trim() === "") return {};
  return {
    slots: {
      project_instructions: { contributions: [{ slot: "project_instructions", content: instructions }] },
    },
  };
}
