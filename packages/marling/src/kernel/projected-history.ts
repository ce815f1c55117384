// The messages of a session as models are sent them. What was projected for one request serves the next, so that a
// request costs the projection of what is new and one copy of references.

import { SharedList } from "../base/shared-list.ts";
import type { ModelMessage } from "../llm/contract.ts";
import type { Message } from "../model/message.ts";
import { projectMessage } from "../turn/project-messages.ts";

export class ProjectedHistory {
  #messages: SharedList<Message> = SharedList.of<Message>();
  #projected: (ModelMessage | undefined)[] = [];
  /** How many of them say nothing to a model. */
  #silent = 0;
  /** Has what was projected of the history that this one begins with, until this one is asked for something. */
  #source: ProjectedHistory | undefined;

  constructor(source?: ProjectedHistory) {
    this.#source = source === undefined ? undefined : (source.#source ?? source);
  }

  /** What a model is sent of these messages; those that say nothing to a model are left out. */
  project(messages: SharedList<Message>): readonly ModelMessage[] {
    this.#takeOver();
    const shared = sharedLength(this.#messages, messages);
    for (const dropped of this.#projected.splice(shared)) if (dropped === undefined) this.#silent -= 1;
    for (const message of messages.tail(messages.length - shared)) {
      const projected = projectMessage(message);
      if (projected === undefined) this.#silent += 1;
      this.#projected.push(projected);
    }
    this.#messages = messages;
    // A copy of references is many times as fast as a filter, and there is hardly ever anything to leave out.
    const projected =
      this.#silent === 0
        ? this.#projected.slice()
        : this.#projected.filter((message) => message !== undefined);
    return projected as readonly ModelMessage[];
  }

  /** What was projected for the source serves here too. */
  #takeOver(): void {
    const source = this.#source;
    if (source === undefined) return;
    this.#source = undefined;
    this.#messages = source.#messages;
    this.#projected = source.#projected.slice();
    this.#silent = source.#silent;
  }
}

/** How many messages two lists begin with that are the same: those that they share, and the very same ones behind them. */
function sharedLength(before: SharedList<Message>, now: SharedList<Message>): number {
  const most = Math.min(before.length, now.length);
  let length = before.sharedLength(now);
  while (length < most && before.at(length) === now.at(length)) length += 1;
  return length;
}
