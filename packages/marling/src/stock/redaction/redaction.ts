// Redaction: secrets are replaced by marks before anything is stored or shown to the model.
//   RD1  inputs, the model's words, tool results and instructions pass through it; what it replaced is nowhere else.
//   RD2  watchers of a stream see what is stored: text is held back until it cannot be a part of a secret.
//   RD3  arguments of tool calls run as the model wrote them, and are stored so: a tool would not work with a mark in the
//        place of a key. Where that must not be, they are redacted too, and run with the marks.

import {
  type Directive,
  definePlugin,
  directive,
  type Json,
  type Plugin,
  type ResponsePart,
  type SessionPolicy,
  type ToolOutcome,
  type ToolOutput,
  type TurnInput,
} from "../../index.ts";
import type { AssistantResponseTransform, InputDecision, ToolResultHookContext } from "../../plugin/index.ts";
import { aBoolean, checkOptions, recordOf } from "../check-options.ts";
import { Redactor, SHAPES, StreamRedactor } from "./redactor.ts";

export interface RedactionOptions {
  /** More shapes of secrets, by the name that marks show. */
  readonly patterns?: Readonly<Record<string, RegExp>>;
  /** Secrets that are known as they are, such as the keys of the process; at least 8 characters each. */
  readonly secrets?: readonly string[];
  /** Whether the shapes of well-known keys and tokens count too; true by default. */
  readonly knownShapes?: boolean;
  /** Whether arguments of tool calls are redacted too; tools then get the marks. False by default. */
  readonly calls?: boolean;
}

const ID = "redaction";
const SHORTEST_SECRET = 8;

/** Keeps secrets out of histories, stores and prompts. Give it first: what stands before it sees what came in. */
export function redaction(options: RedactionOptions = {}): Plugin {
  checkOptions(ID, options, {
    patterns: recordOf((value) =>
      value instanceof RegExp && !value.test("")
        ? undefined
        : "a regular expression that needs at least a character",
    ),
    secrets: (value) =>
      Array.isArray(value) &&
      value.every((item) => typeof item === "string" && item.length >= SHORTEST_SECRET)
        ? undefined
        : `an array of texts with at least ${SHORTEST_SECRET} characters`,
    knownShapes: aBoolean,
    calls: aBoolean,
  });
  const { patterns = {}, secrets = [], knownShapes = true, calls = false } = options;
  const redactor = new Redactor({ ...(knownShapes ? SHAPES : {}), ...patterns }, secrets);
  return definePlugin({
    id: ID,
    build() {
      const stream = new StreamRedactor(redactor);
      return {
        input: { before: ({ input }) => redactInput(input, redactor) },
        output: {
          stream: ({ chunk }) => ({ chunk: stream.push(chunk) }),
          response: ({ response }) => redactResponse(response, { redactor, stream, calls }),
          streamFinished: () => stream.end(),
          recordsRaw: false,
        },
        toolCalls: { after: (call) => redactResult(call, redactor) },
        session: { mutateConfig: (_ctx, policy) => redactPolicy(policy, redactor) },
      };
    },
  })();
}

function redactInput(input: TurnInput, redactor: Redactor): InputDecision | undefined {
  const text = redactor.text(input.text ?? "");
  return text === (input.text ?? "") ? undefined : { input: { ...input, text } };
}

type Response = AssistantResponseTransform["response"];

/** The words that were shown, with what was held back of them at the end. */
function redactResponse(
  response: Response,
  {
    redactor,
    stream,
    calls,
  }: { readonly redactor: Redactor; readonly stream: StreamRedactor; readonly calls: boolean },
): AssistantResponseTransform | undefined {
  const rest = stream.end();
  const parts = response.parts.map((part) =>
    part.kind === "tool_call" ? (calls ? redactCall(part, redactor) : part) : redactPart(part, redactor),
  );
  const last = parts.findLastIndex(({ kind }) => kind === "text");
  const withRest = rest === "" ? parts : appended(parts, last, rest);
  const isSame =
    withRest.length === response.parts.length && withRest.every((part, at) => part === response.parts[at]);
  return isSame ? undefined : { response: { ...response, parts: withRest } };
}

function appended(parts: readonly ResponsePart[], at: number, rest: string): readonly ResponsePart[] {
  const part = parts[at];
  if (part?.kind !== "text") return [...parts, { kind: "text", text: rest }];
  return parts.with(at, { ...part, text: part.text + rest });
}

type CallPart = Extract<ResponsePart, { readonly kind: "tool_call" }>;

/** Arguments are a text of JSON; marks need no escapes. */
function redactCall(part: CallPart, redactor: Redactor): CallPart {
  const args = redactor.text(part.args);
  if (args === part.args) return part;
  const { replay: _replay, ...rest } = part;
  return { ...rest, args };
}

function redactPart(part: Exclude<ResponsePart, CallPart>, redactor: Redactor): ResponsePart {
  const text = redactor.text(part.text);
  if (text === part.text) return part;
  // What a provider signed no longer holds for another text.
  const { replay: _replay, ...rest } = part;
  return { ...rest, text };
}

function redactResult({ result }: ToolResultHookContext, redactor: Redactor): Directive | undefined {
  const outcome = redactOutcome(result.outcome, redactor);
  if (outcome === result.outcome) return undefined;
  const { control } = result;
  const output: ToolOutput = { outcome, ...(control === undefined ? {} : { control }) };
  return directive.shortCircuitTool(output);
}

function redactOutcome(outcome: ToolOutcome, redactor: Redactor): ToolOutcome {
  if (outcome.kind === "success") {
    const value = redactor.json(outcome.value as Json);
    return value === outcome.value ? outcome : { ...outcome, value: value as typeof outcome.value };
  }
  const message = redactor.text(outcome.message);
  const raw = outcome.raw === undefined ? undefined : redactor.json(outcome.raw as Json);
  if (message === outcome.message && raw === outcome.raw) return outcome;
  return {
    ...outcome,
    message,
    ...(raw === undefined ? {} : { raw: raw as NonNullable<typeof outcome.raw> }),
  };
}

function redactPolicy(policy: SessionPolicy, redactor: Redactor): SessionPolicy | undefined {
  const { instructions } = policy;
  if (instructions === undefined) return undefined;
  const text = redactor.text(instructions);
  return text === instructions ? undefined : { ...policy, instructions: text };
}
