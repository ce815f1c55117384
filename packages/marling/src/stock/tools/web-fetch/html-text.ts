// HTML as text to read: headings, lists, links, tables and code keep their shape, the rest is words.
//   WF7  scripts, styles and what is not shown as text are dropped; the text has at most the characters it may have,
//        however the page is written, and the work grows with the page.

import { decodeEntities } from "./html-entities.ts";
import { type HtmlToken, htmlTokens } from "./html-tokens.ts";
import { TextWriter } from "./text-writer.ts";

export interface HtmlText {
  readonly title: string | undefined;
  readonly text: string;
  readonly isCut: boolean;
}

type Tag = Extract<HtmlToken, { kind: "tag" }>;

const PARAGRAPHS = new Set(["p", "blockquote", "table", "dl", "figure"]);
const LINES = new Set(
  "address article aside body dd details div dt fieldset figcaption footer form header li main nav option section summary tr".split(
    " ",
  ),
);
const DEEPEST_LIST = 8;

export function htmlToText(
  html: string,
  { base, maxChars }: { readonly base: URL; readonly maxChars: number },
): HtmlText {
  const reader = new HtmlReader(base, new TextWriter(maxChars));
  for (const token of htmlTokens(html)) {
    reader.read(token);
    if (reader.isFull) break;
  }
  return reader.end();
}

class HtmlReader {
  readonly #base: URL;
  readonly #writer: TextWriter;
  readonly #lists: ("ol" | "ul")[] = [];
  #title: string | undefined;
  #isTitle = false;

  constructor(base: URL, writer: TextWriter) {
    this.#base = base;
    this.#writer = writer;
  }

  get isFull(): boolean {
    return this.#writer.isFull;
  }

  read(token: HtmlToken): void {
    if (token.kind === "text") this.#read(decodeEntities(token.text));
    else if (token.isEnd) this.#close(token.name);
    else this.#open(token);
  }

  end(): HtmlText {
    this.#writer.closeLink();
    return { title: this.#title || undefined, text: this.#writer.text(), isCut: this.#writer.isFull };
  }

  #read(text: string): void {
    if (!this.#isTitle) {
      this.#writer.words(text);
      return;
    }
    this.#title ??= text.replace(/\s+/g, " ").trim().slice(0, 500);
    this.#isTitle = false;
  }

  #open({ name, attributes }: Tag): void {
    const writer = this.#writer;
    if (isHeading(name)) writer.startLine(2, `${"#".repeat(Number(name[1]))} `);
    else if (PARAGRAPHS.has(name)) writer.startLine(2);
    else if (name === "ul" || name === "ol") this.#openList(name);
    else if (name === "li") writer.startLine(1, this.#bullet());
    else if (name === "td" || name === "th") writer.separate(" | ");
    else if (name === "br" || LINES.has(name)) writer.startLine(1);
    else if (name === "hr") writer.rule();
    else if (name === "a") writer.openLink(this.#target(attributes.get("href")));
    else if (name === "img") this.#image(attributes.get("alt"));
    else if (name === "pre") writer.openCode();
    else if (name === "title") this.#isTitle = true;
  }

  #close(name: string): void {
    const writer = this.#writer;
    if (name === "li" || isHeading(name)) writer.dropPrefix();
    if (name === "a") writer.closeLink();
    else if (name === "pre") writer.closeCode();
    else if (name === "ul" || name === "ol") this.#closeList();
    else if (PARAGRAPHS.has(name) || isHeading(name)) writer.startLine(2);
    else if (LINES.has(name)) writer.startLine(1);
  }

  #openList(name: "ol" | "ul"): void {
    this.#writer.startLine(this.#lists.length === 0 ? 2 : 1);
    this.#lists.push(name);
  }

  #closeList(): void {
    this.#lists.pop();
    this.#writer.startLine(this.#lists.length === 0 ? 2 : 1);
  }

  #bullet(): string {
    const depth = Math.max(0, Math.min(this.#lists.length, DEEPEST_LIST) - 1);
    return `${"  ".repeat(depth)}${this.#lists.at(-1) === "ol" ? "1." : "-"} `;
  }

  #image(alt: string | undefined): void {
    const text = decodeEntities(alt ?? "").trim();
    if (text !== "") this.#writer.words(`[image: ${text}]`);
  }

  /** Links that lead somewhere; places on the same page and scripts are words only. */
  #target(href: string | undefined): string | undefined {
    const written = decodeEntities(href ?? "").trim();
    if (written === "" || written.startsWith("#") || !URL.canParse(written, this.#base.href))
      return undefined;
    const url = new URL(written, this.#base.href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  }
}

function isHeading(name: string): boolean {
  return /^h[1-6]$/.test(name);
}
