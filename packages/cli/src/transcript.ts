// A conversation as rows of a terminal. Rows that are settled are printed; the rest is live until it is.
//   TR1  one blank row between things of different kinds, none between tools that follow one another.
//   TR2  text is wrapped here, word by word, as it arrives; a row that is printed never changes.
//   TR3  nothing of a model, a tool or a user reaches the terminal without being made plain.

import type { Json, ToolCallRecord, TurnEvent } from "marling";
import { PlainTextStream, plainText } from "./plain-text.ts";
import type { Paint, Style } from "./style.ts";
import { fit, wrapLine } from "./text-width.ts";
import { argsLines, argsText, resultText } from "./tool-text.ts";

export interface TranscriptOptions {
  readonly style: Style;
  /** How wide a row may be now. */
  width(): number;
  print(rows: readonly string[]): void;
}

type Block = "user" | "text" | "reasoning" | "tool" | "note" | "usage";

interface RunningTool {
  readonly name: string;
  readonly args: Json;
  readonly isNested: boolean;
  progress: string;
  /** It does nothing until somebody has decided about it. */
  isWaiting: boolean;
}

const INDENT = "  ";

export class Transcript {
  readonly #options: TranscriptOptions;
  readonly #tools = new Map<string, RunningTool>();
  #plain = new PlainTextStream();
  #last: Block | undefined;
  /** The row of streamed text that may still grow. */
  #tail = "";
  #tailKind: "text" | "reasoning" | undefined;

  constructor(options: TranscriptOptions) {
    this.#options = options;
  }

  /** What the user said. */
  user(text: string, remark = ""): void {
    const { style } = this.#options;
    const rows = this.#wrapped(plainText(text), 2).map((row) => style.bold(row));
    const marked = rows.map((row, at) => `${at === 0 ? style.cyan("› ") : INDENT}${row}`);
    const last = marked.length - 1;
    this.#block("user", remark === "" ? marked : marked.with(last, `${marked[last]} ${style.dim(remark)}`));
  }

  /** What marling itself has to say. */
  note(text: string, paint: Paint = this.#options.style.dim): void {
    const rows = text.split("\n").flatMap((line) => this.#wrapped(plainText(line), 2));
    this.#block(
      "note",
      rows.map((row) => (row === "" ? "" : INDENT + paint(row))),
    );
  }

  /** Two columns; the right one is wrapped below itself. */
  table(pairs: readonly (readonly [left: string, right: string])[]): void {
    const { style } = this.#options;
    const column = Math.max(...pairs.map(([left]) => left.length)) + 4;
    const rows = pairs.flatMap(([left, right]) => {
      const [first = "", ...rest] = this.#wrapped(plainText(right), column);
      return [
        `${INDENT}${plainText(left).padEnd(column - 2)}${style.dim(first)}`.trimEnd(),
        ...rest.map((row) => " ".repeat(column) + style.dim(row)),
      ];
    });
    this.#block("note", rows);
  }

  usage(text: string): void {
    const { style } = this.#options;
    this.#block("usage", [INDENT + style.dim(fit(text, this.#options.width() - 2))]);
  }

  /** A whole message, as history shows it. */
  text(text: string): void {
    this.#stream("text", text);
    this.settle();
  }

