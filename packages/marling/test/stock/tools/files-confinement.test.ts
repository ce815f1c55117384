// Nothing outside the root is read or written, whatever a path or a link says.

import { execFileSync } from "node:child_process";
import {
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ConfinedFolder, confinedRoot, type OpenBy } from "../../../src/stock/tools/files/confined-folder.ts";
import { FileRefusal } from "../../../src/stock/tools/files/file-refusal.ts";
import { locate } from "../../../src/stock/tools/files/locate.ts";
import { readStart } from "../../../src/stock/tools/files/read-start.ts";
import { stageFile } from "../../../src/stock/tools/files/staged-file.ts";
import { type FileBench, fileBench, SECRET } from "./file-bench.ts";

const patchAdding = (path: string): string => `*** Begin Patch\n*** Add File: ${path}\n+x\n*** End Patch`;
const patchDeleting = (path: string): string => `*** Begin Patch\n*** Delete File: ${path}\n*** End Patch`;
const patchUpdating = (path: string): string =>
  `*** Begin Patch\n*** Update File: ${path}\n-${SECRET}\n+x\n*** End Patch`;

/** Every tool, asked for one path. */
const callsFor = (path: string): readonly (readonly [string, object])[] => [
  ["read_file", { path }],
  ["write_file", { path, content: "x" }],
  ["edit_file", { path, oldText: "secret", newText: "x" }],
  ["grep", { pattern: "secret", path }],
  ["list_files", { path }],
  ["glob", { pattern: "**", path }],
  ["apply_patch", { patch: patchAdding(path) }],
  ["apply_patch", { patch: patchDeleting(path) }],
  ["apply_patch", { patch: patchUpdating(path) }],
];

async function expectRefused(bench: FileBench, path: string): Promise<void> {
  for (const [tool, args] of callsFor(path)) {
    const { code, class: kind, message } = await bench.fail(tool, args);
    expect(`${tool} ${code} ${kind}`).toBe(`${tool} path_outside_root permission_denied`);
    expect(message).not.toContain(SECRET);
  }
  expectOutsideUntouched(bench);
}

function expectOutsideUntouched({ outside }: FileBench): void {
  expect(readdirSync(outside)).toEqual(["secret.txt"]);
  expect(readFileSync(join(outside, "secret.txt"), "utf8")).toBe(SECRET);
}

test("[FT1] a path with .. out of the root is refused by every tool", async () => {
  const bench = fileBench();
  bench.put("a/b.txt", "x");
  await expectRefused(bench, "../outside/secret.txt");
  await expectRefused(bench, "a/../../outside/secret.txt");
  await expectRefused(bench, "..");
});

test("[FT1] an absolute path outside is refused by every tool, also one that begins like the root", async () => {
  const bench = fileBench();
  await expectRefused(bench, join(bench.outside, "secret.txt"));
  await expectRefused(bench, `${bench.root}-other/a.txt`);
});

test("[FT1] .. and absolute paths that stay inside are taken", async () => {
  const bench = fileBench();
  bench.put("a/b.txt", "inside");
  expect(await bench.succeed("read_file", { path: "a/x/../b.txt" })).toBe("     1\tinside");
  expect(await bench.succeed("read_file", { path: join(bench.root, "a/b.txt") })).toBe("     1\tinside");
});

test("[FT2] a link to a file outside is refused by every tool", async () => {
  const bench = fileBench();
  symlinkSync(join(bench.outside, "secret.txt"), join(bench.root, "absolute.txt"));
  symlinkSync("../outside/secret.txt", join(bench.root, "relative.txt"));
  await expectRefused(bench, "absolute.txt");
  await expectRefused(bench, "relative.txt");
});

