// What a runtime is made with. Every mistake is named where it is made.

import type { Clock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import type { EffectHost } from "../effects/contract.ts";
import { type AiSdkModelOptions, aiSdkModel } from "../llm/ai-sdk/ai-sdk-model.ts";
import { type AiSdkLanguageModel, isAiSdkModel } from "../llm/ai-sdk/language-model.ts";
import type { ModelPort } from "../llm/contract.ts";
import { type ModelDefaults, withDefaults } from "../llm/model-defaults.ts";
import { type AnswerLimits, DEFAULT_ANSWER_LIMITS } from "../model/answer-limits.ts";
import { isBudget } from "../model/policy.ts";
import type { Plugin } from "../plugin/plugin.ts";
import type { PhaseProbe } from "../plugin/probe.ts";
import type { Store } from "../store/contract.ts";
import type { ToolProvider } from "../tool/contract.ts";
import type { ToolDefinition } from "../tool/define-tool.ts";
import { LONGEST_TIMEOUT_MS } from "../tool/manifest.ts";
import type { TraceSink } from "../trace/contract.ts";
import type { AttachmentPolicy } from "./attachments.ts";
import type { ModelBinding } from "./parts.ts";

/** A model with what is known of it, and what its calls are made with unless a request says otherwise. */
export interface ModelSettings extends ModelDefaults {
  readonly model: ModelPort | AiSdkLanguageModel;
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
  /** For models of the AI SDK: `off` marks nothing for the provider's prompt cache. */
  readonly promptCache?: NonNullable<AiSdkModelOptions["promptCache"]>;
}

/** A model of the AI SDK (specification v3 or v4), a model port, or one of them with settings. */
export type ModelOption = ModelPort | AiSdkLanguageModel | ModelSettings;

/** Each limit is lifted by `"unbounded"`. */
export interface AnswerLimitOptions {
  /** Text, reasoning, tool calls and the provider's data with them; 16 MiB by default. */
  readonly answerBytes?: number | "unbounded";
  /** Tool calls of one answer; 256 by default. */
  readonly answerCalls?: number | "unbounded";
  /** From the request to the end of the answer, by the runtime's clock; 30 minutes by default. */
  readonly answerMs?: number | "unbounded";
}

export interface RuntimeOptions {
  readonly model?: ModelOption;
  /** More models by name; sessions and policies name them. */
  readonly models?: Readonly<Record<string, ModelOption>>;
  /** Where sessions are kept; by default in memory. */
  readonly store?: Store;
  readonly effects?: EffectHost;
  readonly plugins?: readonly Plugin[];
  /**
   * Plugins that this runtime gives up, by id, each with the reason. Sessions that name one run without it from now on; the
   * first commit of each records that. A turn whose journal has begun keeps its plugins.
   */
  readonly retired?: Readonly<Record<string, string>>;
  readonly tools?: ToolProvider | readonly (ToolDefinition | ToolProvider)[];
  readonly instructions?: string;
  /** Model calls per turn. */
  readonly turnBudget?: number | "unbounded";
  /** A stable name of this worker, told to traces; by default the host's name and the process id. */
  readonly owner?: string;
  /** How long a session stays this worker's when it stops answering; renewed three times as often. */
  readonly leaseMs?: number;
  /** A hook that has not settled by then fails by name. */
  readonly hookTimeoutMs?: number;
  /** Tool calls of one response that run at once. */
  readonly toolConcurrency?: number;
  /**
   * How long an attempt of a tool may take, unless the tool has a `timeoutMs`; as long as it likes by default. A tool that
   * takes longer is told by its signal and fails with `tool_timeout`; a loop that never yields cannot be stopped.
   */
  readonly toolTimeoutMs?: number;
  readonly attachmentPolicy?: AttachmentPolicy;
  /** How much one turn may add to its session: nodes and state, as JSON, 16 MiB by default. One with more ends as `commit_too_large`. */
  readonly commitBudget?: { readonly bytes?: number };
  /**
   * How long a write that the store refuses is tried again, with growing pauses: 60 000 ms by default. A turn whose commit
   * is still refused then stays accepted, and its `result` rejects with the store's error.
   */
  readonly storeRetryMs?: number;
  /** What one answer of a model may have. An answer that reaches a limit is a failure `answer_limit`, and nothing of it runs. */
  readonly limits?: AnswerLimitOptions;
  readonly trace?: TraceSink;
  readonly clock?: Clock;
  /** Told when each hook begins and ends. */
  readonly probe?: PhaseProbe;
}

const A_TOOL = "an array of tools, or a tool provider";
const A_MODEL = "a model of the AI SDK (specification v3 or v4) or a model port";

const OPTIONS: { readonly [K in keyof Required<RuntimeOptions>]: (value: unknown) => string | undefined } = {
  model: (value) =>
    isModelOption(value) ? undefined : `${A_MODEL}, or { model, contextWindow?, maxOutputTokens? }`,
  models: (value) =>
    isRecord(value) && Object.values(value).every(isModelOption)
      ? undefined
      : `an object of models by name, each ${A_MODEL}`,
  store: (value) =>
    isRecord(value) && typeof value.commit === "function" ? undefined : "a store, such as memoryStore()",
  effects: (value) =>
    isRecord(value) && typeof value.run === "function"
      ? undefined
      : "an effect host, such as inlineEffects()",
  plugins: (value) => (Array.isArray(value) ? undefined : "an array of plugins"),
  tools: (value) => (Array.isArray(value) ? mistakeIn(value) : isTool(value) ? undefined : A_TOOL),
  instructions: (value) => (typeof value === "string" ? undefined : "a string"),
  retired: (value) =>
    isRecord(value) &&
    Object.values(value).every((reason) => typeof reason === "string" && reason.trim() !== "")
      ? undefined
      : "reasons by plugin id, none of them blank",
  turnBudget: (value) => (isBudget(value) ? undefined : 'a positive whole number, or "unbounded"'),
  owner: (value) => (typeof value === "string" && value.trim() !== "" ? undefined : "a non-blank string"),
  leaseMs: (value) => (isPositive(value) ? undefined : "a positive number of milliseconds"),
  hookTimeoutMs: (value) => (isPositive(value) ? undefined : "a positive number of milliseconds"),
  toolConcurrency: (value) =>
    isPositive(value) && Number.isInteger(value) ? undefined : "a positive whole number",
  toolTimeoutMs: (value) =>
    isPositive(value) && value <= LONGEST_TIMEOUT_MS
      ? undefined
      : `a positive number of milliseconds up to ${LONGEST_TIMEOUT_MS}`,
  attachmentPolicy: (value) => (typeof value === "function" ? undefined : "a function"),
  commitBudget: (value) =>
    isRecord(value) &&
    Object.entries(value).every(([name, bytes]) => name === "bytes" && isPositive(bytes ?? 1))
      ? undefined
      : "{ bytes? } with a positive number of bytes",
  storeRetryMs: (value) =>
    value === 0 || isPositive(value) ? undefined : "a number of milliseconds, 0 or more",
  limits: (value) => (isRecord(value) ? undefined : "{ answerBytes?, answerCalls?, answerMs? }"),
  trace: (value) =>
    isRecord(value) && typeof value.record === "function" ? undefined : "a trace sink with record()",
  clock: (value) =>
    isRecord(value) && typeof value.now === "function"
      ? undefined
      : "a clock with now(), monotonic(), sleep() and after()",
  probe: (value) =>
    isRecord(value) && typeof value.beginNamed === "function"
      ? undefined
      : "a probe with beginNamed() and endNamed()",
};

/** Throws `invalid_options`, naming the option. */
export function checkRuntimeOptions(options: unknown): asserts options is RuntimeOptions {
  if (!isRecord(options)) throw refuse("options", "an object", options);
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(OPTIONS, name))
      throw refuse(name, `one of the options ${Object.keys(OPTIONS).join(", ")}`, undefined);
    const expected = value === undefined ? undefined : OPTIONS[name as keyof RuntimeOptions](value);
    if (expected !== undefined) throw refuse(name, expected, value);
  }
  checkLimits((options as RuntimeOptions).limits ?? {});
  refuseRetired(options as RuntimeOptions);
}

