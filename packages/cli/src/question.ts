// Calls that wait for somebody's decision, in a session and in the sessions below it.
//   QU1  a question is told once, when it is there; those that are over without a decision of ours are told as gone.

import type { ApprovalQuestion, Runtime } from "marling";

export interface QuestionListener {
  asked(question: ApprovalQuestion): void;
  /** Decided elsewhere, expired, or cancelled with its turn. */
  gone(question: ApprovalQuestion): void;
  failed(thrown: unknown): void;
}

const SLOW_MS = 500;
const FAST_MS = 25;
const FAST_LOOKS = 40;

export class QuestionWatch {
  readonly #runtime: Runtime;
  readonly #sessionId: string;
  readonly #listener: QuestionListener;
  readonly #known = new Map<string, ApprovalQuestion>();
  readonly #decided = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #fastLooks = 0;
  #isWatching = false;

  constructor(runtime: Runtime, sessionId: string, listener: QuestionListener) {
    this.#runtime = runtime;
    this.#sessionId = sessionId;
    this.#listener = listener;
  }

  /** Looks now and then: a session below may ask at any time. */
  start(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#look();
  }

  /** Something waits: the question will be there in a moment. */
  hurry(): void {
    this.#fastLooks = FAST_LOOKS;
    this.start();
  }

  stop(): void {
    this.#isWatching = false;
    clearTimeout(this.#timer);
  }

  /** A decision is on its way: the question is not told again. */
  decided({ digest }: ApprovalQuestion): void {
    this.#decided.add(digest);
    this.#known.delete(digest);
  }

  #look(): void {
    clearTimeout(this.#timer);
    this.#runtime.approvals.list().then(
      (questions) => this.#found(questions),
      (thrown: unknown) => {
        if (this.#isWatching) this.#listener.failed(thrown);
      },
    );
  }

  #found(all: readonly ApprovalQuestion[]): void {
    if (!this.#isWatching) return;
    const open = all.filter(({ sessionId, digest }) => this.#isOurs(sessionId) && !this.#decided.has(digest));
    const isNew = open.filter(({ digest }) => !this.#known.has(digest));
    const gone = [...this.#known.values()].filter(
      ({ digest }) => !open.some((question) => question.digest === digest),
    );
    for (const question of gone) {
      this.#known.delete(question.digest);
      this.#listener.gone(question);
    }
    for (const question of isNew) {
      this.#known.set(question.digest, question);
      this.#listener.asked(question);
    }
    this.#fastLooks = isNew.length > 0 ? 0 : Math.max(0, this.#fastLooks - 1);
    this.#timer = setTimeout(() => this.#look(), this.#fastLooks > 0 ? FAST_MS : SLOW_MS);
  }

  /** Sessions below another have its name in front of theirs. */
  #isOurs(sessionId: string): boolean {
    return sessionId === this.#sessionId || sessionId.startsWith(`${this.#sessionId}:`);
  }
}
