// What the code of a tool is given beside its arguments.
//   TC1  what few tools ask for is made when it is read: the signal, the host and the idempotency key. They are members
//        like the others, so that a context can be taken apart and copied.
//   TC2  functions have a name before they become members: V8 puts those that are written where a member is set into the old
//        generation, by a slow way, and there is a context for every attempt.

import type { Json } from "../model/json.ts";
import { type PendingResult, pendingResult } from "../model/tool-output.ts";
import type {
  AttachmentWriter,
  NestedCall,
  NestedReply,
  PendingOptions,
  ToolContext,
  ToolHost,
  ToolManifest,
} from "../tool/contract.ts";
import { maxAttemptsOf, toolIdempotencyKey } from "../tool/dispatch.ts";
import { writeAttachment } from "./attachments.ts";
import type { DispatchCall } from "./dispatch.ts";
import { namedScope } from "./service-scope.ts";
import { hostIn } from "./services.ts";
import type { TurnRun } from "./turn-run.ts";

export interface ToolContextInit {
  readonly scope: TurnRun;
  readonly call: DispatchCall;
  readonly manifest: ToolManifest;
  readonly round: number;
  /** 1 for the first attempt. */
  readonly number: number;
  /** Made when the tool asks for it. */
  readonly limit: { readonly signal: AbortSignal };
  completionKey(): Promise<string>;
  callTools(calls: readonly NestedCall[]): Promise<readonly NestedReply[]>;
  /** Throws `stale_scope` when the attempt is over; says what it can no longer do. */
  refuseEnded(what: string): void;
}

export function toolContext(init: ToolContextInit): ToolContext {
  return new CallContext(init);
}

class CallContext implements ToolContext {
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly frameId: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  declare readonly signal: AbortSignal;
  declare readonly idempotencyKey: string;
  declare readonly host: ToolHost;
  declare readonly paths?: readonly string[];
  declare readonly binding?: Json;
  readonly progress: (message: string) => void;
  readonly completionKey: () => Promise<string>;
  readonly pending: (options?: PendingOptions) => PendingResult;
  readonly callTools: (calls: readonly NestedCall[]) => Promise<readonly NestedReply[]>;
  readonly attachments: AttachmentWriter;
  readonly directCompletion: ToolContext["directCompletion"];
  readonly #init: ToolContextInit;
  #host: ToolHost | undefined;

  constructor(init: ToolContextInit) {
    const { scope, call, manifest, number } = init;
    const { session } = scope;
    const { callId, name, grant } = call;
    const { paths } = session.frame.assignment.authority;
    const progress = (message: string): void => scope.emit({ kind: "tool_progress", callId, name, message });
    const completionKey = (): Promise<string> => init.completionKey();
    const callTools = (calls: readonly NestedCall[]): Promise<readonly NestedReply[]> =>
      init.callTools(calls);
    const put: AttachmentWriter["put"] = async (bytes, mediaType) => {
      init.refuseEnded("store attachments");
      return writeAttachment(session.parts, bytes, mediaType);
    };
    const directCompletion: ToolContext["directCompletion"] = (request, usageSource = name) =>
      this.host.directCompletion(request, usageSource);
    this.sessionId = session.id;
    this.turnId = scope.turnId;
    this.callId = callId;
    this.frameId = session.frameId;
    this.attempt = number;
    this.maxAttempts = maxAttemptsOf(manifest.retry);
    this.progress = progress;
    this.completionKey = completionKey;
    this.pending = pendingResult;
    this.callTools = callTools;
    this.attachments = { put };
    this.directCompletion = directCompletion;
    this.#init = init;
    Object.defineProperty(this, "signal", SIGNAL);
    Object.defineProperty(this, "idempotencyKey", IDEMPOTENCY_KEY);
    Object.defineProperty(this, "host", HOST);
    if (paths !== undefined) this.paths = paths;
    if (grant?.binding !== undefined) this.binding = grant.binding;
    Object.freeze(this);
  }

  static signalOf(context: CallContext): AbortSignal {
    return context.#init.limit.signal;
  }

  static keyOf(context: CallContext): string {
    const { scope, call, manifest } = context.#init;
    const { session, turnId } = scope;
    const { tenant } = session.parts;
    const { callId } = call;
    return toolIdempotencyKey({ tenant, sessionId: session.id, turnId, callId, toolId: manifest.id });
  }

  static hostOf(context: CallContext): ToolHost {
    const { scope, call, manifest, round, number, refuseEnded } = context.#init;
    const isOrchestrating = manifest.isOrchestrating === true;
    const named = (): TurnRun => namedScope(scope, `${round}.orchestrate.${call.callId}.${number}`);
    const refuse = (service: string): void => refuseEnded(`use the host service ${service}`);
    context.#host ??= hostIn(isOrchestrating ? named() : scope, "tool", refuse);
    return context.#host;
  }
}

/** The same for every context: a getter of its own would give each another shape. */
const lazy = <T>(make: (context: CallContext) => T): PropertyDescriptor => ({
  enumerable: true,
  get(this: CallContext): T {
    return make(this);
  },
});
const SIGNAL = lazy(CallContext.signalOf);
const IDEMPOTENCY_KEY = lazy(CallContext.keyOf);
const HOST = lazy(CallContext.hostOf);