const A_COUNT = 'a positive whole number, or "unbounded"';

const LIMITS: { readonly [K in keyof AnswerLimits]: (value: unknown) => string | undefined } = {
  answerBytes: (value) => (Number.isSafeInteger(value) && isPositive(value) ? undefined : A_COUNT),
  answerCalls: (value) => (Number.isSafeInteger(value) && isPositive(value) ? undefined : A_COUNT),
  answerMs: (value) =>
    isPositive(value) && value <= LONGEST_TIMEOUT_MS
      ? undefined
      : `a positive number of milliseconds up to ${LONGEST_TIMEOUT_MS}, or "unbounded"`,
};

function checkLimits(limits: AnswerLimitOptions): void {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(LIMITS, name))
      throw refuse(`limits.${name}`, `one of the limits ${Object.keys(LIMITS).join(", ")}`, undefined);
    if (value === undefined || isLifted(value)) continue;
    const expected = LIMITS[name as keyof AnswerLimits](value);
    if (expected !== undefined) throw refuse(`limits.${name}`, expected, value);
  }
}

function isLifted(value: unknown): boolean {
  return value === "unbounded" || value === Number.POSITIVE_INFINITY;
}

/** All limits of an answer, those that are not given included. */
export function answerLimitsOf({ limits = {} }: RuntimeOptions): AnswerLimits {
  const of = (name: keyof AnswerLimits): number => {
    const value = limits[name] ?? DEFAULT_ANSWER_LIMITS[name];
    return value === "unbounded" ? Number.POSITIVE_INFINITY : value;
  };
  return Object.freeze({
    answerBytes: of("answerBytes"),
    answerCalls: of("answerCalls"),
    answerMs: of("answerMs"),
  });
}

