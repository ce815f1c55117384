// Puts converted messages together into a prompt that every provider takes, whoever the history was made with.
//   LA10  messages of one role in a row become one.
//   LA11  every call has its result right behind it: a missing one is an error, results of no call become text.
//   LA12  a prompt begins with the user.

import { unreachable } from "../base/unreachable.ts";
import type { PromptMessage, PromptToolResultPart, ToolMessage, UserMessage } from "./prompt-message.ts";

const BEGINNING = "[The beginning of this conversation is not shown.]";
const NO_RESULT = "This call has no result. It may have taken effect.";

export class PromptAssembly {
  #messages: PromptMessage[] = [];
  /** The calls that wait for their result, by id, with their names. */
  #open = new Map<string, string>();
  /** What the user said between a call and its result, until the result is in. */
  #held: UserMessage[] = [];

  add(message: PromptMessage): void {
    switch (message.role) {
      case "assistant":
        this.#closeCalls();
        this.#push(message);
        for (const part of message.content) {
          if (part.type === "tool-call") this.#open.set(part.toolCallId, part.toolName);
        }
        return;
      case "tool":
        this.#answer(message);
        return;
      case "user":
        if (this.#open.size > 0) this.#held.push(message);
        else this.#push(message);
        return;
      default:
        unreachable(message);
    }
  }

  /** The prompt if nothing else came; more may be added afterwards. */
  finish(): readonly PromptMessage[] {
    const whole = this.copy();
    whole.#closeCalls();
    const [first] = whole.#messages;
    if (first !== undefined && first.role !== "user")
      whole.#messages.unshift({ role: "user", content: [{ type: "text", text: BEGINNING }] });
    return whole.#messages;
  }

  copy(): PromptAssembly {
    const copy = new PromptAssembly();
    copy.#messages = [...this.#messages];
    copy.#open = new Map(this.#open);
    copy.#held = [...this.#held];
    return copy;
  }

  #answer(message: ToolMessage): void {
    const answers = message.content.filter(({ toolCallId }) => this.#open.delete(toolCallId));
    if (answers.length > 0) this.#push(answers.length === message.content.length ? message : tool(answers));
    if (answers.length < message.content.length) {
      const strays = message.content.filter((result) => !answers.includes(result));
      this.#held.push({ role: "user", content: strays.map(strayText) });
    }
    if (this.#open.size === 0) this.#release();
  }

  #closeCalls(): void {
    if (this.#open.size > 0) this.#push(tool(Array.from(this.#open, missingResult)));
    this.#open.clear();
    this.#release();
  }

  #release(): void {
    for (const message of this.#held) this.#push(message);
    this.#held = [];
  }

  #push(message: PromptMessage): void {
    const last = this.#messages.at(-1);
    if (last?.role !== message.role) {
      this.#messages.push(message);
      return;
    }
    const content = [...last.content, ...message.content];
    this.#messages[this.#messages.length - 1] = { ...message, content } as PromptMessage; // Both are of one role.
  }
}

function tool(content: readonly PromptToolResultPart[]): ToolMessage {
  return { role: "tool", content };
}

function missingResult([toolCallId, toolName]: readonly [string, string]): PromptToolResultPart {
  return { type: "tool-result", toolCallId, toolName, output: { type: "error-text", value: NO_RESULT } };
}

function strayText({ toolName, output }: PromptToolResultPart): UserMessage["content"][number] {
  return { type: "text", text: `[result of ${toolName}]\n${output.value}` };
}
