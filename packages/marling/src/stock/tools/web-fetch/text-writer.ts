// Puts words and lines together: no space or line too many, and no more characters than allowed.

export class TextWriter {
  readonly #maxChars: number;
  readonly #parts: string[] = [];
  #chars = 0;
  #isFull = false;
  /** What is due before the next words. */
  #breaks = 0;
  #prefix = "";
  #needsSpace = false;
  #isLineEmpty = true;
  #isCode = false;
  #link: { readonly href: string; isBegun: boolean } | undefined;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** Whether something had to be left out. */
  get isFull(): boolean {
    return this.#isFull;
  }

  text(): string {
    return this.#parts.join("").trim();
  }

  /** Words, with the space between them as HTML means it; as they are inside code. */
  words(text: string): void {
    if (this.#isCode) {
      this.#put(text);
      return;
    }
    const words = text.replace(/[ \t\n\r\f]+/g, " ");
    const plain = words.trim();
    if (words.startsWith(" ")) this.#needsSpace = true;
    if (plain === "") return;
    this.#begin();
    this.#put(plain);
    this.#needsSpace = words.endsWith(" ");
  }

  /** Goes to a new line, with empty lines before it; several in a row are as the largest of them. */
  startLine(breaks: number, prefix = ""): void {
    if (this.#isCode) {
      this.#put("\n");
      return;
    }
    this.#breaks = Math.max(this.#breaks, breaks);
    this.#needsSpace = false;
    this.#isLineEmpty = true;
    if (prefix !== "") this.#prefix = prefix;
  }

  /** A line of its own that parts what is before from what is after. */
  rule(): void {
    if (this.#isCode) return;
    this.startLine(2, "---");
    this.#begin();
    this.startLine(2);
  }

  /** What a line was to begin with is left out when the line has no words. */
  dropPrefix(): void {
    this.#prefix = "";
  }

  /** Goes between two things on one line. */
  separate(mark: string): void {
    if (this.#isCode || this.#isLineEmpty) return;
    this.#put(mark);
    this.#needsSpace = false;
  }

  openLink(href: string | undefined): void {
    this.closeLink();
    this.#link = href === undefined ? undefined : { href, isBegun: false };
  }

  /** A link without words is left out. */
  closeLink(): void {
    const link = this.#link;
    this.#link = undefined;
    if (link?.isBegun === true) this.#put(`](${link.href})`);
  }

  openCode(): void {
    if (this.#isCode) return;
    this.startLine(2, "```\n");
    this.#begin();
    this.#isCode = true;
  }

  closeCode(): void {
    if (!this.#isCode) return;
    this.#isCode = false;
    this.#put("\n```");
    this.startLine(2);
  }

  #begin(): void {
    if (this.#breaks > 0 && this.#chars > 0) this.#put("\n".repeat(this.#breaks));
    else if (this.#needsSpace && !this.#isLineEmpty) this.#put(" ");
    this.#put(this.#prefix);
    this.#breaks = 0;
    this.#prefix = "";
    this.#needsSpace = false;
    this.#isLineEmpty = false;
    if (this.#link === undefined || this.#link.isBegun) return;
    this.#link.isBegun = true;
    this.#put("[");
  }

  #put(text: string): void {
    const kept = text.slice(0, this.#maxChars - this.#chars);
    if (kept.length < text.length) this.#isFull = true;
    if (kept === "") return;
    this.#parts.push(kept);
    this.#chars += kept.length;
  }
}
