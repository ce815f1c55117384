import { randomBytes } from "node:crypto";
import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";

/** A place in the log of one session. */
export interface ObservationCursor {
  /** Which opening of the session the log is of. */
  readonly opening: string;
  /** The number of the entry that comes next. */
  readonly next: number;
  /** The newest revision that the observer has been told of. */
  readonly revision: number;
}

/** Openings are told apart by the process, which is a random text, and by their number in it. */
let processMark: string | undefined;
let openings = 0;

export function nextOpening(): string {
  processMark ??= randomBytes(12).toString("base64url");
  openings += 1;
  return `${processMark}-${openings.toString(36)}`;
}

/** Writes cursors for one opening of a session and reads those of any, in this process or another. */
export class CursorCodec {
  readonly #sessionId: string;
  readonly #mark: string;
  /** What its cursors begin with, as one piece: every observation is given one. */
  readonly #start: string;

  constructor(sessionId: string, opening: string) {
    this.#sessionId = sessionId;
    this.#mark = sha256(sessionId).slice(0, 8);
    this.#start = [this.#mark, opening, ""].join(".");
  }

  encode({ next, revision }: Pick<ObservationCursor, "next" | "revision">): string {
    return `${this.#start}${next}.${revision}`;
  }

  /** Throws `invalid_input` for anything that is not a cursor of this session. */
  decode(raw: unknown): ObservationCursor {
    const [, mark, opening = "", next, revision] = CURSOR.exec(typeof raw === "string" ? raw : "") ?? [];
    if (mark === undefined) throw this.refusal("a cursor that observe() gave", describe(raw));
    if (mark !== this.#mark) throw this.refusal("a cursor of this session", "one of another session");
    return { opening, next: Number(next), revision: Number(revision) };
  }

  refusal(expected: string, found: string): MarlingError {
    const message = `session ${this.#sessionId}: cursor: expected ${expected}, found ${found}`;
    return new MarlingError("invalid_input", message, { details: { sessionId: this.#sessionId } });
  }
}

function describe(raw: unknown): string {
  return typeof raw === "string" ? JSON.stringify(raw.slice(0, 80)) : typeof raw;
}

const CURSOR = /^([0-9a-f]{8})\.([\w-]{1,64})\.(\d{1,15})\.(\d{1,15})$/;
