// Triggers through a runtime: a plugin that declares mail, and what sessions were told of it.

import type { Plugin, Session } from "marling";
import { expect } from "vitest";
import { plugin } from "./hooks-support.ts";

export const MAIL = "mail.received";

/** Declares `mail.received`, whose payload has a subject. */
export const mail: Plugin = plugin("mail", {
  triggers: [
    {
      resourceType: "mailbox",
      alias: "mail",
      event: "received",
      payloadSchema: {
        type: "object",
        properties: { subject: { type: "string" } },
        required: ["subject"],
        additionalProperties: false,
      },
    },
  ],
});

/** What a session was told of, oldest first: the JSON of each occurrence. */
export function occurred(session: Session): readonly Record<string, unknown>[] {
  return session
    .read()
    .messages.filter(({ role }) => role === "system")
    .flatMap(({ parts }) => parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])))
    .map((text) => JSON.parse(text.slice(text.indexOf("{"))) as Record<string, unknown>);
}

/** The subjects of the mails that a session was told of. */
export function subjects(session: Session): readonly unknown[] {
  return occurred(session).map(({ payload }) => (payload as { readonly subject?: string }).subject);
}

/** What is so sooner or later, also on a machine that is busy. */
export const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 20_000 });
