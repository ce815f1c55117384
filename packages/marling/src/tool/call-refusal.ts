// Why a call does not reach its tool, in words for the model. Each is a failed call; the turn goes on.

import { type FailureClass, type ToolOutput, toolFailure } from "../model/tool-output.ts";

export function unknownTool(name: string): ToolOutput {
  return refusal("unavailable", "unknown_tool", `There is no tool named ${shown(name)}.`);
}

/** A tool that is known but not for this session: opted out, off or hidden. */
export function unavailableTool(name: string): ToolOutput {
  return refusal(
    "unavailable",
    "tool_unavailable",
    `The tool ${shown(name)} is not available in this session.`,
  );
}

export function uncallableTool(name: string): ToolOutput {
  return refusal("unavailable", "tool_unavailable", `The tool ${name} can be found but not called yet.`);
}

export function orphanedTool(name: string): ToolOutput {
  const message = `The tool ${name} cannot run now: the source that offered it is not registered.`;
  return refusal("unavailable", "tool_unavailable", message);
}

export function contractUnavailable(name: string): ToolOutput {
  const message = `The tool ${name} cannot be called: nobody knows its parameters.`;
  return refusal("unavailable", "tool_contract_unavailable", message);
}

export function invalidArgs(message: string): ToolOutput {
  return refusal("invalid_request", "invalid_tool_args", message);
}

/** A path that the session may not reach. */
export function deniedPath(path: string, paths: readonly string[]): ToolOutput {
  const reach = paths.length === 0 ? "no files at all" : `only these: ${paths.join(", ")}`;
  return refusal(
    "permission_denied",
    "path_denied",
    `The path ${JSON.stringify(path)} is out of reach: this session may reach ${reach}.`,
  );
}

export function hiddenGrant(name: string): ToolOutput {
  const message = `The tool ${name} is not available in this session, and a grant does not change that.`;
  return refusal("permission_denied", "tool_unavailable", message);
}

export function grantedIdMismatch(granted: string, called: string): ToolOutput {
  const message = `The grant is for the tool id ${granted}, the call for ${called}.`;
  return refusal("invalid_request", "granted_tool_id_mismatch", message);
}

export function grantWithoutSource(name: string, sourceId: string | undefined): ToolOutput {
  const found =
    sourceId === undefined ? "the grant names no source" : `the source ${sourceId} does not have it`;
  return refusal("unavailable", "granted_tool_unavailable", `The granted tool ${name} cannot run: ${found}.`);
}

export function grantsUnsupported(name: string): ToolOutput {
  return refusal(
    "unavailable",
    "grants_unsupported",
    `The provider of the tool ${name} does not run granted calls.`,
  );
}

/** What the machinery of tools threw while a call was on its way. */
export function brokenTool(message: string): ToolOutput {
  return refusal("internal", "tool_lookup_failed", message);
}

const LONGEST_NAME = 120;

/** A name that a model made up may be anything: it is quoted as text of one line, as far as it is of use. */
function shown(name: string): string {
  const plain = JSON.stringify(name.slice(0, LONGEST_NAME)).slice(1, -1);
  return name.length > LONGEST_NAME ? `${plain}... (${name.length} characters)` : plain;
}

function refusal(failureClass: FailureClass, code: string, message: string): ToolOutput {
  return toolFailure({ class: failureClass, code, message, source: "runtime" });
}
