// The seam to tools. A provider advertises manifests, resolves contracts when they are needed, and runs calls.

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Json, JsonObject } from "../model/json.ts";
import type {
  DirectCompletion,
  DirectCompletionHost,
  DirectRequest,
  TaskStartHost,
  TurnHost,
} from "../model/session-host.ts";
import type { PendingResult, ToolOutput } from "../model/tool-output.ts";
import type { ToolAttachment } from "../model/tool-value.ts";

/** A schema of a host: Standard Schema (zod, valibot, arktype ...) or plain JSON Schema. */
export type Schema<T = unknown> = StandardSchemaV1<unknown, T> | JsonObject;
export type InferSchema<S> = S extends StandardSchemaV1<unknown, infer T> ? T : Json;

export type AvailabilityTier = "off" | "searchable" | "callable" | "showcased";

/** What a crash in the middle of an attempt may do: run it again, run it again with the same key, or never. */
export type ReplayPolicy = "safe" | "idempotent" | "unsafe";

export interface RetryPolicy {
  readonly attempts: number;
  readonly delayMs?: number;
  readonly maxDelayMs?: number;
}

/** What is known of a tool without its schemas: cheap to list. */
export interface ToolManifest {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** A short signature for prompts and discovery. */
  readonly compactContract?: string;
  readonly activation?: "always" | "internal";
  readonly bindings?: JsonObject;
  readonly argumentProjection?:
    | { readonly kind: "materialize" }
    | { readonly kind: "preserve_refs"; readonly field: string };
  readonly retry?: RetryPolicy;
  readonly replay?: ReplayPolicy;
  /**
   * How long one attempt may take, in milliseconds; what the runtime says unless given. A tool that takes longer is told by
   * its signal and fails with `tool_timeout`. Calls that it makes are not counted; a loop that never yields cannot be stopped.
   */
  readonly timeoutMs?: number;
  readonly availability?: AvailabilityTier;
  readonly discovery?: { readonly namespace?: string; readonly aliases?: readonly string[] };
  readonly execution?: "parallel" | "serial";
  /**
   * Arguments that are paths, or lists of paths, by name; one that is left out is the root. A session that may reach some
   * paths only is held to them before the tool runs. A tool that comes by paths otherwise asks `context.paths`.
   */
  readonly pathArgs?: readonly string[];
  /** Runs other calls rather than doing something itself, so that it is not an attempt of its own. */
  readonly isOrchestrating?: boolean;
}

/** What is needed to call a tool: heavy, resolved for the tools that are called or shown. */
export interface ToolContract {
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly examples?: readonly Json[];
}

/** Checks a value beyond JSON Schema and returns it as the tool takes it. Contract: never throws, never rejects. */
export interface ToolValidator {
  validate(args: Json): ValidatedArgs | Promise<ValidatedArgs>;
}
export type ValidatedArgs =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly path: string; readonly reason: string };

export interface ToolCall {
  readonly toolId: string;
  readonly name: string;
  readonly callId: string;
  /** As recorded: JSON. */
  readonly args: Json;
}

/** A call whose arguments were checked: `input` is what the tool's schema made of them. */
export interface ValidatedCall extends ToolCall {
  readonly input: unknown;
}

/** A call after `prepare`: the payload is what `prepare` wants `execute` to have. */
export interface PreparedCall extends ToolCall {
  readonly payload?: Json;
}

/** A call as `execute` gets it. */
export interface ExecutableCall extends PreparedCall {
  readonly input: unknown;
}

export interface PrepareContext {
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly signal: AbortSignal;
  /** What the turn carries for the plugin of this tool, if anything. */
  pluginInput(pluginId: string): unknown;
  /** The grant's binding, for a granted call. */
  readonly binding?: Json;
}

/** What a tool may ask of the session that it runs in. Asked again after a crash, it gets the same. */
export interface ToolHost extends TurnHost, TaskStartHost, DirectCompletionHost {
  /** A session below this one, with at most its authority; the request is that of `directive.createSession`. */
  createSession(request: object): Promise<{ readonly sessionId: string }>;
  closeSession(sessionId: string): Promise<void>;
}

