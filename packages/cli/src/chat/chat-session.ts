// The session of a chat: what was said and waits, the turn that runs, what it asks, and how it ends.
//   CS1  what the user said is told when a turn takes it, once, in the order in which turns take it.
//   CS2  the end of a turn is told after everything that happened in it.

import type {
  ApprovalQuestion,
  PendingInput,
  Runtime,
  Session,
  SessionObservation,
  TurnEvent,
  TurnInput,
  TurnReport,
} from "marling";
import { QuestionWatch } from "../question.ts";
import { SeenEvents } from "../seen-events.ts";

export type Deliver = "active_turn" | "next_turn";

/** Something that was said and that no turn has taken yet. */
export interface WaitingLine {
  readonly text: string;
  readonly deliver: Deliver;
  inputId: string | undefined;
  turnId: string | undefined;
}

export interface ChatListener {
  said(text: string, remark: string): void;
  event(event: TurnEvent): void;
  asked(question: ApprovalQuestion): void;
  ended(report: TurnReport | undefined, elapsedMs: number): void;
  /** Another process has worked on the session. */
  moved(): void;
  failed(thrown: unknown): void;
  /** Something that is shown at the bottom is different now. */
  changed(): void;
}

interface RunningTurn {
  readonly turnId: string;
  readonly since: number;
  readonly seen: SeenEvents;
  /** Whether somebody tells how it ends. */
  readonly isAttached: boolean;
  report: TurnReport | undefined;
  isCancelling: boolean;
}

export class ChatSession {
  readonly #runtime: Runtime;
  readonly #session: Session;
  readonly #listener: ChatListener;
  readonly #over = new AbortController();
  #lines: WaitingLine[] = [];
  #running: RunningTurn | undefined;
  #questions: readonly ApprovalQuestion[] = [];
  readonly #watch: QuestionWatch;
  #revision = 0;
  #observing: Promise<void> = Promise.resolve();

