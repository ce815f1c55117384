import { MarlingError } from "../base/errors.ts";
import { PROMPT_SLOTS, type PromptContribution } from "../model/prompt.ts";

/** Reads a contribution as a plugin wrote it; content and title stay as they are. Throws `invalid_prompt`. */
export function decodePromptContribution(raw: unknown, where: string): PromptContribution {
  const refuse = (member: string, expected: string): MarlingError =>
    new MarlingError("invalid_prompt", `${where}${member}: expected ${expected}`, { details: { where } });
  if (typeof raw !== "object" || raw === null) throw refuse("", "a contribution with `slot` and `content`");
  const { slot, title, priority, gate, content } = raw as { readonly [member: string]: unknown };
  const known = PROMPT_SLOTS.find((candidate) => candidate === slot);
  if (known === undefined)
    throw refuse(".slot", `one of ${PROMPT_SLOTS.join(", ")}, found ${JSON.stringify(slot)}`);
  if (typeof content !== "string") throw refuse(".content", "a string");
  if (title !== undefined && typeof title !== "string") throw refuse(".title", "a string");
  if (priority !== undefined && !Number.isSafeInteger(priority))
    throw refuse(".priority", `a whole number, found ${String(priority)}`);
  const tools = gate === undefined ? undefined : (gate as { readonly tools?: unknown } | null)?.tools;
  if (gate !== undefined && !(Array.isArray(tools) && tools.every((tool) => typeof tool === "string"))) {
    throw refuse(".gate", "an object with `tools`, an array of tool names");
  }
  return Object.freeze({
    slot: known,
    content,
    ...(title === undefined ? {} : { title }),
    ...(priority === undefined ? {} : { priority: priority as number }),
    ...(gate === undefined
      ? {}
      : { gate: Object.freeze({ tools: Object.freeze([...(tools as readonly string[])]) }) }),
  });
}
