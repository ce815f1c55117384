// One rendered prompt, kept until its inputs change; those who render the same one share it.
//   PC1  equal inputs give the same object, whether or not they are the same values in memory.
//   PC2  what is kept is found by all of its inputs, not by their hash: no two prompts are ever mixed up.

import { SharedValues } from "../base/shared-values.ts";
import { canonicalJson, type Json } from "../model/json.ts";
import { type PromptInputs, renderPrompt } from "./render.ts";

export interface RenderedPrompt {
  readonly text: string;
  /** Names the inputs: the same in every process, for comparing and tracing and not for security. */
  readonly fingerprint: string;
}

interface Entry {
  readonly inputs: PromptInputs;
  readonly rendered: RenderedPrompt;
}

export class PromptCache {
  readonly #shared: SharedValues<RenderedPrompt>;
  #entry: Entry | undefined;

  constructor(shared: SharedValues<RenderedPrompt> = new SharedValues(1)) {
    this.#shared = shared;
  }

  render(inputs: PromptInputs): RenderedPrompt {
    if (this.#entry !== undefined && isSameValues(this.#entry.inputs, inputs)) return this.#entry.rendered;
    const key = keyOf(inputs);
    const rendered = this.#shared.get(key, () =>
      Object.freeze({ text: renderPrompt(inputs), fingerprint: fingerprintOf(key) }),
    );
    this.#entry = { inputs, rendered };
    return rendered;
  }

  clear(): void {
    if (this.#entry !== undefined) this.#shared.drop(keyOf(this.#entry.inputs));
    this.#entry = undefined;
  }
}

function isSameValues(a: PromptInputs, b: PromptInputs): boolean {
  return (
    a.template === b.template &&
    a.executionPrompt === b.executionPrompt &&
    a.toolNames === b.toolNames &&
    a.contributions === b.contributions
  );
}

function keyOf({ template, executionPrompt, toolNames, contributions }: PromptInputs): string {
  // Templates and contributions are plain data; members that are `undefined` do not occur in them.
  return canonicalJson([template, executionPrompt, toolNames, contributions] as unknown as Json);
}

/** Two 32-bit multiplicative hashes of the code units (one of them FNV-1a), as sixteen hex digits. */
function fingerprintOf(text: string): string {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit, 0x85ebca6b);
    high ^= high >>> 13;
  }
  return hex(high) + hex(low);
}

function hex(lane: number): string {
  return (lane >>> 0).toString(16).padStart(8, "0");
}
