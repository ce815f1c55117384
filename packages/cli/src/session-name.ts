// Names for sessions that nobody named: what made them, when, and a few letters against two in one second.

import { randomBytes } from "node:crypto";

export function newSessionName(prefix: string, now: Date = new Date()): string {
  const stamp = now.toISOString().replaceAll(/[-:]/g, "").replace("T", "-").slice(0, 15);
  return `${prefix}-${stamp}-${randomBytes(2).toString("hex")}`;
}
