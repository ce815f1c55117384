// The tool `grep`.

import { defineTool, type ToolDefinition } from "../../../index.ts";
import type { ConfinedFolder } from "./confined-folder.ts";
import { contentKind } from "./content-kind.ts";
import { answering, FileRefusal } from "./file-refusal.ts";
import { folderWalk, inFolder, walkRemarks } from "./folder-walk.ts";
import { atPlace, type Place } from "./locate.ts";
import { type PathPattern, parsePathPattern } from "./path-pattern.ts";
import { type FoundLine, PatternSearch } from "./pattern-search.ts";
import { readUpTo } from "./read-start.ts";
import {
  argumentsOf,
  countArgument,
  type FileToolSetup,
  flagArgument,
  setupFor,
  textArgument,
} from "./tool-setup.ts";

const MAX_CONTEXT = 20;
const SHOWN_LENGTH = 500;

interface GrepArgs {
  readonly pattern: string;
  readonly path?: string;
  readonly include?: string;
  readonly context?: number;
  readonly ignoreCase?: boolean;
  readonly literal?: boolean;
  readonly includeIgnored?: boolean;
}

export function grepTool(setup: FileToolSetup): ToolDefinition {
  const { matches, searchBytes } = setup.limits;
  return defineTool({
    name: "grep",
    description:
      "Searches the lines of text files for a JavaScript regular expression. Answers with path:line:text for a match and " +
      `path-line-text around it. At most ${matches} matches; files of more than ${searchBytes} bytes, binary files and what ` +
      ".gitignore leaves out are not searched.",
    input: argumentsOf(
      {
        pattern: textArgument("The expression; it is matched line by line."),
        path: textArgument("A file or a folder relative to the root; by default the root."),
        include: textArgument("Only files of this pattern, such as *.ts or src/**/*.{ts,tsx}."),
        context: countArgument("Lines to show before and after a match.", { from: 0, to: MAX_CONTEXT }),
        ignoreCase: flagArgument("Whether upper and lower case are the same."),
        literal: flagArgument("Whether the pattern is plain text."),
        includeIgnored: flagArgument("Also what .gitignore files leave out."),
      },
      ["pattern"],
    ),
    replay: "safe",
    pathArgs: ["path"],
    execute: (raw, context) => {
      const args = raw as unknown as GrepArgs; // The schema above was checked.
      return answering(() => grep(setupFor(setup, context), args, context));
    },
  });
}

async function grep(
  setup: FileToolSetup,
  args: GrepArgs,
  { signal }: { readonly signal: AbortSignal },
): Promise<string> {
  const { pattern, path = ".", context = 0, ignoreCase = false, literal = false } = args;
  if (pattern === "")
    throw new FileRefusal("invalid_pattern", "pattern: expected an expression, found nothing.");
  const include = args.include === undefined ? undefined : includePattern(args.include);
  return atPlace(setup.root, path, async (place) => {
    const search = await PatternSearch.start(literal ? escaped(pattern) : pattern, {
      ignoreCase,
      context,
      lineLength: Math.min(SHOWN_LENGTH, setup.limits.lineLength),
      limitMs: setup.limits.searchMs,
      signal,
    });
    try {
      const run = new GrepRun(setup, search);
      if (isFile(place)) await run.searchFile(place.folder, place.name);
      else await inFolder(place, (folder) => run.searchFolder(folder, { args, include, signal }));
      return run.answer();
    } finally {
      await search.close();
    }
  });
}

/** Without a slash, the pattern is one of names, wherever they are. */
function includePattern(text: string): PathPattern {
  return parsePathPattern(text.includes("/") ? text : `**/${text}`);
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

function isFile(place: Place): place is Extract<Place, { kind: "found" }> {
  return place.kind === "found" && !place.stats.isDirectory();
}

interface FolderSearch {
  readonly args: GrepArgs;
  readonly include: PathPattern | undefined;
  readonly signal: AbortSignal;
}

class GrepRun {
  readonly #setup: FileToolSetup;
  readonly #search: PatternSearch;
  readonly #lines: string[] = [];
  #remarks: readonly string[] = [];
  #matches = 0;
  #bytes = 0;
  #isFull = false;
  #searched = 0;
  #binary = 0;
  #large = 0;

  constructor(setup: FileToolSetup, search: PatternSearch) {
    this.#setup = setup;
    this.#search = search;
  }

  async searchFolder(folder: ConfinedFolder, { args, include, signal }: FolderSearch): Promise<void> {
    const walk = folderWalk(folder, this.#setup, {
      signal,
      includeIgnored: args.includeIgnored ?? false,
      enters: (below) => include?.reaches(below) ?? true,
    });
    for await (const entry of walk.entries) {
      if (entry.kind !== "file" || include?.matches(walk.below(entry)) === false) continue;
      try {
        await this.searchFile(entry.folder, entry.name);
      } catch (thrown) {
        if (!(thrown instanceof FileRefusal) || thrown.reason.startsWith("search_")) throw thrown;
        walk.report.unreadable += 1;
      }
      if (this.#isFull) break;
    }
    this.#remarks = walkRemarks(walk.report);
  }

  async searchFile(folder: ConfinedFolder, name: string): Promise<void> {
    const bytes = await this.#textBytes(folder, name);
    if (bytes === undefined) return;
    this.#searched += 1;
    const room = this.#setup.limits.matches - this.#matches;
    const found = await this.#search.search(bytes, room + 1);
    this.#add(folder.pathOf(name), found, room);
  }

  answer(): string {
    const full = this.#isFull
      ? [`(The first ${this.#matches} matches; there are more. Use a narrower pattern, path or include.)`]
      : [];
    const none = this.#matches === 0 ? [`(No match in ${this.#searched} files.)`] : [];
    const left = [
      ...(this.#binary > 0 ? [`${this.#binary} binary`] : []),
      ...(this.#large > 0 ? [`${this.#large} larger than ${this.#setup.limits.searchBytes} bytes`] : []),
    ];
    const skipped = left.length > 0 ? [`(Files not searched: ${left.join(", ")}.)`] : [];
    return [...this.#lines, ...none, ...full, ...skipped, ...this.#remarks].join("\n");
  }

  /** Nothing for a file that is not searched. */
  async #textBytes(folder: ConfinedFolder, name: string): Promise<Buffer<ArrayBuffer> | undefined> {
    const { searchBytes } = this.#setup.limits;
    const handle = await folder.openFile(name);
    try {
      if ((await handle.stat()).size > searchBytes) {
        this.#large += 1;
        return undefined;
      }
      const bytes = await readUpTo(handle, searchBytes);
      if (contentKind(bytes).kind === "text") return bytes;
      this.#binary += 1;
      return undefined;
    } finally {
      await handle.close();
    }
  }

  #add(path: string, found: readonly FoundLine[], room: number): void {
    let last: number | undefined;
    let added = 0;
    for (const { number, text, isMatch } of found) {
      const line = isMatch ? `${path}:${number}:${text}` : `${path}-${number}-${text}`;
      this.#bytes += Buffer.byteLength(line) + 1;
      if ((isMatch && added === room) || this.#bytes > this.#setup.limits.readBytes) {
        this.#isFull = true;
        break;
      }
      const isGap = last === undefined ? this.#lines.length > 0 : number > last + 1;
      if (isGap && this.#hasContext(found)) this.#lines.push("--");
      this.#lines.push(line);
      if (isMatch) added += 1;
      last = number;
    }
    this.#matches += added;
  }

  #hasContext(found: readonly FoundLine[]): boolean {
    return found.some(({ isMatch }) => !isMatch);
  }
}
