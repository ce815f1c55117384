// The tool `read_file`.

import type { FileHandle } from "node:fs/promises";
import { defineTool, type ToolContext, type ToolDefinition } from "../../../index.ts";
import { checkRegular, within } from "./confined-folder.ts";
import { contentKind, TELLING_BYTES } from "./content-kind.ts";
import { answering, FileRefusal } from "./file-refusal.ts";
import { atPlace, type Place } from "./locate.ts";
import { type LinesRead, type ReadLine, readLines } from "./read-lines.ts";
import { readUpTo } from "./read-start.ts";
import { argumentsOf, countArgument, type FileToolSetup, PATH } from "./tool-setup.ts";

interface ReadArgs {
  readonly path: string;
  readonly offset?: number;
  readonly limit?: number;
}

export function readFileTool(setup: FileToolSetup): ToolDefinition {
  const { readLines: most, readBytes, lineLength } = setup.limits;
  return defineTool({
    name: "read_file",
    description:
      `Reads a text file with line numbers: at most ${most} lines and ${readBytes} bytes at once, lines cut at ` +
      `${lineLength} characters. The end says what was left out and how to read on. Images are shown; other binary files ` +
      "are described.",
    input: argumentsOf(
      {
        path: PATH,
        offset: countArgument("The first line to read, from 1.", { from: 1 }),
        limit: countArgument("How many lines to read.", { from: 1 }),
      },
      ["path"],
    ),
    replay: "safe",
    pathArgs: ["path"],
    execute: (raw, context) => {
      const args = raw as unknown as ReadArgs; // The schema above was checked.
      return answering(() =>
        atPlace(within(setup.root, context.paths), args.path, (place) =>
          readPlace(place, { args, setup, context }),
        ),
      );
    },
  });
}

interface Reading {
  readonly args: ReadArgs;
  readonly setup: FileToolSetup;
  readonly context: Pick<ToolContext, "signal" | "attachments">;
}

async function readPlace(place: Place, reading: Reading): Promise<unknown> {
  const { path } = place;
  if (place.kind === "folder")
    throw new FileRefusal("not_a_file", `${path}: expected a file, found a folder.`);
  if (place.kind !== "found") throw new FileRefusal("not_found", `${path}: there is no file of this name.`);
  checkRegular(place.stats, path);
  const handle = await place.folder.openFile(place.name);
  try {
    return await readOpen(handle, path, reading);
  } finally {
    await handle.close();
  }
}

async function readOpen(handle: FileHandle, path: string, reading: Reading): Promise<unknown> {
  const { limits } = reading.setup;
  const content = contentKind(await readUpTo(handle, TELLING_BYTES));
  const { size } = await handle.stat();
  if (content.kind === "binary")
    return `${path} is ${content.what} of ${size} bytes; it is not shown as text.`;
  if (content.kind === "text") return textOf(handle, path, reading);
  if (size > limits.imageBytes)
    return `${path} is an image (${content.mediaType}) of ${size} bytes; at most ${limits.imageBytes} bytes are shown.`;
  const bytes = await readUpTo(handle, limits.imageBytes);
  const image = await reading.context.attachments.put(bytes, content.mediaType);
  return { path, mediaType: content.mediaType, bytes: bytes.length, image };
}

async function textOf(handle: FileHandle, path: string, { args, setup, context }: Reading): Promise<string> {
  const { limits } = setup;
  const { offset = 1, limit = limits.readLines } = args;
  const read = await readLines(handle, {
    offset,
    limit: Math.min(limit, limits.readLines),
    bytes: limits.readBytes,
    lineLength: limits.lineLength,
    scanBytes: limits.scanBytes,
    signal: context.signal,
  });
  if (read.lines.length === 0) return nothingRead(read, path, offset);
  return [...read.lines.map(shownLine), ...remark(read)].join("\n");
}

function nothingRead({ total }: LinesRead, path: string, offset: number): string {
  if (total === 0) return `(${path} is empty.)`;
  if (total !== undefined) return `(${path} has ${total} lines; there is no line ${offset}.)`;
  return `(Line ${offset} of ${path} is further into the file than one call looks. Use grep to find what you need.)`;
}

function shownLine({ number, text, leftOut }: ReadLine): string {
  const cut = leftOut > 0 ? ` [cut: ${leftOut} more bytes in this line]` : "";
  return `${String(number).padStart(6)}\t${text}${cut}`;
}

function remark({ lines, next, total }: LinesRead): readonly string[] {
  if (next === undefined) return [];
  const of = total === undefined ? "of a file with more" : `of ${total}`;
  return ["", `(Lines ${lines[0]?.number}-${lines.at(-1)?.number} ${of}. Read on with offset ${next}.)`];
}
