// One attempt's stream: deltas go to the watchers, through the stream hooks when there are any.
//   MS1  a delta costs its event, and with hooks their answers: no promise, no queue, unless a hook returns a promise.
//   MS2  with hooks, parts are taken one after the other, resets included; what watchers saw is what is kept.
//   MS3  a hook may end the stream: the text so far stands, and only usage is still waited for.
//   MS5  what hooks write to state while an answer streams is held until the answer counts. A reset or a failure drops it,
//        before the hooks are told.
//   MS4  a cancelled turn waits for no port, and after the attempt nothing is shown, whatever a port still sends.

import { type Deferred, deferred, isPromise } from "../base/deferred.ts";
import { LinkedSignal } from "../base/linked-signal.ts";
import { unreachable } from "../base/unreachable.ts";
import type { ModelStreamPart } from "../llm/contract.ts";
import type { ModelOutcome } from "../model/model-response.ts";
import { isNoUsage, type TokenUsage } from "../model/usage.ts";
import { HeldDrafts } from "../plugin/held-drafts.ts";
import type { AssistantStreamTransform } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import { finishStream } from "./finish-stream.ts";
import { emitPluginEvents, type TurnRun } from "./turn-run.ts";

const TRAILING_USAGE_MS = 2_000;

type ResetPart = Extract<ModelStreamPart, { kind: "attempt_reset" }>;

export interface ModelStreamOptions {
  readonly round: number;
  /** Told when the port begins again, with what the attempt before it had used. */
  onReset(part: ResetPart, usage: TokenUsage | undefined): void;
}

/** How an attempt ended: as the port says, by a hook, or by whoever cancelled the turn. */
export type StreamEnd = ModelOutcome | { readonly kind: "aborted" } | { readonly kind: "cancelled" };

export class ModelStream {
  readonly #turn: TurnRun;
  readonly #options: ModelStreamOptions;
  readonly #asksHooks: boolean;
  readonly #tellsHooks: boolean;
  /** There where hooks may end the stream before the turn does. */
  readonly #abort: LinkedSignal | undefined;
  readonly #waiting: ModelStreamPart[] = [];
  /** Settled by the port, or by whatever ends the attempt before it does: then with nothing. */
  readonly #ended: Deferred<ModelOutcome | undefined> = deferred<ModelOutcome | undefined>();
  /** There while usage is waited for. */
  #usageCame: Deferred<void> | undefined;
  /** What hooks wrote to state in this attempt; there where hooks look at the text. */
  readonly #held: HeldDrafts | undefined;
  #pump: Promise<void> | undefined;
  #shown: string[] = [];
  #hasText = false;
  #usage: TokenUsage | undefined;
  #hookFailure: { readonly thrown: unknown } | undefined;
  #isAborted = false;
  #isOver = false;

  constructor(turn: TurnRun, options: ModelStreamOptions) {
    const { hasAssistantStreamHooks, hasAssistantStreamFinishedHooks } = turn.session.plugins;
    this.#turn = turn;
    this.#options = options;
    this.#asksHooks = hasAssistantStreamHooks;
    const { scopes } = turn.session.plugins;
    this.#held = hasAssistantStreamHooks ? new HeldDrafts({ scopes, hook: "output.stream" }) : undefined;
    this.#tellsHooks = hasAssistantStreamFinishedHooks;
    const mayEnd = hasAssistantStreamHooks || hasAssistantStreamFinishedHooks;
    this.#abort = mayEnd ? new LinkedSignal(turn.control.signal) : undefined;
  }

