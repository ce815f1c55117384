// Project instructions: AGENTS.md and its relatives, from the root of a project down to the working directory.
//   PJ1  nothing of a directory is used before it is trusted; watchers are told that something was left out.
//   PJ2  the nearest file comes last and the prompt says that it wins; when there is too much, the farthest goes first.
//   PJ3  files are looked at when a turn begins: a change is seen by the next turn and not in the middle of one.

import {
  type Directive,
  definePlugin,
  directive,
  type JsonObject,
  type Plugin,
  type PromptContribution,
} from "../../index.ts";
import { aPositiveCount, aText, checkOptions, texts } from "../check-options.ts";
import {
  type InstructionCache,
  type InstructionFile,
  type InstructionRequest,
  type Instructions,
  readInstructions,
} from "./read-instructions.ts";

export interface ProjectInstructionsOptions {
  /** The working directory; by default that of the process. */
  readonly directory?: string;
  /** How far up files count; by default up to the nearest directory with a `.git`. */
  readonly root?: string;
  /** The names that are looked for; of one directory the first that is there counts. */
  readonly names?: readonly string[];
  /** `true`, or directories that are trusted with everything below them. By default nothing is. */
  readonly trusted?: boolean | readonly string[];
  /** How many characters of one file are used; 32768 by default. */
  readonly maxFileChars?: number;
  /** How many characters are used altogether; 65536 by default. */
  readonly maxChars?: number;
}

const ID = "project_instructions";
const NAMES = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md"];
const NOTHING: Instructions = { files: [], refused: [] };

/** Puts the instruction files of a trusted project into the prompt. */
export function projectInstructions(options: ProjectInstructionsOptions = {}): Plugin {
  checkOptions(ID, options, {
    directory: aText,
    root: aText,
    names: texts,
    trusted: (value) =>
      typeof value === "boolean" || texts(value) === undefined ? undefined : "true, false or directories",
    maxFileChars: aPositiveCount,
    maxChars: aPositiveCount,
  });
  const { maxFileChars = 32_768, maxChars = 65_536, trusted = false, names = NAMES } = options;
  const request = { root: options.root, names, trusted, maxFileChars };
  return definePlugin({
    id: ID,
    build() {
      const reader = new InstructionReader({ ...request, directory: options.directory ?? "." });
      return {
        turn: { before: async ({ turnContext }) => reader.news(await reader.read(turnContext.turnId)) },
        prompt: async ({ turnContext }) =>
          contribution((await reader.read(turnContext.turnId)).files, maxChars),
      };
    },
  })();
}

class InstructionReader {
  readonly #request: InstructionRequest;
  readonly #cache: InstructionCache = new Map();
  #latest: { readonly turnId: string; readonly read: Promise<Instructions> } | undefined;
  #told = "";

  constructor(request: InstructionRequest) {
    this.#request = request;
  }

  /** The files as they were when the turn began. A directory that cannot be read has none. */
  read(turnId: string): Promise<Instructions> {
    if (this.#latest?.turnId !== turnId) {
      const read = readInstructions(this.#request, this.#cache).catch(() => NOTHING);
      this.#latest = { turnId, read };
    }
    return this.#latest.read;
  }

  /** What watchers have not been told yet. */
  news({ files, refused }: Instructions): readonly Directive[] {
    const payload: JsonObject = {
      files: files.map(({ path }) => path),
      refused: refused.map(({ path, reason }) => ({ path, reason })),
    };
    const now = JSON.stringify([payload, files.map(({ text }) => text)]);
    if (now === this.#told || (this.#told === "" && files.length + refused.length === 0)) return [];
    this.#told = now;
    const name = "project_instructions.files";
    return [
      directive.emitEvents([{ kind: "custom", name, payload }]),
      directive.emitTrace({ name: "files", payload }),
    ];
  }
}

function contribution(files: readonly InstructionFile[], maxChars: number): PromptContribution | undefined {
  const used: InstructionFile[] = [];
  let room = maxChars;
  for (const file of files.toReversed()) {
    if (file.text.length > room) break;
    room -= file.text.length;
    used.unshift(file);
  }
  if (used.length === 0) return undefined;
  const left = files.length - used.length;
  const head =
    "Instructions that this project has in files. Where two of them disagree, the later one wins: it is nearer to the working directory.";
  const omitted = left === 0 ? [] : [`${left} files farther up are left out: there is no room for them.`];
  const texts = used.map(({ path, text }) => `### ${path}\n${text.trim()}`);
  return {
    slot: "project_instructions",
    title: "Project instructions",
    content: [head, ...omitted, ...texts].join("\n\n"),
  };
}