test("[FT2] a link to a folder outside is refused by every tool, at the end and in the middle of a path", async () => {
  const bench = fileBench();
  mkdirSync(join(bench.root, "a"));
  symlinkSync(bench.outside, join(bench.root, "a", "out"));
  symlinkSync("a", join(bench.root, "b"));
  await expectRefused(bench, "a/out");
  await expectRefused(bench, "a/out/secret.txt");
  await expectRefused(bench, "b/out/secret.txt");
  await expectRefused(bench, "b/out/new/deep.txt");
});

test("[FT2] a link to a name outside that does not exist yet makes no file there", async () => {
  const bench = fileBench();
  symlinkSync(join(bench.outside, "new.txt"), join(bench.root, "dangling.txt"));
  await expectRefused(bench, "dangling.txt");
});

test("[FT2] links that stay inside are walked, through .. and other links, and lead to the file itself", async () => {
  const bench = fileBench();
  bench.put("real/deep/a.txt", "inside\n");
  symlinkSync("real", join(bench.root, "one"));
  symlinkSync("../one/deep/../deep/a.txt", join(bench.root, "real", "two"));
  symlinkSync(join(bench.root, "real"), join(bench.root, "three"));
  expect(await bench.succeed("read_file", { path: "one/two" })).toBe("     1\tinside");
  expect(await bench.succeed("write_file", { path: "three/two", content: "written" })).toEqual({
    path: "real/deep/a.txt",
    status: "overwritten",
    bytes: 7,
  });
  expect(bench.text("real/deep/a.txt")).toBe("written");
});

test("[FT2] links that lead to each other are refused", async () => {
  const bench = fileBench();
  symlinkSync("y", join(bench.root, "x"));
  symlinkSync("x", join(bench.root, "y"));
  expect((await bench.fail("read_file", { path: "x" })).message).toMatch(/at most 40 links/);
});

test("[FT25] walks list links and read nothing through them", async () => {
  const bench = fileBench();
  bench.put("a.txt", "no secrets here");
  symlinkSync(bench.outside, join(bench.root, "out"));
  symlinkSync(join(bench.outside, "secret.txt"), join(bench.root, "s.txt"));
  expect(await bench.succeed("list_files", { depth: 5 })).toBe("a.txt\nout@\ns.txt@");
  expect(await bench.succeed("glob", { pattern: "**" })).toBe("a.txt\nout@\ns.txt@");
  expect(await bench.succeed("grep", { pattern: "secret" })).toBe("a.txt:1:no secrets here");
});

test("[FT23] a .gitignore that is a link to the outside is not read", async () => {
  const bench = fileBench();
  writeFileSync(join(bench.outside, "rules"), "a.txt\n");
  symlinkSync(join(bench.outside, "rules"), join(bench.root, ".gitignore"));
  bench.put("a.txt", "x");
  expect(await bench.succeed("glob", { pattern: "*.txt" })).toBe("a.txt");
});

test("[FT5] pipes, sockets and devices are refused and nothing waits for them", async () => {
  const bench = fileBench();
  execFileSync("mkfifo", [join(bench.root, "pipe")]);
  const server = createServer().listen(join(bench.root, "socket"));
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  for (const path of ["pipe", "socket"])
    for (const [tool, args] of callsFor(path)) {
      if (tool === "list_files" || tool === "glob") continue;
      expect(`${tool} ${(await bench.fail(tool, args)).code}`).toBe(`${tool} not_a_file`);
    }
  expect(await bench.succeed("list_files", {})).toBe("(Nothing found below the root.)");
  expect(await bench.succeed("grep", { pattern: "x" })).toBe("(No match in 0 files.)");
});

test("[FT5] a device below the root is refused", async () => {
  const root = confinedRoot("/dev", "test");
  const folder = await ConfinedFolder.openRoot(root);
  onTestFinished(() => folder.close());
  await expect(folder.openFile("zero")).rejects.toThrow("zero: expected a file, found a device.");
});

test("[FT6] a NUL in a path, a path and a name that are too long are refused", async () => {
  const bench = fileBench();
  for (const [tool, args] of callsFor("a\0b"))
    expect((await bench.fail(tool, args)).code).toBe("invalid_path");
  expect((await bench.fail("read_file", { path: "a/".repeat(2_500) })).code).toBe("invalid_path");
  expect((await bench.fail("write_file", { path: "a".repeat(300), content: "" })).code).toBe("invalid_path");
});

