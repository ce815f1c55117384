// The demo agent's model: plays the script word by word, as a provider would stream it.

import { setTimeout as sleep } from "node:timers/promises";
import type { ModelOutcome, ModelPort, ModelRequest, ModelSink, ResponsePart, TokenUsage } from "marling";
import { type DemoStep, demoStep } from "./demo-script.ts";

export interface DemoModelOptions {
  /** How long it takes over a word. */
  readonly wordMs?: number;
}

const CHARACTERS_PER_TOKEN = 4;

export function demoModel({ wordMs = 12 }: DemoModelOptions = {}): ModelPort {
  return {
    id: "demo",
    contextWindow: 100_000,
    call: async (request, { sink, signal }) => {
      const step = demoStep(request.messages);
      try {
        return await play(step, request, { sink, signal, wordMs });
      } catch (thrown) {
        if (!signal.aborted) throw thrown;
        const failure = { kind: "cancelled", message: "the call was cancelled", retryable: false } as const;
        return { kind: "failure", failure };
      }
    },
  };
}

interface Playing {
  readonly sink: ModelSink;
  readonly signal: AbortSignal;
  readonly wordMs: number;
}

async function play(step: DemoStep, request: ModelRequest, playing: Playing): Promise<ModelOutcome> {
  const parts: ResponsePart[] = [];
  const { thought } = step;
  if (thought !== undefined) {
    await stream("reasoning_delta", thought, playing);
    parts.push({ kind: "reasoning", text: thought });
  }
  if (step.kind === "say") {
    await stream("text_delta", step.text, playing);
    parts.push({ kind: "text", text: step.text });
    return { kind: "response", response: { parts, usage: usageOf(request, step.text), finish: "stop" } };
  }
  const before = request.messages.flatMap(({ parts }) => parts).filter(({ kind }) => kind === "tool_call");
  for (const [index, [name, args]] of step.calls.entries())
    parts.push({
      kind: "tool_call",
      callId: `call_${before.length + index + 1}`,
      name,
      args: JSON.stringify(args),
    });
  const usage = usageOf(request, JSON.stringify(step.calls));
  return { kind: "response", response: { parts, usage, finish: "tool_use" } };
}

async function stream(
  kind: "text_delta" | "reasoning_delta",
  text: string,
  { sink, signal, wordMs }: Playing,
): Promise<void> {
  for (const word of text.match(/\s*\S+\s*$|\s*\S+/g) ?? []) {
    await sleep(wordMs, undefined, { signal });
    sink({ kind, text: word });
  }
}

/** A script uses no tokens; about as many as a model would are counted, so that there is something to see. */
function usageOf({ system, messages }: ModelRequest, answer: string): TokenUsage {
  const input = Math.ceil((system.length + JSON.stringify(messages).length) / CHARACTERS_PER_TOKEN);
  const output = Math.ceil(answer.length / CHARACTERS_PER_TOKEN);
  return { input, output, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
}
