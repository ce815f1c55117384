// What hooks and tools may ask of a session beside its own turn: turns of sessions below it, and single model calls.

import type { JsonObject } from "./json.ts";
import type { MessageInput } from "./message.ts";
import type { ModelResponse } from "./model-response.ts";
import type { SessionPolicy } from "./policy.ts";
import type { TaskRecord, TaskSpec } from "./task.ts";
import type { TurnEvent, TurnInput, TurnReport } from "./turn.ts";
import type { TokenUsage } from "./usage.ts";

/** A turn of another session that a plugin started. */
export interface StartedTurn {
  readonly turnId: string;
  readonly sessionId: string;
  readonly policy: SessionPolicy;
  /** What happens in it; nobody has to read them. */
  readonly events: AsyncIterable<TurnEvent>;
}

export interface StartTurnOptions {
  /** Names the turn among those that the same effect starts; needed when it starts several at once. */
  readonly key?: string;
  /** A schema that the answer must follow; the value is in the report's outcome, and another answer is `invalid_output`. */
  readonly outputSchema?: JsonObject;
}

/** Turns of sessions below this one. A turn that is asked for again, after a crash, is the same turn. */
export interface TurnHost {
  /** Starts a turn; a session with a turn on its way is `session_busy`. */
  startTurnStream(
    sessionId: string,
    input: string | TurnInput,
    options?: StartTurnOptions,
  ): Promise<StartedTurn>;
  /** Waits for a turn that was started here, and takes it: asked again, it is `unknown_turn`. */
  awaitTurn(turnId: string): Promise<TurnReport>;
  cancelTurn(turnId: string): Promise<void>;
  /** Starts a turn and waits for it. */
  startTurn(sessionId: string, input: string | TurnInput, options?: StartTurnOptions): Promise<TurnReport>;
}

/** One model call without tools and without a session. */
export interface DirectRequest {
  /** A text stands for one message of the user. */
  readonly messages: string | readonly MessageInput[];
  readonly system?: string;
  /** The name of one of the runtime's models; by default the session's. */
  readonly model?: string;
  readonly parameters?: JsonObject;
  readonly outputSchema?: JsonObject;
  /** Names the call among those that the same effect makes; needed when it makes several at once. */
  readonly key?: string;
}

export interface DirectCompletion {
  readonly text: string;
  readonly usage: TokenUsage;
  readonly model: string;
}

export interface DirectLlmCompletion {
  readonly response: ModelResponse;
  readonly usage: TokenUsage;
  readonly model: string;
}

/** Model calls beside the turn; what they use is in the session's ledger, under the source and the model. */
export interface DirectCompletionHost {
  directCompletion(request: DirectRequest, usageSource: string): Promise<DirectCompletion>;
  directLlmCompletion(request: DirectRequest, usageSource: string): Promise<DirectLlmCompletion>;
}

/** Tasks that go on beside turns, as tools start and see them. */
export interface TaskStartHost {
  /**
   * Runs a task by what its producer, a plugin, has as `background` for its label. An effect that runs again finds the
   * durable task that it started.
   */
  spawnManagedTask(sessionId: string, spec: TaskSpec): Promise<void>;
  listBackgroundTasks(sessionId: string): Promise<readonly TaskRecord[]>;
  cancelBackgroundTask(sessionId: string, taskId: string): Promise<TaskRecord>;
}
