// What a patch asks for, whichever way it was written.

/** One line of a hunk. Lines have no ends here. */
export interface HunkLine {
  readonly kind: "same" | "removed" | "added";
  readonly text: string;
  /** A last line that is to have no newline. */
  readonly hasNoEnd?: true;
}

export interface Hunk {
  /** From 1, within its file. */
  readonly number: number;
  /** Lines that come before the hunk, outermost first: where to begin looking. */
  readonly headers: readonly string[];
  /** The line at which the hunk begins, from 1, as the patch says; used only to choose between equal places. */
  readonly hint?: number;
  readonly isAtEnd?: true;
  readonly lines: readonly HunkLine[];
}

export type PatchChange =
  | { readonly kind: "add"; readonly path: string; readonly content: string }
  | { readonly kind: "delete"; readonly path: string; readonly hunks: readonly Hunk[] }
  | {
      readonly kind: "update";
      readonly path: string;
      readonly moveTo?: string;
      readonly hunks: readonly Hunk[];
    };
