// A tool call on its way: asked for by the model, completed by dispatch.

import type { AttachmentSource } from "./attachment.ts";
import type { CallId } from "./ids.ts";
import type { Json } from "./json.ts";
import type { ToolOutput } from "./tool-output.ts";

/** A call as the model asked for it. `malformed` says why the arguments are not JSON; such a call never runs. */
export interface PendingCall {
  readonly callId: CallId;
  readonly name: string;
  readonly args: Json;
  readonly malformed?: string;
}

/** What the model is shown of an output. */
export interface ModelToolReturn {
  readonly callId: string;
  readonly toolName: string;
  readonly parts: readonly ModelToolReturnPart[];
}

export type ModelToolReturnPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "attachment"; readonly source: AttachmentSource };

export interface CompletedCall {
  readonly callId: CallId;
  readonly name: string;
  readonly args: Json;
  readonly output: ToolOutput;
  readonly modelReturn: ModelToolReturn;
  readonly durationMs: number;
}