  constructor(runtime: Runtime, session: Session, listener: ChatListener) {
    this.#runtime = runtime;
    this.#session = session;
    this.#listener = listener;
    this.#watch = new QuestionWatch(runtime, session.id, {
      asked: (question) => this.#asked(question),
      gone: (question) => this.#drop(question),
      failed: (thrown) => listener.failed(thrown),
    });
  }

  get session(): Session {
    return this.#session;
  }

  get running(): Pick<RunningTurn, "since" | "isCancelling"> | undefined {
    return this.#running;
  }

  get lines(): readonly WaitingLine[] {
    return this.#lines;
  }

  get questions(): readonly ApprovalQuestion[] {
    return this.#questions;
  }

  start(): void {
    this.#observing = this.#observe().catch((thrown: unknown) => this.#listener.failed(thrown));
  }

  async stop(): Promise<void> {
    this.#over.abort();
    this.#watch.stop();
    await this.#observing;
  }

  /** Says something: to the turn that runs, or as a turn of its own. */
  async submit(text: string, deliver: Deliver): Promise<void> {
    const line: WaitingLine = { text, deliver, inputId: undefined, turnId: undefined };
    this.#lines = [...this.#lines, line];
    this.#listener.changed();
    try {
      const { inputId } = await this.#session.enqueue(text, { deliver });
      line.inputId = inputId;
      line.turnId = (await this.#session.pending()).find((row) => row.inputId === inputId)?.turnId;
    } catch (thrown) {
      this.#forget(line);
      this.#listener.failed(thrown);
    }
  }

  /** Takes back the line that was said last, if no turn has it yet. */
  async takeBack(): Promise<string | undefined> {
    const line = this.#lines.findLast(({ inputId }) => inputId !== undefined);
    if (line?.inputId === undefined) return undefined;
    const [outcome] = await this.#session.cancelPending([line.inputId]);
    if (outcome?.status !== "cancelled") return undefined;
    this.#forget(line);
    return line.text;
  }

  async cancel(): Promise<void> {
    const running = this.#running;
    if (running === undefined || running.isCancelling) return;
    running.isCancelling = true;
    this.#listener.changed();
    await this.#session.cancel(running.turnId, "cancelled by the user");
  }

  async decide(decision: "allow" | "deny", actor: string): Promise<ApprovalQuestion | undefined> {
    const [question] = this.#questions;
    if (question === undefined) return undefined;
    this.#watch.decided(question);
    this.#drop(question);
    const reason = decision === "deny" ? "The user denied the call." : undefined;
    await this.#runtime.approvals.decide(question, {
      decision,
      actor,
      ...(reason === undefined ? {} : { reason }),
    });
    return question;
  }

  async #observe(): Promise<void> {
    await this.#showSleeper();
    for await (const observed of this.#session.observe({ signal: this.#over.signal }))
      await this.#told(observed);
  }

  /** A turn that sleeps says nothing: what it waits for is shown when the session is opened. */
  async #showSleeper(): Promise<void> {
    const sleeper = (await this.#session.pending()).find(({ status }) => status === "parked");
    if (sleeper === undefined) return;
    await this.#begin(sleeper.turnId);
  }

  async #told(observed: SessionObservation): Promise<void> {
    switch (observed.kind) {
      case "event":
        return this.#event(observed.turnId, observed.event);
      case "committed":
        this.#revision = observed.revision;
        return this.#endIfOver(observed.turnId);
      case "gap":
        this.#revision = observed.view.revision;
        this.#listener.moved();
        return this.#endIfOver(undefined);
    }
  }

  async #event(turnId: string, event: TurnEvent): Promise<void> {
    if (this.#running?.turnId !== turnId) await this.#begin(turnId);
    else if (event.kind === "turn_started") this.#running.seen.beginAgain();
    const running = this.#running;
    if (running === undefined || !running.seen.isNew(event)) return;
    if (event.kind === "input_accepted") this.#joined(event.inputIds);
    if (event.kind === "waiting") this.#watch.hurry();
    this.#listener.event(event);
    this.#listener.changed();
  }

  /** A turn runs that was not shown before: one of the user's lines, or one that was left by an earlier process. */
  async #begin(turnId: string): Promise<void> {
    const pending = (await this.#session.pending()).find((row) => row.turnId === turnId);
    const line =
      this.#lines.find((each) => each.turnId === turnId || each.inputId === pending?.inputId) ??
      (pending === undefined ? this.#lines[0] : undefined);
    const input = pending?.input ?? (line === undefined ? undefined : { text: line.text });
    if (line !== undefined) this.#forget(line);
    const isAttached = input !== undefined && pending?.key === undefined;
    this.#running = {
      turnId,
      since: performance.now(),
      seen: new SeenEvents(),
      isAttached,
      report: undefined,
      isCancelling: false,
    };
    this.#watch.start();
    this.#listener.said(input?.text ?? "", remarkOf(line, pending));
    if (isAttached) this.#attach(turnId, input);
  }

  /** Asking again with the same id and content is the same turn, and tells how it ends. */
  #attach(turnId: string, input: TurnInput): void {
    this.#session.turn(input, { id: turnId }).result.then(
      (report) => {
        if (this.#running?.turnId !== turnId) return;
        this.#running.report = report;
        this.#endIfOver(turnId);
      },
      (thrown: unknown) => this.#listener.failed(thrown),
    );
  }

  #joined(inputIds: readonly string[]): void {
    for (const id of inputIds) {
      const line =
        this.#lines.find(({ inputId }) => inputId === id) ??
        this.#lines.find(({ inputId, deliver }) => inputId === undefined && deliver === "active_turn");
      if (line === undefined) continue;
      this.#forget(line);
      this.#listener.said(line.text, "(taken up)");
    }
  }

  #asked(question: ApprovalQuestion): void {
    this.#questions = [...this.#questions, question];
    this.#listener.asked(question);
    this.#listener.changed();
  }

  #drop({ digest }: ApprovalQuestion): void {
    this.#questions = this.#questions.filter((question) => question.digest !== digest);
    this.#listener.changed();
  }

  #endIfOver(turnId: string | undefined): void {
    const running = this.#running;
    if (running === undefined) return;
    const { report, isAttached, since } = running;
    const isOver = isAttached
      ? report !== undefined && report.revision <= this.#revision
      : turnId === running.turnId;
    if (!isOver) return;
    this.#running = undefined;
    this.#watch.stop();
    this.#questions = [];
    this.#listener.ended(report, performance.now() - since);
    this.#listener.changed();
  }

  #forget(line: WaitingLine): void {
    this.#lines = this.#lines.filter((each) => each !== line);
    this.#listener.changed();
  }
}

function remarkOf(line: WaitingLine | undefined, pending: PendingInput | undefined): string {
  return line === undefined && pending !== undefined ? REMARKS[pending.status] : "";
}

const REMARKS: { readonly [S in PendingInput["status"]]: string } = {
  queued: "(left from before)",
  running: "(interrupted, goes on)",
  joined: "",
  parked: "(waits)",
};
