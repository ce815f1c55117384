// What `marling run` prints while a turn runs, for people or for programs.

import type { TurnEvent, TurnReport } from "marling";
import type { OutputStream } from "./environment.ts";
import { PlainTextStream, plainText } from "./plain-text.ts";
import type { Style } from "./style.ts";
import { fit } from "./text-width.ts";
import { argsText, resultText } from "./tool-text.ts";
import { usageLine } from "./usage-line.ts";

export interface RunPrinter {
  event(event: TurnEvent): void;
  note(text: string): void;
  end(report: TurnReport): void;
}

const BARE_CONTROL = /[\x7f-\x9f]/g;

/** Every event as a line of JSON, and the report as the last one. */
export function jsonPrinter(stdout: OutputStream): RunPrinter {
  const line = (value: unknown): void => {
    const json = JSON.stringify(value).replace(
      BARE_CONTROL,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    stdout.write(`${json}\n`);
  };
  return {
    event: line,
    note: (message) => line({ kind: "note", message }),
    end: (report) => line({ kind: "report", ...report }),
  };
}

export interface TextPrinterOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly style: Style;
}

export function textPrinter(options: TextPrinterOptions): RunPrinter {
  return new TextPrinter(options);
}

const MOST = 200;

class TextPrinter implements RunPrinter {
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;
  readonly #style: Style;
  readonly #since = performance.now();
  #plain = new PlainTextStream();
  /** Words of the round that are not printed yet: into a pipe, they are when the round is over. */
  #held = "";
  #isMidLine = false;
  #isThinking = false;

  constructor({ stdout, stderr, style }: TextPrinterOptions) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#style = style;
  }

  event(event: TurnEvent): void {
    switch (event.kind) {
      case "text_delta":
        return void this.#text(this.#plain.push(event.text));
      case "reasoning_delta":
        return void this.#reasoning(plainText(event.text));
      case "attempt_reset":
        this.#held = "";
        return void this.note(`${event.reason}: the answer begins again`);
      case "model_call":
        if (event.phase === "finished") this.#endRound(event.record.outcome === "completed");
        return;
      case "tool_started":
        return void this.note(`→ ${event.name} ${fit(argsText(event.args), MOST)}`);
      case "tool_progress":
        return void this.note(`  ${event.message}`);
      case "tool_finished": {
        const { isError, lines } = resultText(event.record.output, 1);
        const words = `  ${isError ? "failed: " : ""}${fit(lines[0] ?? "", MOST)}`;
        return void this.note(words, isError ? this.#style.red : this.#style.dim);
      }
      case "error":
        return void this.note(`${event.issue.message} [${event.issue.code}]`, this.#style.red);
      default:
        return;
    }
  }

  note(text: string, paint: (text: string) => string = this.#style.dim): void {
    this.#endLines();
    this.#stderr.write(`${paint(plainText(text))}\n`);
  }

  end(report: TurnReport): void {
    this.#endLines();
    const { outcome, usage, modelCalls, toolCalls } = report;
    if (outcome.kind === "stopped") {
      const { reason, message } = outcome;
      this.note(`stopped: ${reason}${message === undefined ? "" : `: ${message}`}`, this.#style.red);
    } else if (outcome.by !== "message") this.#stdout.write(`${plainText(outcome.text)}\n`);
    const elapsedMs = performance.now() - this.#since;
    this.note(usageLine({ usage, modelCalls: modelCalls.length, toolCalls: toolCalls.length, elapsedMs }));
  }

  #text(text: string): void {
    this.#endThought();
    if (this.#stdout.isTTY !== true) {
      this.#held += text;
      return;
    }
    if (text === "") return;
    this.#stdout.write(text);
    this.#isMidLine = !text.endsWith("\n");
  }

  #reasoning(text: string): void {
    if (text === "") return;
    if (this.#isMidLine) this.#endLines();
    this.#stderr.write(this.#style.dim(text));
    this.#isThinking = true;
  }

  #endRound(isWhole: boolean): void {
    if (isWhole && this.#held !== "")
      this.#stdout.write(this.#held.endsWith("\n") ? this.#held : `${this.#held}\n`);
    this.#held = "";
    this.#plain = new PlainTextStream();
    this.#endLines();
  }

  #endThought(): void {
    if (this.#isThinking) this.#stderr.write("\n");
    this.#isThinking = false;
  }

  #endLines(): void {
    this.#endThought();
    if (this.#isMidLine) this.#stdout.write("\n");
    this.#isMidLine = false;
  }
}
