// Messages that hooks want in the history. They become part of every later prompt, so what would spoil one is not taken.
//   HM1  ids derive from the effect that the message came from, unless the hook gave one that the session does not have;
//        the plugin is its origin.
//   HM2  only user and system roles are taken, and no parts of tool calls: a call without its one result makes a
//        history that providers refuse. What is not taken is reported.
//   HM3  inline bytes are stored before the message is; a source that the policy does not allow is not taken.

import { MarlingError } from "../base/errors.ts";
import type { AttachmentSource } from "../model/attachment.ts";
import type { MessageId, PluginId } from "../model/ids.ts";
import { type Message, type MessageInput, type MessagePart, toMessage } from "../model/message.ts";
import type { TurnIssue } from "../model/turn.ts";
import { hasMessage } from "../session/graph.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { type AttachmentKeeper, keepAttachment, refuseAttachment } from "./attachments.ts";
import { reportIssues } from "./lifecycle.ts";
import type { TurnRun } from "./turn-run.ts";

/** Takes messages from a hook that runs in an effect; `from` is how many that effect was offered before. */
export async function acceptMessages(
  turn: TurnRun,
  inputs: readonly MessageInput[],
  { pluginId, from }: { readonly pluginId: string; readonly from: number },
): Promise<readonly Message[]> {
  const origin = { kind: "plugin", pluginId: pluginId as PluginId, transient: false } as const;
  const { store, attachmentPolicy } = turn.session.parts;
  const intake: Intake = { pluginId, keeper: { blobs: store.blobs, policy: attachmentPolicy } };
  const messages: Message[] = [];
  for (const [index, input] of inputs.entries()) {
    const derivedId = `${turn.scope}.${from + index}` as MessageId;
    const given = toMessage(input, derivedId, origin);
    const isTaken = given.id !== derivedId && hasMessage(turn.session.state.graph, given.id);
    const message = isTaken ? { ...given, id: derivedId } : given;
    const refused = refusalOf(message, intake);
    if (refused === undefined) messages.push(await withStoredBytes(message, intake));
    else reportIssues(turn, [{ kind: "plugin", pluginId, ...refused }]);
  }
  return messages;
}

/** Messages as a turn adds them to the history. */
export function recordsOf(messages: readonly Message[]): readonly TurnRecord[] {
  return messages.map((message) => ({ kind: "message", message }));
}

interface Intake {
  readonly pluginId: string;
  readonly keeper: AttachmentKeeper;
}

/** Why a message is not taken, if so. */
function refusalOf(
  { role, parts }: Message,
  { pluginId, keeper }: Intake,
): Pick<TurnIssue, "code" | "message"> | undefined {
  const found = (what: string): string =>
    `plugin ${pluginId}: expected a message of role user or system without parts of tool calls, found ${what}`;
  if (role !== "user" && role !== "system")
    return { code: "message_role_dropped", message: found(`role ${role}`) };
  for (const part of parts) {
    if (part.kind === "tool_call" || part.kind === "tool_result")
      return { code: "message_part_dropped", message: found(part.kind) };
    const denied =
      part.kind === "attachment" ? refuseAttachment(keeper, part.source, `plugin ${pluginId}`) : undefined;
    if (denied !== undefined) return { code: denied.code, message: denied.message };
  }
  return undefined;
}

async function withStoredBytes(message: Message, intake: Intake): Promise<Message> {
  if (!message.parts.some(isInline)) return message;
  const parts = await Promise.all(
    message.parts.map((part) => (isInline(part) ? stored(part, intake) : part)),
  );
  return Object.freeze({ ...message, parts: Object.freeze(parts) });
}

type InlinePart = Extract<MessagePart, { kind: "attachment" }> & {
  readonly source: Extract<AttachmentSource, { kind: "inline" }>;
};

function isInline(part: MessagePart): part is InlinePart {
  return part.kind === "attachment" && part.source.kind === "inline";
}

async function stored(part: InlinePart, { pluginId, keeper }: Intake): Promise<MessagePart> {
  const source = await keepAttachment(keeper, part.source);
  if (source.kind === "failure")
    throw new MarlingError("attachment_store_failed", `plugin ${pluginId}: ${source.message}`, {
      details: { pluginId },
    });
  return Object.freeze({ ...part, source });
}