test("[FT6] __proto__ and other names of objects are names like any other", async () => {
  const bench = fileBench();
  await bench.succeed("write_file", { path: "__proto__/constructor", content: "plain\n" });
  await bench.succeed("edit_file", { path: "__proto__/constructor", oldText: "plain", newText: "edited" });
  await bench.patch("*** Begin Patch", "*** Add File: __proto__/toString", "+x", "*** End Patch");
  expect(await bench.succeed("glob", { pattern: "**" })).toBe("__proto__/constructor\n__proto__/toString");
  expect(await bench.succeed("grep", { pattern: "edited" })).toBe("__proto__/constructor:1:edited");
});

test("[FT7] failures name no path of the machine", async () => {
  const bench = fileBench();
  bench.put("file", "x");
  for (const path of ["gone.txt", "gone/deeper.txt", "file/below", "../x"])
    for (const [tool, args] of callsFor(path)) {
      if (tool === "write_file" || String(Object.values(args)[0]).includes("Add File")) continue;
      const { message } = await bench.fail(tool, args);
      expect(message).not.toContain(bench.root);
      expect(message).not.toContain("/proc/");
    }
});

test("[FT3] no call leaves a descriptor open, whether it succeeds or fails", async () => {
  const bench = fileBench();
  bench.put("a/b/c.txt", "inside\n");
  symlinkSync("../a", join(bench.root, "a", "link"));
  symlinkSync(bench.outside, join(bench.root, "a", "out"));
  const paths = ["a/link/b/c.txt", "a/out/x", "a/gone/x", "a/b/c.txt/x", "a/b", "."];
  for (const path of paths)
    for (const [tool, args] of callsFor(path)) {
      await bench.succeed(tool, args).catch(() => undefined);
    }
  expect(openBelow(bench.root)).toEqual([]);
});

/** What this process has open below a folder. */
function openBelow(path: string): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(path) ? [target] : [];
    } catch {
      return []; // It was closed meanwhile.
    }
  });
}

test.each<OpenBy>(["descriptor", "path"])(
  "[FT3] [FT4] opening by %s refuses what became a link meanwhile",
  async (openBy) => {
    const { root: path, outside } = fileBench();
    mkdirSync(join(path, "a"));
    const root = confinedRoot(path, "test", { openBy });
    const folder = await ConfinedFolder.openRoot(root);
    onTestFinished(() => folder.close());
    symlinkSync(outside, join(path, "out"));
    symlinkSync(join(outside, "secret.txt"), join(path, "s.txt"));
    await expect(folder.openFolder("out")).rejects.toBeInstanceOf(FileRefusal);
    await expect(folder.openFile("s.txt")).rejects.toBeInstanceOf(FileRefusal);
    await expect(locate(root, "out/secret.txt")).rejects.toMatchObject({ reason: "path_outside_root" });
  },
);

test.each<OpenBy>(["descriptor", "path"])(
  "[FT3] [FT4] a folder that was moved away while open is refused by %s",
  async (openBy) => {
    const { root: path, outside } = fileBench();
    mkdirSync(join(path, "a"));
    writeFileSync(join(path, "a", "f.txt"), "old");
    const folder = await (await ConfinedFolder.openRoot(confinedRoot(path, "test", { openBy }))).openFolder(
      "a",
    );
    onTestFinished(() => folder.close());
    const staged = await stageFile({ folder, name: "f.txt" }, Buffer.from("new"));
    execFileSync("mv", [join(path, "a"), join(outside, "moved")]);
    symlinkSync(join(outside, "moved"), join(path, "a"));
    await expect(readStart(folder, { name: "f.txt", bytes: 10 })).rejects.toMatchObject({
      reason: "path_outside_root",
    });
    await expect(staged.commit()).rejects.toBeInstanceOf(FileRefusal);
    await expect(stageFile({ folder, name: "g.txt" }, Buffer.from("new"))).rejects.toBeInstanceOf(
      FileRefusal,
    );
    expect(readFileSync(join(outside, "moved", "f.txt"), "utf8")).toBe("old");
    expect(existsSync(join(outside, "moved", "g.txt"))).toBe(false);
  },
);

