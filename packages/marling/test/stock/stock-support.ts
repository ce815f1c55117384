// What the tests of stock plugins share: texts of messages, events of turns, and folders that are gone afterwards.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Message, ModelRequest, Turn, TurnEvent, TurnReport } from "marling";
import { onTestFinished } from "vitest";

/** All text of a message, results included. */
export function textIn({ parts }: Pick<Message, "parts">): string {
  return parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("");
}

/** The texts of a request's messages, with their roles. */
export function spoken(request: ModelRequest | undefined): readonly string[] {
  return (request?.messages ?? []).map(
    (message) => `${message.role}: ${textIn(message as Pick<Message, "parts">)}`,
  );
}

/** The names of the tools that a request offers. */
export function offered(request: ModelRequest | undefined): readonly string[] {
  return (request?.tools ?? []).map(({ name }) => name);
}

/** What a turn came to, and what watchers saw. */
export async function watched(
  turn: Turn,
): Promise<{ readonly events: readonly TurnEvent[]; readonly report: TurnReport }> {
  const events: TurnEvent[] = [];
  for await (const event of turn) events.push(event);
  return { events, report: await turn.result };
}

/** The custom events of plugins, as names and payloads. */
export function customEvents(events: readonly TurnEvent[]): readonly (readonly [string, unknown])[] {
  return events.flatMap((event) =>
    event.kind === "plugin_event" && event.event.kind === "custom"
      ? [[event.event.name, event.event.payload] as const]
      : [],
  );
}

export function folder(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "marling-stock-")));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