  /** What the model port is given to watch. */
  get signal(): AbortSignal {
    return (this.#abort ?? this.#turn.control).signal;
  }

  readonly sink = (part: ModelStreamPart): void => {
    if (this.#isOver || (this.#isAborted && part.kind !== "usage")) return;
    if (part.kind === "text_delta" && part.text === "") return;
    if (this.#pump !== undefined) this.#waiting.push(part);
    else if (this.#needsHooks(part)) this.#ask(part);
    else this.#take(part);
  };

  /** Whether the port streamed any text, even if hooks let nothing of it through. */
  get hasText(): boolean {
    return this.#hasText;
  }

  /** The text that watchers saw. */
  get text(): string {
    return this.#shown.join("");
  }

  get usage(): TokenUsage | undefined {
    return this.#usage;
  }

  get round(): number {
    return this.#options.round;
  }

  /** True when hooks looked at the text, so that what they made of it is what counts. */
  get isHooked(): boolean {
    return this.#asksHooks;
  }

  /** Resolves when the call is over, a hook has ended it or the turn is cancelled. Throws what a hook threw. */
  async settle(call: Promise<ModelOutcome>): Promise<StreamEnd> {
    const { signal } = this.#turn.control;
    const end = (): void => {
      this.#ended.resolve(undefined);
      this.#usageCame?.resolve();
    };
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    try {
      call.then(this.#ended.resolve, this.#ended.reject);
      const outcome = await this.#ended.promise;
      if (this.#pump !== undefined) await this.#pump; // A hook that was asked is waited for: what it writes belongs to this call.
      if (this.#isAborted && this.#hookFailure === undefined) await this.#awaitUsage(call);
      const ended = this.#endOf(outcome);
      if (ended.kind !== "failure") this.#held?.settle();
      return ended;
    } finally {
      this.#held?.drop();
      this.#isOver = true;
      signal.removeEventListener("abort", end);
      this.#abort?.release();
    }
  }

  #endOf(outcome: ModelOutcome | undefined): StreamEnd {
    if (outcome !== undefined) this.#noteUsage(outcome);
    else this.#abort?.abort(new DOMException("the stream was ended", "AbortError"));
    if (this.#hookFailure !== undefined) throw this.#hookFailure.thrown;
    if (this.#turn.control.isCancelled) return { kind: "cancelled" };
    return this.#isAborted || outcome === undefined ? { kind: "aborted" } : outcome;
  }

  #needsHooks({ kind }: ModelStreamPart): boolean {
    return kind === "text_delta" ? this.#asksHooks : kind === "attempt_reset" && this.#tellsHooks;
  }

  /** Parts wait behind the first whose hooks do not answer at once. */
  #ask(part: ModelStreamPart): void {
    try {
      const passed = this.#pass(part);
      if (isPromise(passed)) this.#pump = this.#drain(passed);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  async #drain(first: PromiseLike<void>): Promise<void> {
    try {
      await first;
      for (let next = 0; next < this.#waiting.length; next += 1) {
        await this.#pass(this.#waiting[next] as ModelStreamPart);
      }
    } catch (thrown) {
      this.#fail(thrown);
    } finally {
      this.#waiting.length = 0;
      this.#pump = undefined;
    }
  }

  #fail(thrown: unknown): void {
    this.#hookFailure = { thrown };
    this.#isAborted = true;
    this.#ended.resolve(undefined);
  }

  /** One part in its turn; nothing but usage passes once a hook or the host has ended the stream. */
  #pass(part: ModelStreamPart): Awaitable<void> {
    if (part.kind !== "usage" && (this.#isAborted || this.#turn.control.isCancelled)) return;
    if (!this.#needsHooks(part)) return this.#take(part);
    if (part.kind === "attempt_reset") {
      this.#held?.drop();
      const told = finishStream(this.#turn, "attempt_reset");
      return told === undefined ? this.#take(part) : told.then(() => this.#take(part));
    }
    if (part.kind !== "text_delta") return this.#take(part);
    this.#hasText = true;
    const { session } = this.#turn;
    const transforms = session.plugins.transformAssistantStream(session.id, part.text, { held: this.#held });
    return isPromise(transforms) ? transforms.then((made) => this.#apply(made)) : this.#apply(transforms);
  }

  #apply(transforms: readonly PluginOwned<AssistantStreamTransform>[]): void {
    const { round } = this.#options;
    for (const { pluginId, value } of transforms) {
      for (const text of value.reasoningDeltas ?? [])
        this.#turn.emit({ kind: "reasoning_delta", round, text });
      emitPluginEvents(this.#turn, pluginId, value.events ?? []);
      if (value.abortStream === true) this.#isAborted = true;
    }
    const text = transforms.at(-1)?.value.chunk ?? "";
    if (text !== "") this.#show(text);
    if (this.#isAborted) this.#ended.resolve(undefined);
  }

  #take(part: ModelStreamPart): void {
    switch (part.kind) {
      case "text_delta":
        this.#hasText = true;
        this.#show(part.text);
        break;
      case "reasoning_delta":
        this.#turn.emit({ kind: "reasoning_delta", round: this.#options.round, text: part.text });
        break;
      case "usage":
        this.#usage = part.usage;
        this.#usageCame?.resolve();
        break;
      case "attempt_reset":
        this.#reset(part);
        break;
      default:
        unreachable(part);
    }
  }

  #show(text: string): void {
    this.#shown.push(text);
    this.#turn.emit({ kind: "text_delta", round: this.#options.round, text });
  }

  #reset(part: ResetPart): void {
    const usage = this.#usage;
    this.#held?.drop();
    this.#shown = [];
    this.#hasText = false;
    this.#usage = undefined;
    this.#options.onReset(part, usage);
  }

  async #awaitUsage(call: Promise<ModelOutcome>): Promise<void> {
    const { control, session } = this.#turn;
    if (this.#usage !== undefined || control.signal.aborted) return;
    const came = deferred<void>();
    this.#usageCame = came;
    const stop = session.parts.clock.after(TRAILING_USAGE_MS, came.resolve);
    const outcome = await Promise.race([call, came.promise]);
    stop();
    if (outcome !== undefined) this.#noteUsage(outcome);
  }

  /** Usage that the port reports at the end counts where none was streamed. */
  #noteUsage(outcome: ModelOutcome): void {
    const usage = outcome.kind === "response" ? outcome.response.usage : outcome.failure.usage;
    if (usage !== undefined && !isNoUsage(usage)) this.#usage = usage;
  }
}