test.each<OpenBy>(["descriptor", "path"])(
  "[FT3] [FT4] a folder that was moved to a neighbour whose name begins like the root is refused by %s",
  async (openBy) => {
    const { root: path } = fileBench();
    const elsewhere = `${path}-elsewhere`;
    onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
    mkdirSync(join(path, "a"));
    writeFileSync(join(path, "a", "f.txt"), "old");
    const folder = await (await ConfinedFolder.openRoot(confinedRoot(path, "test", { openBy }))).openFolder(
      "a",
    );
    onTestFinished(() => folder.close());
    const staged = await stageFile({ folder, name: "f.txt" }, Buffer.from("new"));
    renameSync(join(path, "a"), elsewhere);
    symlinkSync(elsewhere, join(path, "a"));
    const refused = { reason: "path_outside_root" };
    await expect(folder.check()).rejects.toMatchObject(refused);
    await expect(readStart(folder, { name: "f.txt", bytes: 10 })).rejects.toMatchObject(refused);
    await expect(staged.commit()).rejects.toBeInstanceOf(FileRefusal);
    expect(readFileSync(join(elsewhere, "f.txt"), "utf8")).toBe("old");
  },
);

test("[FT1] a neighbour whose name begins like the root is outside, by every tool and way to write it", async () => {
  const bench = fileBench();
  const elsewhere = `${bench.root}-elsewhere`;
  onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "secret.txt"), SECRET);
  symlinkSync(elsewhere, join(bench.root, "link"));
  const paths = [join(elsewhere, "secret.txt"), `../${basename(elsewhere)}/secret.txt`, "link/secret.txt"];
  for (const path of paths) await expectRefused(bench, path);
  expect(readdirSync(elsewhere)).toEqual(["secret.txt"]);
  expect(readFileSync(join(elsewhere, "secret.txt"), "utf8")).toBe(SECRET);
});

test.each<OpenBy>(["descriptor", "path"])(
  "[FT3] [FT4] a link is not opened by %s even when it leads inside: it is walked",
  async (openBy) => {
    const { root: path } = fileBench();
    mkdirSync(join(path, "a"));
    writeFileSync(join(path, "a", "f.txt"), "x");
    symlinkSync("a", join(path, "b"));
    symlinkSync("a/f.txt", join(path, "g.txt"));
    const folder = await ConfinedFolder.openRoot(confinedRoot(path, "test", { openBy }));
    onTestFinished(() => folder.close());
    await expect(folder.openFolder("b")).rejects.toBeInstanceOf(FileRefusal);
    await expect(folder.openHandle("g.txt", constants.O_RDONLY)).rejects.toMatchObject({
      reason: "file_changed",
    });
  },
);

test("[FT4] opening by path reads and writes what is inside", async () => {
  const bench = fileBench();
  bench.put("a/b.txt", "inside");
  const root = confinedRoot(bench.root, "test", { openBy: "path" });
  const place = await locate(root, "a/b.txt");
  if (place.kind !== "found") throw new Error(place.kind);
  onTestFinished(() => place.folder.close());
  expect((await readStart(place.folder, { name: "b.txt", bytes: 100 })).toString()).toBe("inside");
  const staged = await stageFile({ folder: place.folder, name: "b.txt" }, Buffer.from("new"));
  expect(bench.text("a/b.txt")).toBe("inside");
  await staged.commit();
  expect(bench.names()).toEqual(["a", "a/b.txt"]);
  expect(bench.text("a/b.txt")).toBe("new");
});
