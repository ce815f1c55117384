// An error as one sentence: what happened, its code, and what to do about it.

import { type Advice, MarlingError } from "marling";
import { oneLine } from "./plain-text.ts";
import type { Style } from "./style.ts";
import { usageOf } from "./usage-error.ts";

const ADVICE: { readonly [A in Advice]: string } = {
  fix: "Change what was asked for and try again.",
  retry: "Try again in a moment.",
  reload: "Open the session again.",
  report: "This looks like a bug of marling; please report it.",
};

export function describeError(thrown: unknown, style: Style): string {
  const mark = style.red("error");
  if (!MarlingError.is(thrown)) return `${mark} ${oneLine(messageOf(thrown))}\n`;
  const { code, advice, message } = thrown;
  const command = usageOf(thrown);
  const help = command === "" ? "marling --help" : `marling ${command} --help`;
  const next = command === undefined ? ADVICE[advice] : `See \`${help}\`.`;
  return `${mark} ${sentence(oneLine(message))} ${style.dim(`[${code}]`)} ${next}\n`;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