  /** A call that somebody has to decide about, with everything that would be done. */
  question(name: string, args: Json, reason: string | undefined): void {
    const { style } = this.#options;
    const why = reason === undefined ? "" : style.dim(` (${fit(plainText(reason), 60)})`);
    const rows = argsLines(args).flatMap((line) => this.#wrapped(line, 6));
    this.#block("tool", [
      `${INDENT}${style.yellow("?")} ${style.bold(plainText(name))} asks for permission${why}`,
      ...rows.map((row) => `      ${row}`),
    ]);
  }

  /** What the model asks the person. */
  ask(question: string, choices: readonly string[]): void {
    const { style } = this.#options;
    const [first = "", ...rest] = plainText(question)
      .split("\n")
      .flatMap((line) => this.#wrapped(line, 4));
    const listed = choices.flatMap((choice, at) => this.#wrapped(`${at + 1}  ${plainText(choice)}`, 6));
    this.#block("tool", [
      `${INDENT}${style.yellow("?")} ${style.bold(first)}`,
      ...rest.map((row) => `    ${style.bold(row)}`),
      ...listed.map((row) => `      ${row}`),
    ]);
  }

  event(event: TurnEvent): void {
    switch (event.kind) {
      case "text_delta":
        return void this.#stream("text", this.#plain.push(event.text));
      case "reasoning_delta":
        return void this.#stream("reasoning", this.#plain.push(event.text));
      case "attempt_reset":
        this.settle();
        return void this.note(`${event.reason}: the answer begins again`);
      case "tool_started":
        this.settle();
        return void this.#toolStarted(event);
      case "tool_progress": {
        const tool = this.#tools.get(event.callId);
        if (tool !== undefined) tool.progress = plainText(event.message).replaceAll("\n", " ");
        return;
      }
      case "waiting":
        return void this.#setWaiting(event.callId, true);
      case "tool_finished":
        return void this.#toolFinished(event.record, event.parentCallId !== undefined);
      case "frame_switched":
        return void this.note(`a new frame begins: ${event.reason}`);
      case "error":
        return void this.note(`${event.issue.message} [${event.issue.code}]`, this.#options.style.red);
      case "plugin_event":
        if (event.event.kind === "status")
          this.note(`${event.event.label} ${event.event.detail ?? ""}`.trimEnd());
        return;
      default:
        return;
    }
  }

  /** A call that waited goes on. */
  answered(callId: string): void {
    this.#setWaiting(callId, false);
  }

  /** Text that was streaming is whole now. */
  settle(): void {
    const kind = this.#tailKind;
    if (kind !== undefined && this.#tail !== "") this.#printStreamed(kind, [this.#tail]);
    this.#plain = new PlainTextStream();
    this.#tail = "";
    this.#tailKind = undefined;
  }

  /** The turn is over: nothing of it runs any more. */
  end(): void {
    this.settle();
    this.#tools.clear();
  }

  /** The rows that may still change. */
  live(): readonly string[] {
    const { style } = this.#options;
    const width = this.#options.width();
    const kind = this.#tailKind;
    const isNew = kind !== undefined && this.#last !== undefined && this.#last !== kind;
    const tail = this.#tail === "" || kind === undefined ? [] : [this.#paint(kind, this.#tail)];
    const running = [...this.#tools.values()].filter(({ isWaiting }) => !isWaiting);
    const tools = running.map(({ name, args, progress, isNested }) => {
      const indent = isNested ? `${INDENT}${INDENT}` : INDENT;
      const more = progress === "" ? argsText(args) : `${argsText(args)}  ${progress}`;
      const label = plainText(name);
      return `${indent}${style.yellow("●")} ${label} ${style.dim(fit(more, width - indent.length - label.length - 3))}`;
    });
    const needsGap = tail.length > 0 ? isNew : tools.length > 0 && this.#last !== "tool";
    return [...(needsGap ? [""] : []), ...tail, ...tools];
  }

  #stream(kind: "text" | "reasoning", piece: string): void {
    if (this.#tailKind !== kind) this.settle();
    this.#tailKind = kind;
    const isFirst = this.#last !== kind && this.#tail === "";
    const lines = (this.#tail + (isFirst ? piece.replace(/^\n+/, "") : piece)).split("\n");
    const rows = lines.map((line) => this.#wrapped(line, 2));
    const settled = [...rows.slice(0, -1).flat(), ...(rows.at(-1) ?? []).slice(0, -1)];
    if (settled.length > 0) this.#printStreamed(kind, settled);
    this.#tail = rows.at(-1)?.at(-1) ?? "";
  }

  #printStreamed(kind: "text" | "reasoning", rows: readonly string[]): void {
    this.#block(
      kind,
      rows.map((row) => (row.trim() === "" ? "" : this.#paint(kind, row))),
      true,
    );
  }

  #paint(kind: "text" | "reasoning", row: string): string {
    return INDENT + (kind === "reasoning" ? this.#options.style.dim(row) : row);
  }

  #toolStarted({ callId, name, args, parentCallId }: Extract<TurnEvent, { kind: "tool_started" }>): void {
    this.#tools.set(callId, {
      name,
      args,
      isNested: parentCallId !== undefined,
      progress: "",
      isWaiting: false,
    });
  }

  #setWaiting(callId: string, isWaiting: boolean): void {
    const tool = this.#tools.get(callId);
    if (tool !== undefined) tool.isWaiting = isWaiting;
  }

  #toolFinished({ callId, name, args, output, durationMs }: ToolCallRecord, isNested: boolean): void {
    this.#tools.delete(callId);
    const { style } = this.#options;
    const width = this.#options.width();
    const indent = isNested ? `${INDENT}${INDENT}` : INDENT;
    const { isError, lines } = resultText(output);
    const mark = isError ? style.red("●") : style.green("●");
    const label = plainText(name);
    const time = durationMs >= 1_000 ? `  ${(durationMs / 1_000).toFixed(1)} s` : "";
    const room = width - indent.length - label.length - 3 - time.length;
    const head = `${indent}${mark} ${label} ${style.dim(fit(argsText(args), room) + time)}`;
    const paint = isError ? style.red : style.dim;
    const rows = lines.map((line) => `${indent}  ${paint(fit(line, width - indent.length - 2))}`);
    this.#block("tool", [head, ...rows]);
  }

  #wrapped(line: string, indent: number): readonly string[] {
    return line.split("\n").flatMap((each) => wrapLine(each, this.#options.width() - indent));
  }

  #block(kind: Block, rows: readonly string[], isPart = false): void {
    if (!isPart) this.settle();
    const isJoined = this.#last === undefined || (this.#last === kind && (isPart || kind === "tool"));
    this.#options.print(isJoined ? rows : ["", ...rows]);
    this.#last = kind;
  }
}
