import { MarlingError } from "../base/errors.ts";
import { decodeMessage, type Message } from "../model/message.ts";
import type { ToolProvider } from "../tool/contract.ts";
import type { PreparedContext } from "./hook-context.ts";
import { decodePromptContribution } from "./prompt-contribution.ts";

/**
 * Reads what a context transform returned: all four members, messages with their ids. Throws `invalid_message`,
 * `invalid_prompt` or `invalid_output` naming the culprit.
 */
export function decodePreparedContext(raw: unknown, where = "prepared context"): PreparedContext {
  if (typeof raw !== "object" || raw === null) throw refuse(where, "an object");
  const { messages, promptContributions, toolProviders, includeBaseTools, compact } = raw as {
    readonly [member: string]: unknown;
  };
  if (!Array.isArray(messages)) throw refuse(`${where}.messages`, "an array of messages");
  if (!Array.isArray(promptContributions))
    throw refuse(`${where}.promptContributions`, "an array of contributions");
  if (!Array.isArray(toolProviders)) throw refuse(`${where}.toolProviders`, "an array of tool providers");
  if (typeof includeBaseTools !== "boolean") throw refuse(`${where}.includeBaseTools`, "a boolean");
  return Object.freeze({
    messages: readMessages(messages, `${where}.messages`),
    promptContributions: promptContributions.map((item: unknown, index) =>
      decodePromptContribution(item, `${where}.promptContributions[${index}]`),
    ),
    toolProviders: toolProviders.map((item: unknown, index) =>
      readProvider(item, `${where}.toolProviders[${index}]`),
    ),
    includeBaseTools,
    ...(compact === undefined ? {} : { compact: readCompact(compact, `${where}.compact`) }),
  });
}

function readCompact(raw: unknown, where: string): NonNullable<PreparedContext["compact"]> {
  if (typeof raw !== "object" || raw === null) throw refuse(where, "an object with `instructions` or none");
  const { instructions } = raw as { readonly [member: string]: unknown };
  if (instructions === undefined) return Object.freeze({});
  if (typeof instructions !== "string") throw refuse(`${where}.instructions`, "a string");
  return Object.freeze({ instructions });
}

/** The same array when nothing in it is new, so that an unchanged view stays recognisable. */
function readMessages(raw: readonly unknown[], where: string): readonly Message[] {
  if (raw.every(isStored)) return raw;
  return Object.freeze(
    raw.map((item, index) => (isStored(item) ? item : decodeMessage(item, `${where}[${index}]`))),
  );
}

/** Messages of the history are frozen where they are made; what a plugin writes is not. */
function isStored(item: unknown): item is Message {
  if (typeof item !== "object" || item === null || !Object.isFrozen(item)) return false;
  const { id, role, parts } = item as Partial<Message>;
  return typeof id === "string" && typeof role === "string" && Array.isArray(parts);
}

function readProvider(raw: unknown, where: string): ToolProvider {
  const provider = raw as Partial<ToolProvider> | null | undefined;
  if (
    typeof provider?.manifests !== "function" ||
    typeof provider.contract !== "function" ||
    typeof provider.execute !== "function"
  ) {
    throw refuse(where, "a tool provider with manifests, contract and execute");
  }
  return provider as ToolProvider;
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_output", `${where}: expected ${expected}`, { details: { where } });
}
