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

  /** What a model is sent of these messages; those that say nothing to a model are left out. */
  project(messages: SharedList<Message>): readonly ModelMessage[] {
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
}

/** How many messages two lists begin with that are the same. Lists that share none may still hold the same ones. */
function sharedLength(before: SharedList<Message>, now: SharedList<Message>): number {
  const shared = before.sharedLength(now);
  if (shared > 0) return shared;
  const [a, b] = [before.toArray(), now.toArray()];
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length += 1;
  return length;
}
