// The tool `write_file`.

import { defineTool, type ToolDefinition } from "../../../index.ts";
import { checkRegular } from "./confined-folder.ts";
import { answering, FileRefusal } from "./file-refusal.ts";
import { locate, type Place } from "./locate.ts";
import { checkWritable, stageFile } from "./staged-file.ts";
import { argumentsOf, type FileToolSetup, PATH, setupFor, textArgument } from "./tool-setup.ts";

interface WriteArgs {
  readonly path: string;
  readonly content: string;
}

export function writeFileTool(setup: FileToolSetup): ToolDefinition {
  return defineTool({
    name: "write_file",
    description:
      "Writes a whole text file, and the folders above it that are missing. A file that is there is overwritten.",
    input: argumentsOf({ path: PATH, content: textArgument("The whole content of the file.") }, [
      "path",
      "content",
    ]),
    replay: "idempotent",
    pathArgs: ["path"],
    execution: "serial",
    execute: (raw, context) => {
      const args = raw as unknown as WriteArgs; // The schema above was checked.
      const own = setupFor(setup, context);
      return answering(() => setup.writing(context.signal, () => writeWhole(own, args)));
    },
  });
}

async function writeWhole({ root, limits }: FileToolSetup, { path, content }: WriteArgs): Promise<unknown> {
  const bytes = Buffer.from(content, "utf8");
  if (bytes.length > limits.writeBytes)
    throw new FileRefusal(
      "file_too_large",
      `${path}: expected at most ${limits.writeBytes} bytes, found ${bytes.length}. Write less at once.`,
    );
  const place = await locate(root, path, { makeFolders: true });
  if (place.kind === "missing") throw new FileRefusal("not_found", `${place.path}: its folder went away.`);
  try {
    return await writePlace(place, bytes);
  } finally {
    await place.folder.close();
  }
}

async function writePlace(place: Exclude<Place, { kind: "missing" }>, bytes: Uint8Array): Promise<unknown> {
  const { path, folder } = place;
  if (place.kind === "folder")
    throw new FileRefusal("not_a_file", `${path}: expected a file, found a folder.`);
  const mode = place.kind === "found" ? Number(place.stats.mode & 0o7777n) : undefined;
  if (place.kind === "found") {
    checkRegular(place.stats, path);
    await checkWritable(folder, place.name);
  }
  const staged = await stageFile(
    { folder, name: place.name, ...(mode === undefined ? {} : { mode }) },
    bytes,
  );
  try {
    await staged.commit();
  } finally {
    await staged.discard();
  }
  return { path, status: place.kind === "found" ? "overwritten" : "created", bytes: bytes.length };
}
