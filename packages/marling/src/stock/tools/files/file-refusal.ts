// Why a file tool did not do what it was asked: thrown inside the tool, and a failure for the model at its edge.

import { MarlingError, type ToolFailureInput, type ToolOutput, toolFailure } from "../../../index.ts";

type RefusalClass = NonNullable<ToolFailureInput["class"]>;

/** Why a file tool refuses. */
export type RefusalReason =
  | "already_exists"
  | "ambiguous_match"
  | "binary_file"
  | "file_changed"
  | "file_too_large"
  | "invalid_path"
  | "invalid_patch"
  | "invalid_pattern"
  | "io_failed"
  | "no_change"
  | "no_match"
  | "not_a_directory"
  | "not_a_file"
  | "not_found"
  | "path_denied"
  | "path_outside_root"
  | "permission_denied"
  | "search_failed"
  | "search_timeout";

const CLASSES: Readonly<Record<RefusalReason, RefusalClass>> = {
  already_exists: "invalid_request",
  ambiguous_match: "invalid_request",
  binary_file: "invalid_request",
  file_changed: "external",
  file_too_large: "resource_limit",
  invalid_path: "invalid_request",
  invalid_patch: "invalid_request",
  invalid_pattern: "invalid_request",
  io_failed: "external",
  no_change: "invalid_request",
  no_match: "invalid_request",
  not_a_directory: "invalid_request",
  not_a_file: "invalid_request",
  not_found: "invalid_request",
  path_denied: "permission_denied",
  path_outside_root: "permission_denied",
  permission_denied: "permission_denied",
  search_failed: "resource_limit",
  search_timeout: "timeout",
};

/** A refusal: the message is for the model, the cause for the operator. */
export class FileRefusal extends MarlingError {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string, options: { readonly cause?: unknown } = {}) {
    super("io_failed", message, { cause: options.cause, details: { reason } });
    this.reason = reason;
  }
}

/** Runs the work of a tool; a refusal becomes the failure that the model reads. */
export async function answering(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (thrown) {
    if (!(thrown instanceof FileRefusal)) throw thrown;
    return failureOf(thrown);
  }
}

function failureOf({ reason, message }: FileRefusal): ToolOutput {
  return toolFailure({
    code: reason,
    class: CLASSES[reason],
    message,
    retry: { safe: reason === "file_changed" },
  });
}

const BY_SYSTEM_CODE: Readonly<Record<string, readonly [RefusalReason, string]>> = {
  EACCES: ["permission_denied", "the process may not do this to it"],
  EEXIST: ["file_changed", "something else appeared there meanwhile"],
  EISDIR: ["not_a_file", "it is a folder"],
  ELOOP: ["file_changed", "it became a link meanwhile"],
  ENAMETOOLONG: ["invalid_path", "the name is too long"],
  ENOENT: ["not_found", "there is nothing of this name"],
  ENOTDIR: ["not_a_directory", "a part of the path is not a folder"],
  ENXIO: ["not_a_file", "it is a pipe, a socket or a device"],
  EPERM: ["permission_denied", "the process may not do this to it"],
  EROFS: ["permission_denied", "the file system is read-only"],
};

/** What the system threw, as a refusal that names the path as the model knows it, and nothing else of the machine. */
export function refusalOf(thrown: unknown, path: string): unknown {
  const code = systemCode(thrown);
  if (thrown instanceof FileRefusal || code === undefined) return thrown;
  const [reason, words] = BY_SYSTEM_CODE[code] ?? ["io_failed", `the system answered ${code}`];
  return new FileRefusal(reason, `${path}: ${words}.`, { cause: thrown });
}

/** The code of an error of the system, such as ENOENT. */
export function systemCode(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !("code" in thrown) || !("syscall" in thrown)) return undefined;
  return typeof thrown.code === "string" ? thrown.code : undefined;
}
