// The tool `edit_file`.

import { defineTool, type ToolDefinition } from "../../../index.ts";
import { checkRegular, within } from "./confined-folder.ts";
import { answering, FileRefusal } from "./file-refusal.ts";
import { atPlace, type Place } from "./locate.ts";
import { nearestLines } from "./nearest-lines.ts";
import { lineEnd } from "./split-lines.ts";
import { checkWritable, stageFile } from "./staged-file.ts";
import { checkUnchanged, readTextFile } from "./text-file.ts";
import { argumentsOf, type FileToolSetup, flagArgument, PATH, textArgument } from "./tool-setup.ts";
import { diffBounds, unifiedDiff } from "./unified-diff.ts";

interface EditArgs {
  readonly path: string;
  readonly oldText: string;
  readonly newText: string;
  readonly replaceAll?: boolean;
}

export function editFileTool(setup: FileToolSetup): ToolDefinition {
  return defineTool({
    name: "edit_file",
    description:
      "Replaces text in a file. oldText must be in the file exactly, white space included and without line numbers, and " +
      "only once, unless replaceAll is true. Returns a diff of what changed.",
    input: argumentsOf(
      {
        path: PATH,
        oldText: textArgument("The text to replace, with enough around it to be found once."),
        newText: textArgument("The text to put in its place."),
        replaceAll: flagArgument("Replaces every place where oldText is."),
      },
      ["path", "oldText", "newText"],
    ),
    replay: "unsafe",
    pathArgs: ["path"],
    execution: "serial",
    execute: (raw, { signal, paths }) => {
      const args = raw as unknown as EditArgs; // The schema above was checked.
      const edit = (place: Place): Promise<string> => editPlace(place, args, setup);
      const root = within(setup.root, paths);
      return answering(() => setup.writing(signal, () => atPlace(root, args.path, edit)));
    },
  });
}

async function editPlace(place: Place, args: EditArgs, { limits }: FileToolSetup): Promise<string> {
  const { path } = place;
  if (place.kind === "folder")
    throw new FileRefusal("not_a_file", `${path}: expected a file, found a folder.`);
  if (place.kind !== "found")
    throw new FileRefusal(
      "not_found",
      `${path}: there is no file of this name. Use write_file to create one.`,
    );
  const { folder, name, stats } = place;
  checkRegular(stats, path);
  await checkWritable(folder, name);
  const { text, mode, version } = await readTextFile(folder, name, { maxBytes: limits.writeBytes });
  const { edited, count } = replaceIn(text, args, path);
  const bytes = Buffer.from(edited, "utf8");
  if (bytes.length > limits.writeBytes)
    throw new FileRefusal(
      "file_too_large",
      `${path}: expected at most ${limits.writeBytes} bytes after the edit, found ${bytes.length}.`,
    );
  const staged = await stageFile({ folder, name, mode }, bytes);
  try {
    await checkUnchanged(folder, name, version);
    await staged.commit();
  } finally {
    await staged.discard();
  }
  const diff = unifiedDiff({ before: text, after: edited }, { path, bounds: diffBounds(limits) });
  return `Edited ${path}: ${count} ${count === 1 ? "replacement" : "replacements"}.\n${diff}`;
}

function replaceIn(
  text: string,
  { path, oldText, newText, replaceAll = false }: EditArgs,
  shown: string,
): { readonly edited: string; readonly count: number } {
  if (oldText === "")
    throw new FileRefusal(
      "no_match",
      `${shown}: expected oldText, found none. Use write_file to write a whole file.`,
    );
  if (oldText === newText)
    throw new FileRefusal("no_change", `${path}: oldText and newText are the same: nothing to change.`);
  const [wanted, replacement] = inEndsOf(text, oldText, newText);
  const places = placesOf(text, wanted);
  if (places.length === 0)
    throw new FileRefusal(
      "no_match",
      `${shown}: expected oldText in the file, found 0 matches. ${nearestLines(text, oldText)}`,
    );
  if (places.length > 1 && !replaceAll) throw ambiguous(text, places, shown);
  return { edited: text.split(wanted).join(replacement), count: places.length };
}

/** Models write plain line ends; a file with others keeps its own. */
function inEndsOf(text: string, oldText: string, newText: string): readonly [string, string] {
  if (lineEnd(text) === "\n") return [oldText, newText];
  const ends = (one: string): string => one.replace(/\r?\n/g, "\r\n");
  return [text.includes(oldText) ? oldText : ends(oldText), ends(newText)];
}

function placesOf(text: string, wanted: string): readonly number[] {
  const places: number[] = [];
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length))
    places.push(at);
  return places;
}

function ambiguous(text: string, places: readonly number[], path: string): FileRefusal {
  const numbers = places.slice(0, 10).map((at) => text.slice(0, at).split("\n").length);
  const more = places.length > numbers.length ? ", ..." : "";
  return new FileRefusal(
    "ambiguous_match",
    `${path}: expected oldText once, found ${places.length} matches, at lines ${numbers.join(", ")}${more}. ` +
      "Give more of the text around the place you mean, or set replaceAll.",
  );
}