/** A plugin cannot be given and given up. */
function refuseRetired({ plugins = [], retired = {} }: RuntimeOptions): void {
  const both = plugins.find((plugin) => Object.hasOwn(retired, plugin?.id));
  if (both !== undefined)
    throw refuse(`retired.${both.id}`, "a plugin that is not among the option plugins", undefined);
}

/** The models by name; the one given as `model` is `default`. */
export function bindModels({ model, models = {} }: RuntimeOptions): ReadonlyMap<string, ModelBinding> {
  const bindings = new Map<string, ModelBinding>();
  if (model !== undefined) bindings.set("default", binding("default", model));
  for (const [name, option] of Object.entries(models)) {
    if (name === "default" && model !== undefined)
      throw refuse("models.default", "another name than `default`, which is the option `model`", undefined);
    bindings.set(name, binding(name, option));
  }
  return bindings;
}

function binding(name: string, option: ModelOption): ModelBinding {
  const settings: ModelSettings = "model" in option ? option : { model: option };
  const { model, contextWindow, maxOutputTokens, promptCache = "auto" } = settings;
  for (const [limit, tokens] of Object.entries({ contextWindow, maxOutputTokens })) {
    if (tokens !== undefined && !isPositive(tokens))
      throw refuse(`${name}.${limit}`, "a positive number of tokens", tokens);
  }
  const port = withDefaults(isAiSdkModel(model) ? aiSdkModel(model, { promptCache }) : model, settings);
  return {
    name,
    port,
    contextWindow: contextWindow ?? port.contextWindow,
    maxOutputTokens: maxOutputTokens ?? port.maxOutputTokens,
  };
}

/** What is wrong with a list of tools; nothing when nothing is. */
function mistakeIn(tools: readonly unknown[]): string | undefined {
  const index = tools.findIndex((tool) => !isTool(tool));
  if (index < 0) return undefined;
  const tool = tools[index];
  if (Array.isArray(tool)) return `a tool at ${index}, which is a list: spread it`;
  if (typeof tool === "function") return `a tool at ${index}, which is a function: call it`;
  if (isRecord(tool) && typeof tool.build === "function")
    return `a tool at ${index}, which is a plugin: it belongs to the option plugins`;
  return `a tool or a tool provider at ${index}`;
}

/** What `defineTool` makes, or a provider. */
function isTool(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return (
    typeof value.manifests === "function" || (isRecord(value.manifest) && typeof value.execute === "function")
  );
}

function isModelOption(value: unknown): boolean {
  return isModel(value) || (isRecord(value) && isModel(value.model));
}

function isModel(value: unknown): boolean {
  return isAiSdkModel(value) || (isRecord(value) && typeof value.call === "function");
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isPositive(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value > 0;
}

function refuse(option: string, expected: string, found: unknown): MarlingError {
  const what = found === undefined ? "" : `, found ${describe(found)}`;
  return new MarlingError("invalid_options", `option ${option}: expected ${expected}${what}`, {
    details: { option },
  });
}

function describe(value: unknown): string {
  if (value === null) return "null";
  if (isRecord(value) && typeof value.specificationVersion === "string")
    return `a model of the AI SDK's specification ${value.specificationVersion}`;
  return typeof value === "object"
    ? "an object of another kind"
    : typeof value === "function"
      ? "a function"
      : typeof value === "number"
        ? String(value)
        : JSON.stringify(value);
}
