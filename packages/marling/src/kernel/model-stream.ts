// One attempt's stream: deltas go to the watchers, through the stream hooks when there are any.
//   MS1  without stream hooks a delta costs its event; no promise, no hook lookup.
//   MS2  with hooks, chunks pass them one after the other; what watchers saw is what is kept.
//   MS3  a hook may end the stream: the text so far stands, and the attempt counts as a success.

import { deferred } from "../base/deferred.ts";
import { unreachable } from "../base/unreachable.ts";
import type { ModelStreamPart } from "../llm/contract.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { AssistantStreamTransform } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import { type TurnRun, emitPluginEvents } from "./turn-run.ts";

const TRAILING_USAGE_MS = 2_000;

export class ModelStream {
  readonly #turn: TurnRun;
  readonly #round: number;
  readonly #isHooked: boolean;
  readonly #abort = new AbortController();
  readonly #waiting: ModelStreamPart[] = [];
  readonly #ended = deferred<"aborted">();
  readonly #usageCame = deferred<void>();
  #pump: Promise<void> | undefined;
  #isPumping = false;
  #chunks: string[] = [];
  #usage: TokenUsage | undefined;
  #failure: unknown;
  #isAborted = false;
  onReset: ((reason: string, retryAfterMs: number) => void) | undefined;

  constructor(turn: TurnRun, round: number) {
    this.#turn = turn;
    this.#round = round;
    this.#isHooked = turn.session.plugins.hasAssistantStreamHooks;
  }

  /** What the model port is given to watch. */
  get signal(): AbortSignal {
    return AbortSignal.any([this.#abort.signal, this.#turn.control.signal]);
  }

  readonly sink = (part: ModelStreamPart): void => {
    if (this.#isHooked && (part.kind === "text_delta" || this.#isPumping)) this.#enqueue(part);
    else this.#take(part);
  };

  get hasStreamed(): boolean {
    return this.#chunks.length > 0;
  }

  /** The text that watchers saw. */
  get text(): string {
    return this.#chunks.join("");
  }

  get usage(): TokenUsage | undefined {
    return this.#usage;
  }

  get isAborted(): boolean {
    return this.#isAborted;
  }

  get round(): number {
    return this.#round;
  }

  /** True when hooks looked at the text, so that what they made of it is what counts. */
  get isHooked(): boolean {
    return this.#isHooked;
  }

  /** Resolves when the call is over or a hook has ended it; throws what a hook threw. */
  async settle<T>(call: Promise<T>): Promise<T | "aborted"> {
    const result = await Promise.race([call, this.#ended.promise]);
    await this.#pump;
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#isAborted) return result;
    await this.#awaitUsage(call);
    this.#abort.abort(new DOMException("a plugin ended the stream", "AbortError"));
    return "aborted";
  }

  #enqueue(part: ModelStreamPart): void {
    this.#waiting.push(part);
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#pump = this.#drain();
  }

  async #drain(): Promise<void> {
    try {
      for (let part = this.#waiting.shift(); part !== undefined; part = this.#waiting.shift()) {
        if (part.kind === "text_delta" && !this.#isAborted) await this.#transform(part.text);
        else if (part.kind !== "text_delta") this.#take(part);
      }
    } catch (failure) {
      this.#failure = failure;
      this.#ended.resolve("aborted");
      this.#abort.abort(failure);
    } finally {
      this.#isPumping = false;
    }
  }

  async #transform(chunk: string): Promise<void> {
    const { session } = this.#turn;
    const transforms = await session.plugins.transformAssistantStream(session.id, chunk);
    this.#apply(transforms);
  }

  #apply(transforms: readonly PluginOwned<AssistantStreamTransform>[]): void {
    const text = transforms.at(-1)?.value.chunk ?? "";
    for (const { pluginId, value } of transforms) {
      for (const delta of value.reasoningDeltas ?? []) this.#turn.emit({ kind: "reasoning_delta", round: this.#round, text: delta });
      emitPluginEvents(this.#turn, pluginId, value.events ?? []);
      if (value.abortStream === true) this.#isAborted = true;
    }
    if (text !== "") this.#show(text);
    if (this.#isAborted) this.#ended.resolve("aborted");
  }

  #take(part: ModelStreamPart): void {
    switch (part.kind) {
      case "text_delta":
        this.#show(part.text);
        break;
      case "reasoning_delta":
        if (!this.#isAborted) this.#turn.emit({ kind: "reasoning_delta", round: this.#round, text: part.text });
        break;
      case "usage":
        this.#usage = part.usage;
        this.#usageCame.resolve();
        break;
      case "attempt_reset":
        this.#chunks = [];
        this.#usage = undefined;
        this.onReset?.(part.reason, part.retryAfterMs);
        break;
      default:
        unreachable(part);
    }
  }

  #show(text: string): void {
    this.#chunks.push(text);
    this.#turn.emit({ kind: "text_delta", round: this.#round, text });
  }

  async #awaitUsage(call: Promise<unknown>): Promise<void> {
    if (this.#usage !== undefined) return;
    const { clock } = this.#turn.session.parts;
    let stop = (): void => {};
    const late = new Promise<void>((resolve) => {
      stop = clock.after(TRAILING_USAGE_MS, resolve);
    });
    await Promise.race([call, this.#usageCame.promise, late]);
    stop();
  }
}
