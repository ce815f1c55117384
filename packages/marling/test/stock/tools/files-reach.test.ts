// Sessions that may reach some paths only, with the file tools and `apply_patch`. Rule FT32.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, definePlugin, type Json, type Session } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { applyPatchTool, fileTools } from "marling/tools";
import { expect, onTestFinished, test } from "vitest";

const makeChild = definePlugin({
  id: "maker",
  build: () => ({
    operations: {
      commands: {
        "child.make": {
          session: "required",
          handler: (ctx, paths) =>
            ctx.sessionLifecycle.createSession({ sessionId: "child", paths: paths as string[] }),
        },
      },
    },
  }),
});

interface World {
  readonly root: string;
  /** What a call of the session below came to. */
  call(name: string, args: Json): Promise<string>;
}

/** A root with docs/open and private/key, a link from docs to private, and a session that may reach docs. */
async function world(
  paths: readonly string[] = ["docs"],
  options: { readonly denied?: readonly string[] } = {},
): Promise<World> {
  const root = mkdtempSync(join(tmpdir(), "marling-reach-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const folder of ["docs", "private"]) mkdirSync(join(root, folder));
  writeFileSync(join(root, "docs", "open"), "open words\n");
  writeFileSync(join(root, "private", "key"), "secret words\n");
  symlinkSync("../private", join(root, "docs", "link"));
  let next: readonly [string, Json] = ["", {}];
  const runtime = createRuntime({
    model: scriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool" ? say("done") : callTool(next[0], next[1]),
    ),
    tools: [...fileTools({ root, ...options }), applyPatchTool({ root, ...options })],
    plugins: [makeChild()],
  });
  onTestFinished(() => runtime.close());
  await (await runtime.session("s")).command("child.make", paths as Json);
  const child: Session = await runtime.session("child");
  const call = async (name: string, args: Json): Promise<string> => {
    next = [name, args];
    const { toolCalls } = await child.turn("go").result;
    return JSON.stringify(toolCalls[0]?.output.outcome);
  };
  return { root, call };
}

test("[FT32] what is inside is read, listed, found, searched, written and patched", async () => {
  const { root, call } = await world();
  expect(await call("read_file", { path: "docs/open" })).toContain("open words");
  expect(await call("list_files", { path: "docs" })).toContain("docs/open");
  expect(await call("glob", { path: "docs", pattern: "*" })).toContain("docs/open");
  expect(await call("grep", { path: "docs", pattern: "words" })).toContain("open words");
  expect(await call("write_file", { path: "docs/new/deep", content: "x" })).toContain("created");
  const patch = "*** Begin Patch\n*** Add File: docs/added\n+y\n*** End Patch";
  expect(await call("apply_patch", { patch })).toContain("added docs/added");
  expect(readFileSync(join(root, "docs", "added"), "utf8")).toBe("y\n");
});

test.each<readonly [string, Json]>([
  ["read_file", { path: "private/key" }],
  ["read_file", { path: "docs/../private/key" }],
  ["read_file", { path: "docs/link/key" }],
  ["list_files", {}],
  ["list_files", { path: "docs/link" }],
  ["glob", { pattern: "**/*" }],
  ["grep", { pattern: "words" }],
  ["grep", { path: "docs/link", pattern: "words" }],
  ["write_file", { path: "private/new", content: "x" }],
  ["write_file", { path: "docs/link/new", content: "x" }],
  ["write_file", { path: "docs/link/made/new", content: "x" }],
  ["edit_file", { path: "docs/link/key", oldText: "secret", newText: "known" }],
  ["apply_patch", { patch: "*** Begin Patch\n*** Add File: private/new\n+x\n*** End Patch" }],
  ["apply_patch", { patch: "*** Begin Patch\n*** Delete File: docs/link/key\n*** End Patch" }],
  [
    "apply_patch",
    {
      patch:
        "*** Begin Patch\n*** Update File: docs/open\n*** Move to: private/open\n@@\n-open words\n+x\n*** End Patch",
    },
  ],
])("[FT32] %s %j is out of reach, and nothing of it happens", async (name, args) => {
  const { root, call } = await world();
  const outcome = await call(name, args);
  expect(outcome).toContain("path_denied");
  expect(outcome).not.toContain("secret words");
  expect(readFileSync(join(root, "private", "key"), "utf8")).toBe("secret words\n");
  for (const path of ["private/new", "private/made", "private/open"])
    expect(existsSync(join(root, path))).toBe(false);
});

test("[FT32] with no paths nothing is reached", async () => {
  const { call } = await world([]);
  expect(await call("read_file", { path: "docs/open" })).toContain("path_denied");
});

test("[FT32] a folder on the way to what may be reached is made", async () => {
  const { root, call } = await world(["new/deep"]);
  expect(await call("write_file", { path: "new/deep/file", content: "x" })).toContain("created");
  expect(existsSync(join(root, "new", "deep", "file"))).toBe(true);
  expect(await call("write_file", { path: "new/file", content: "x" })).toContain("path_denied");
});

test.each<readonly [string, Json]>([
  ["read_file", { path: "private/key" }],
  ["read_file", { path: "docs/link/key" }],
  ["list_files", { path: "private" }],
  ["write_file", { path: "private/new", content: "x" }],
  ["write_file", { path: "private", content: "x" }],
  ["apply_patch", { patch: "*** Begin Patch\n*** Add File: private/new\n+x\n*** End Patch" }],
])("[FT33] %s %j is denied to everybody", async (name, args) => {
  const { root, call } = await world(["."], { denied: ["private"] });
  expect(await call(name, args)).toContain("path_denied");
  expect(existsSync(join(root, "private", "new"))).toBe(false);
});

test("[FT33] what is denied is not listed, found or searched", async () => {
  const { call } = await world(["."], { denied: ["private"] });
  expect(await call("list_files", {})).not.toContain("private");
  expect(await call("glob", { pattern: "**/*", includeIgnored: true })).not.toContain("private");
  expect(await call("grep", { pattern: "words", includeIgnored: true })).not.toContain("secret");
});

test("[FT33] denied paths that lead out of the root are a mistake", () => {
  for (const denied of ["..", "/etc", "a/../b", ""])
    expect(() => fileTools({ root: tmpdir(), denied: [denied] })).toThrowError(
      expect.objectContaining({ code: "invalid_options" }),
    );
});

test("[FT32] a link to a neighbour whose name begins like what may be reached leads out of reach", async () => {
  const { root, call } = await world();
  mkdirSync(join(root, "docs-private"));
  writeFileSync(join(root, "docs-private", "key"), "secret words\n");
  symlinkSync("../docs-private", join(root, "docs", "near"));
  const outcome = await call("read_file", { path: "docs/near/key" });
  expect(outcome).toContain("path_denied");
  expect(outcome).not.toContain("secret words");
  expect(await call("write_file", { path: "docs/near/new", content: "x" })).toContain("path_denied");
  expect(existsSync(join(root, "docs-private", "new"))).toBe(false);
});

test("[FT33] a neighbour whose name begins like what is denied is not denied", async () => {
  const { root, call } = await world(["."], { denied: ["private"] });
  mkdirSync(join(root, "private-no-more"));
  writeFileSync(join(root, "private-no-more", "key"), "open words\n");
  expect(await call("read_file", { path: "private-no-more/key" })).toContain("open words");
  expect(await call("list_files", { path: "." })).toContain("private-no-more");
});
