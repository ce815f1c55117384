// A root in a temporary folder with a neighbour that no tool may reach, and the tools on it.

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished, vi } from "vitest";
import type { ToolContext, ToolDefinition, ToolOutput } from "../../../src/index.ts";
import { isPendingResult } from "../../../src/model/tool-output.ts";
import { applyPatchTool } from "../../../src/stock/tools/apply-patch/apply-patch.ts";
import type { FileToolsOptions } from "../../../src/stock/tools/files/file-tools.ts";
import { fileTools } from "../../../src/stock/tools/files/file-tools.ts";
import { toToolResult } from "../../../src/tool/output.ts";
import { toolContext } from "../../tool/sample-tools.ts";

// Real files, workers and processes on a busy machine take their time.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly class: string;
}

export interface FileBench {
  readonly root: string;
  /** A folder beside the root, with `secret.txt` in it. */
  readonly outside: string;
  put(path: string, content: string | Uint8Array, mode?: number): void;
  text(path: string): string;
  /** All names below the root, sorted. */
  names(): readonly string[];
  succeed(tool: string, args: object, context?: Partial<ToolContext>): Promise<unknown>;
  fail(tool: string, args: object): Promise<Failure>;
  patch(...lines: readonly string[]): Promise<unknown>;
  failPatch(...lines: readonly string[]): Promise<Failure>;
}

export const SECRET = "a secret of the neighbour";

export function fileBench(options: Partial<FileToolsOptions> = {}): FileBench {
  const base = mkdtempSync(join(tmpdir(), "marling-files-"));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const root = join(base, "root");
  const outside = join(base, "outside");
  mkdirSync(root);
  mkdirSync(outside);
  writeFileSync(join(outside, "secret.txt"), SECRET);
  const { limits } = options;
  const all = [
    ...fileTools({ root, ...options }),
    applyPatchTool({ root, ...(limits === undefined ? {} : { limits }) }),
  ];
  const call = (tool: string, args: object, context?: Partial<ToolContext>): Promise<ToolOutput> =>
    callTool(all, { tool, args, context: context ?? {} });
  const succeed: FileBench["succeed"] = async (tool, args, context) =>
    successOf(await call(tool, args, context));
  const fail: FileBench["fail"] = async (tool, args) => failureOf(await call(tool, args));
  return {
    root,
    outside,
    put: (path, content, mode) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
      if (mode !== undefined) chmodSync(join(root, path), mode);
    },
    text: (path) => readFileSync(join(root, path), "utf8"),
    names: () => (readdirSync(root, { recursive: true }) as string[]).sort(),
    succeed,
    fail,
    patch: (...lines) => succeed("apply_patch", { patch: lines.join("\n") }),
    failPatch: (...lines) => fail("apply_patch", { patch: lines.join("\n") }),
  };
}

export interface BenchCall {
  readonly tool: string;
  readonly args: object;
  readonly context: Partial<ToolContext>;
}

/** Checks the arguments and runs the tool, as the kernel does. */
export async function callTool(
  tools: readonly ToolDefinition[],
  { tool, args, context }: BenchCall,
): Promise<ToolOutput> {
  const definition = tools.find(({ name }) => name === tool);
  if (definition === undefined) throw new Error(`no tool ${tool}`);
  const plain = JSON.parse(JSON.stringify(args));
  const checked = await definition.validator.validate(plain);
  if (!checked.ok) throw new Error(`${checked.path}: ${checked.reason}`);
  const call = { toolId: tool, name: tool, callId: "call-1", args: plain };
  const result = toToolResult(await definition.execute(checked.value, toolContext(context), call), tool);
  if (isPendingResult(result)) throw new Error("pending");
  return result;
}

export function successOf({ outcome }: ToolOutput): unknown {
  if (outcome.kind === "success") return outcome.value;
  throw new Error(`expected success, found ${outcome.kind}: ${outcome.message}`);
}

export function failureOf({ outcome }: ToolOutput): Failure {
  if (outcome.kind === "failure") return outcome;
  throw new Error(`expected a failure, found ${JSON.stringify(outcome)}`);
}
