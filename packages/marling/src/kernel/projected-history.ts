// The messages of a session as models are sent them. What was projected for one request serves the next, so that a
// request costs the projection of what is new and a copy of references.

import type { ModelMessage } from "../llm/contract.ts";
import type { Message } from "../model/message.ts";
import { projectMessage } from "../turn/project-messages.ts";

export class ProjectedHistory {
  #messages: readonly Message[] = [];
  #projected: (ModelMessage | undefined)[] = [];

  /** What a model is sent of these messages; those that say nothing to a model are left out. */
  project(messages: readonly Message[]): readonly ModelMessage[] {
    const shared = sharedLength(this.#messages, messages);
    this.#projected.length = shared;
    for (let index = shared; index < messages.length; index += 1) {
      this.#projected.push(projectMessage(messages[index] as Message));
    }
    this.#messages = messages;
    // A copy of references is many times as fast as a filter, and there is hardly ever anything to leave out.
    const projected = this.#projected.includes(undefined)
      ? this.#projected.filter((message) => message !== undefined)
      : this.#projected.slice();
    return projected as readonly ModelMessage[];
  }
}

function sharedLength(a: readonly Message[], b: readonly Message[]): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length += 1;
  return length;
}
