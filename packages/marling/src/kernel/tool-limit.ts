// How long the code of a tool may take, where its manifest or the runtime says so.
//   TL1  a tool that has not answered when its time is over is told by its signal, and answered for with a failure
//        `tool_timeout`. What it says later is not heard.
//   TL2  each attempt has the whole time. Waiting for calls that it made is not counted, nor is the wait for a result
//        that comes later; a tool that only runs others has no time of its own, they have theirs.
//   TL3  a loop that never yields holds up the timer too: nothing in the process can stop it.

import { LinkedSignal } from "../base/linked-signal.ts";
import { type ToolOutput, toolCancelled, toolFailure } from "../model/tool-output.ts";
import { HookLimit } from "../plugin/hook-limit.ts";
import type { ToolManifest } from "../tool/contract.ts";
import type { KernelParts } from "./parts.ts";

interface LimitOptions {
  /** Its signal ends when nobody waits for the tool any more; it may be made when it is asked for. */
  readonly call: { readonly signal: AbortSignal };
  readonly parts: Pick<KernelParts, "clock" | "toolTimeoutMs">;
}

/** The time that one attempt has. */
export class ToolLimit {
  readonly #manifest: ToolManifest;
  readonly #time: HookLimit | undefined;
  readonly #call: LimitOptions["call"];
  readonly #signal: LinkedSignal | undefined;

  constructor(manifest: ToolManifest, { call, parts }: LimitOptions) {
    const { timeoutMs = parts.toolTimeoutMs, isOrchestrating } = manifest;
    const isLimited = timeoutMs !== undefined && isOrchestrating !== true;
    this.#manifest = manifest;
    this.#time = isLimited ? new HookLimit(timeoutMs, parts.clock) : undefined;
    this.#call = call;
    this.#signal = isLimited ? new LinkedSignal(call.signal) : undefined;
  }

  /** Told to the tool: follows that of the call, and ends with the time. */
  get signal(): AbortSignal {
    return (this.#signal ?? this.#call).signal;
  }

  /** What the tool answers, or that it did not. */
  answer<T>(work: () => Promise<T>): Promise<T | ToolOutput> {
    return this.#time === undefined ? work() : this.#answerIn(this.#time, work);
  }

  async #answerIn<T>(time: HookLimit, work: () => Promise<T>): Promise<T | ToolOutput> {
    const late = new DOMException(`The tool had ${time.limitMs} ms.`, "TimeoutError");
    try {
      return await time.race(work(), () => late);
    } catch (thrown) {
      if (thrown !== late) throw thrown;
      this.#signal?.abort(late);
      return timedOut(this.#manifest, time.limitMs);
    }
  }

  /** Waits for what the tool asked others to do, with its time stopped. */
  waitFor<T>(work: () => Promise<T>): Promise<T> {
    return this.#time === undefined ? work() : this.#time.during(work);
  }
}

/** What a provider answers while it prepares a call, within the time of its tool and while somebody waits for it. */
export async function preparedInTime<T>(
  manifest: ToolManifest,
  options: LimitOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | ToolOutput> {
  const limit = new ToolLimit(manifest, options);
  const { signal } = options.call;
  let giveUp = (): void => undefined;
  const givenUp = new Promise<ToolOutput>((resolve) => {
    giveUp = () => resolve(toolCancelled("The turn was cancelled while the call was prepared."));
  });
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([limit.answer(() => work(limit.signal)), givenUp]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

function timedOut({ name, replay = "unsafe" }: ToolManifest, limitMs: number): ToolOutput {
  const isRepeatable = replay !== "unsafe";
  const advice = isRepeatable
    ? "It may be called again."
    : "It may have taken effect; check before calling it again.";
  return toolFailure({
    code: "tool_timeout",
    class: "timeout",
    source: "runtime",
    message: `The tool ${name} did not answer within ${limitMs} ms and was told to stop. ${advice}`,
    retry: { safe: isRepeatable },
  });
}
