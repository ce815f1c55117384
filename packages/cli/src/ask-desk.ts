// What the model asks the person, until it is answered.
//   AK1  a question is kept with the key that answers it, in a file that only its owner may read: it can be answered after
//        a restart. Nothing else is ever told the key.

import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import type { Runtime } from "marling";
import type { AskedQuestion } from "marling/tools";

const VERSION = 1;

/** What is in the file. */
interface Kept {
  readonly version: typeof VERSION;
  readonly asked: readonly AskedQuestion[];
}

export class AskDesk {
  readonly #path: string;
  #asked: readonly AskedQuestion[];
  #listener: () => void = () => undefined;

  constructor(store: string) {
    this.#path = `${store}.asked.json`;
    this.#asked = read(this.#path);
  }

  /** Told when something is asked. */
  listen(listener: () => void): void {
    this.#listener = listener;
  }

  /** What a session, or one below it, waits to be told; oldest first. */
  of(sessionId: string): readonly AskedQuestion[] {
    return this.#asked.filter(
      (asked) => asked.sessionId === sessionId || asked.sessionId.startsWith(`${sessionId}:`),
    );
  }

  /** Keeps a question; one that is asked again after a crash takes the place of the first. */
  ask(asked: AskedQuestion): void {
    this.#keep([...this.#asked.filter((each) => !isSame(each, asked)), asked]);
    this.#listener();
  }

  /** Answers a question; what is wrong with the answer, if anything is. */
  async answer(runtime: Runtime, asked: AskedQuestion, text: string): Promise<string | undefined> {
    const { choices = [], other, key } = asked;
    const chosen = choiceOf(choices, text) ?? text;
    if (choices.length > 0 && !other && !choices.includes(chosen))
      return `expected one of ${choices.join(", ")}, or its number`;
    await runtime.resolve(key, { ok: chosen });
    this.forget(asked);
    return undefined;
  }

  /** Nobody will answer: its turn is over. */
  forget(asked: AskedQuestion): void {
    this.#keep(this.#asked.filter((each) => !isSame(each, asked)));
  }

  #keep(asked: readonly AskedQuestion[]): void {
    this.#asked = asked;
    if (asked.length === 0) return void rmSync(this.#path, { force: true });
    const draft = `${this.#path}.${process.pid}`;
    writeFileSync(draft, JSON.stringify({ version: VERSION, asked }), { mode: 0o600 });
    chmodSync(draft, 0o600);
    renameSync(draft, this.#path);
  }
}

/** A choice by its number, as the list shows it. */
function choiceOf(choices: readonly string[], text: string): string | undefined {
  return /^\d+$/.test(text)
    ? choices[Number(text) - 1]
    : choices.find((each) => each.toLowerCase() === text.toLowerCase());
}

function isSame(a: AskedQuestion, b: AskedQuestion): boolean {
  return a.sessionId === b.sessionId && a.turnId === b.turnId && a.callId === b.callId;
}

function read(path: string): readonly AskedQuestion[] {
  if (!existsSync(path)) return [];
  try {
    const { version, asked }: Partial<Kept> = JSON.parse(readFileSync(path, "utf8"));
    return version === VERSION && Array.isArray(asked) ? asked : []; // as #keep writes it
  } catch {
    return []; // What cannot be read cannot be answered; the call can still be cancelled.
  }
}
