// What stands between the conversation and the line that is being written: what waits, what is asked, what goes on.

import type { ApprovalQuestion } from "marling";
import { oneLine } from "../plain-text.ts";
import type { Style } from "../style.ts";
import { fit } from "../text-width.ts";
import type { WaitingLine } from "./chat-session.ts";

export interface Bottom {
  readonly lines: readonly WaitingLine[];
  readonly question: ApprovalQuestion | undefined;
  readonly running: { readonly since: number; readonly isCancelling: boolean } | undefined;
  /** Counts up while something goes on. */
  readonly spin: number;
}

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ANSWERS = "y yes · a always · n no";
const KEYS = "enter steers · tab queues · esc cancels";

export function bottomRows(bottom: Bottom, width: number, style: Style): readonly string[] {
  const waiting = bottom.lines.map(({ text, deliver }) => {
    const label = deliver === "active_turn" ? "steers" : "next";
    return style.dim(`  ${label}: ${fit(oneLine(text), width - label.length - 4)}`);
  });
  return [...waiting, ...statusRows(bottom, width, style)];
}

function statusRows({ question, running, spin }: Bottom, width: number, style: Style): readonly string[] {
  if (question !== undefined) {
    const words = fit(`allow ${oneLine(question.toolName)}?`, width - ANSWERS.length - 3);
    return [`  ${style.yellow(words)} ${ANSWERS}`];
  }
  if (running === undefined) return [];
  const seconds = ((performance.now() - running.since) / 1_000).toFixed(0);
  const words = `${running.isCancelling ? "cancelling" : "working"} ${seconds} s · ${KEYS}`;
  return [`  ${style.cyan(SPINNER[spin % SPINNER.length] ?? "")} ${style.dim(fit(words, width - 4))}`];
}
