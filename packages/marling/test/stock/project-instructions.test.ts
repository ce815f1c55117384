// Instruction files of a project: which are used, in what order, and which never.

import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { memoryStore, type TraceRecord } from "marling";
import { type ProjectInstructionsOptions, projectInstructions } from "marling/plugins";
import { say } from "marling/testing";
import { expect, test } from "vitest";
import { type Life, live } from "../kernel/durable-support.ts";
import { customEvents, folder, watched } from "./stock-support.ts";

/** A project with files, by path. */
function project(files: Readonly<Record<string, string>>): string {
  const root = folder();
  mkdirSync(join(root, ".git"));
  for (const [path, text] of Object.entries(files)) write(join(root, path), text);
  return root;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function begin(options: ProjectInstructionsOptions, trace: TraceRecord[] = []): Promise<Life> {
  return live({
    store: memoryStore(),
    plugins: [projectInstructions(options)],
    script: () => say("ok"),
    trace: { record: (record) => void trace.push(record) },
  });
}

/** What the model was told in the latest request. */
async function told(life: Life): Promise<string> {
  await life.session.turn("Go").result;
  return life.model.requests.at(-1)?.system ?? "";
}

test("[PJ2] files from the root down to the directory are in the prompt, the nearest last, and it says that it wins", async () => {
  const root = project({
    "AGENTS.md": "Use tabs.",
    "a/CLAUDE.md": "Use spaces.",
    "a/b/AGENTS.md": "Use two.",
  });
  const system = await told(await begin({ directory: join(root, "a/b"), trusted: true }));
  expect(system).toContain("Where two of them disagree, the later one wins");
  expect(system).toContain(
    "### AGENTS.md\nUse tabs.\n\n### a/CLAUDE.md\nUse spaces.\n\n### a/b/AGENTS.md\nUse two.",
  );
});

test("[PI3] of one directory the first name counts, names are options, and the root limits the way up", async () => {
  const root = project({
    "AGENTS.md": "Root.",
    "a/AGENTS.md": "A.",
    "a/CLAUDE.md": "B.",
    "a/RULES.txt": "C.",
  });
  const directory = join(root, "a");
  expect(await told(await begin({ directory, root: directory, trusted: true }))).toMatch(
    /### AGENTS.md\nA\.$/m,
  );
  const named = await told(await begin({ directory, names: ["RULES.txt"], trusted: true }));
  expect(named).toContain("### a/RULES.txt\nC.");
  expect(named).not.toContain("Root.");
});

test("[PJ1] without trust nothing is loaded, and watchers and traces are told what was left out", async () => {
  const root = project({ "AGENTS.md": "Do evil." });
  const trace: TraceRecord[] = [];
  const { session, model } = await begin({ directory: root }, trace);
  const { events } = await watched(session.turn("Go"));
  expect(model.requests[0]?.system).not.toContain("evil");
  const payload = { files: [], refused: [{ path: "AGENTS.md", reason: "not_trusted" }] };
  expect(customEvents(events)).toEqual([["project_instructions.files", payload]]);
  const traced = trace.map((record) => JSON.stringify(record));
  expect(traced.filter((record) => record.includes('"plugin.project_instructions.files"'))).toHaveLength(1);
  expect(customEvents((await watched(session.turn("Again"))).events)).toEqual([]);
});

test("[PI1] trust holds for a directory and what is below it, and for nothing beside it", async () => {
  const root = project({ "AGENTS.md": "Root.", "a/AGENTS.md": "Inner.", "ab/AGENTS.md": "Beside." });
  const inner = await told(await begin({ directory: join(root, "a"), trusted: [join(root, "a")] }));
  expect(inner).toContain("Inner.");
  expect(inner).not.toContain("Root.");
  const beside = await told(await begin({ directory: join(root, "ab"), trusted: [join(root, "a")] }));
  expect(beside).not.toContain("Beside.");
  const whole = await told(await begin({ directory: join(root, "ab"), trusted: [root] }));
  expect(whole).toContain("Beside.");
});

test("[PI2] a link out of the root is refused, one within it is followed", async () => {
  const outside = folder();
  write(join(outside, "secret.md"), "Secret.");
  const root = project({ "docs/rules.md": "Inside." });
  symlinkSync(join(outside, "secret.md"), join(root, "AGENTS.md"));
  const life = await begin({ directory: root, trusted: true });
  const { events } = await watched(life.session.turn("Go"));
  expect(life.model.requests[0]?.system).not.toContain("Secret.");
  expect(customEvents(events)).toEqual([
    ["project_instructions.files", { files: [], refused: [{ path: "AGENTS.md", reason: "outside_root" }] }],
  ]);
  rmSync(join(root, "AGENTS.md"));
  symlinkSync("docs/rules.md", join(root, "AGENTS.md"));
  expect(await told(life)).toContain("Inside.");
});

test("[PI2] a working directory that is a link counts as what it is", async () => {
  const outside = project({ "AGENTS.md": "Elsewhere." });
  const root = project({ "AGENTS.md": "Here." });
  symlinkSync(outside, join(root, "link"));
  const system = await told(await begin({ directory: join(root, "link"), root, trusted: true }));
  expect(system).not.toContain("Elsewhere.");
  expect(system).not.toContain("Here.");
});

test("[PJ3] a change is seen by the next turn, and a file that goes is gone", async () => {
  const root = project({ "AGENTS.md": "First." });
  const life = await begin({ directory: root, trusted: true });
  expect(await told(life)).toContain("First.");
  write(join(root, "next"), "Second, longer.");
  renameSync(join(root, "next"), join(root, "AGENTS.md"));
  const { events } = await watched(life.session.turn("Go"));
  expect(life.model.requests.at(-1)?.system).toContain("Second, longer.");
  expect(customEvents(events)).toHaveLength(1);
  rmSync(join(root, "AGENTS.md"));
  expect(await told(life)).not.toContain("Second");
});

test("[PJ2] a file is cut at its limit, and when all are too much the farthest go first", async () => {
  const root = project({ "AGENTS.md": "r".repeat(300), "a/AGENTS.md": "s".repeat(300) });
  const directory = join(root, "a");
  const cut = await told(await begin({ directory, trusted: true, maxFileChars: 100 }));
  expect(cut).toContain(`### a/AGENTS.md\n${"s".repeat(100)}\n[the rest of the file is left out]`);
  const tight = await told(await begin({ directory, trusted: true, maxChars: 400 }));
  expect(tight).toContain("s".repeat(300));
  expect(tight).not.toContain("rrr");
  expect(tight).toContain("1 files farther up are left out");
});

test("a directory that is not there has no instructions, and the turn goes on", async () => {
  const life = await begin({ directory: join(folder(), "gone"), trusted: true });
  expect((await life.session.turn("Go").result).outcome).toMatchObject({ kind: "finished" });
});

test.each<[Record<string, unknown>, string]>([
  [{ trusted: "yes" }, "trusted: expected true, false or directories"],
  [{ names: [""] }, "names: expected an array of texts"],
  [{ cwd: "." }, "cwd: expected one of the options directory"],
])("options %j are refused by name", (options, message) => {
  expect(() => projectInstructions(options as ProjectInstructionsOptions)).toThrow(
    expect.objectContaining({ code: "invalid_plugin_options", message: expect.stringContaining(message) }),
  );
});