export interface ToolContext {
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly frameId: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  /** The same for every attempt of this call, in every run. */
  readonly idempotencyKey: string;
  /** What the session may reach, relative to the root of the tool; without it everything, empty nothing. */
  readonly paths?: readonly string[];
  readonly binding?: Json;
  /** Tells watchers how far the call is. */
  progress(message: string): void;
  /** The key with which `runtime.resolve` completes this call later; the same on every call. */
  completionKey(): Promise<string>;
  /** Returned from `execute`: the result comes later, through the completion key. */
  pending(options?: PendingOptions): PendingResult;
  /** Calls other tools of the session, at once, through the same hooks; replies are in order, failures are replies. */
  callTools(calls: readonly NestedCall[]): Promise<readonly NestedReply[]>;
  /** Stores bytes and returns the attachment to put into the result. */
  readonly attachments: AttachmentWriter;
  /** Sessions and turns below this one. */
  readonly host: ToolHost;
  /** One model call without tools; what it uses is in the ledger under the source, by default the tool's name. */
  directCompletion(request: DirectRequest, usageSource?: string): Promise<DirectCompletion>;
}

export interface PendingOptions {
  readonly deadlineMs?: number;
  readonly onTimeout?: PendingResult["onTimeout"];
  readonly onCancel?: PendingResult["onCancel"];
}

export interface NestedCall {
  readonly name: string;
  readonly args: unknown;
  /** Unique among the calls of this list; by default the position. */
  readonly id?: string;
  /** Authorises one tool outside the catalog. */
  readonly grant?: ExecutionGrant;
}

export interface NestedReply {
  readonly callId: string;
  readonly name: string;
  readonly args: Json;
  readonly output: ToolOutput;
  readonly durationMs: number;
}

export interface AttachmentWriter {
  put(bytes: Uint8Array, mediaType: string): Promise<ToolAttachment>;
}

/** Authorises one tool for one call, outside the catalog; hooks and validation apply as for any call. */
export interface ExecutionGrant {
  readonly manifest: ToolManifest;
  readonly contract: ToolContract;
  readonly sourceId?: string;
  readonly binding: Json;
}

export type PrepareResult =
  | { readonly kind: "prepared"; readonly call: PreparedCall }
  | { readonly kind: "completed"; readonly output: ToolOutput };

/**
 * A dynamic set of tools.
 * Contract: `manifests` is cheap and may change over time; `resolve` may know tools that are not advertised;
 * `contract` is asked only for tools that are shown or called. Without a `validator` the input schema of the contract
 * is checked. `prepare` may complete the call, or hand on a payload; id and arguments stay as they are, since they were
 * checked and approved before. `execute` gets validated arguments; any JSON value it returns is success, a throw is a failure of
 * class `execution`. The granted forms run a call that an `ExecutionGrant` authorises; without them grants are refused.
 * Contexts are plain objects.
 */
export interface ToolProvider {
  manifests(): readonly ToolManifest[];
  contract(name: string): ToolContract | undefined;
  resolve?(nameOrId: ToolKey): ToolManifest | undefined;
  validator?(name: string): ToolValidator | undefined;
  /** Checks values that arrive later, through a completion key; `execute` checks its own. */
  outputValidator?(name: string): ToolValidator | undefined;
  prepare?(call: ValidatedCall, context: PrepareContext): PrepareResult | Promise<PrepareResult>;
  execute(call: ExecutableCall, context: ToolContext): unknown;
  prepareGranted?(call: ValidatedCall, context: PrepareContext): PrepareResult | Promise<PrepareResult>;
  executeGranted?(call: ExecutableCall, context: ToolContext): unknown;
}

/** How a tool is asked for: by the name models use, or by the id that states keep. */
export type ToolKey = { readonly name: string } | { readonly id: string };

/** The registry as plain data: no sources, so that it can be applied anywhere. */
export interface ToolState {
  readonly generation: number;
  readonly tools: { readonly [toolId: string]: ToolStateEntry };
}

export interface ToolStateEntry {
  readonly manifest: ToolManifest;
  readonly orphaned?: true;
  readonly member?: false;
  readonly availability?: AvailabilityTier;
}

/** A live provider that a host added; `remove` takes its tools away again. */
export interface ToolSource {
  readonly id: string;
  remove(): void;
}
