// Every failure that marling throws is a MarlingError: `code` says what happened, `advice` says what to do next.
//   B1  a code is listed here exactly once and never changes its meaning.
//   B2  the advice follows from the code, so that callers may branch on either.

/** What a caller can do about an error: fix a mistake, retry later, reload moved state, or report a bug of ours. */
export type Advice = "fix" | "retry" | "reload" | "report";

const CODES = {
  action_failed: "fix",
  ambiguous_tool: "fix",
  attachment_store_failed: "retry",
  before_llm_call_failed: "report",
  code_execution_unavailable: "fix",
  code_runtime_stopped: "retry",
  commit_too_large: "fix",
  compaction_failed: "retry",
  corrupt_graph: "report",
  direct_completion_failed: "retry",
  directive_not_allowed: "fix",
  duplicate_frame: "fix",
  duplicate_operation: "fix",
  duplicate_plugin: "fix",
  duplicate_session: "fix",
  duplicate_state: "fix",
  duplicate_task: "fix",
  duplicate_tool: "fix",
  duplicate_trigger: "fix",
  fork_point_inside_turn: "fix",
  fork_point_unknown: "fix",
  frame_switch_limit: "report",
  generation_mismatch: "reload",
  generation_overflow: "report",
  hook_failed: "report",
  hook_must_be_synchronous: "fix",
  hook_returned_nonsense: "fix",
  hook_timeout: "report",
  host_service_unavailable: "fix",
  idempotency_conflict: "fix",
  illegal_outcome: "report",
  input_rejected: "fix",
  invalid_attachment: "fix",
  invalid_directive: "fix",
  invalid_id: "fix",
  invalid_input: "fix",
  invalid_json: "fix",
  invalid_message: "fix",
  invalid_monitor: "fix",
  invalid_node: "fix",
  invalid_operation_args: "fix",
  invalid_operation_output: "fix",
  invalid_options: "fix",
  invalid_output: "fix",
  invalid_plugin: "fix",
  invalid_plugin_options: "fix",
  invalid_plugin_state: "fix",
  invalid_policy: "fix",
  invalid_prompt: "fix",
  invalid_schedule: "fix",
  invalid_schema: "fix",
  invalid_snapshot: "report",
  invalid_task: "fix",
  invalid_tool: "fix",
  invalid_tool_state: "fix",
  invalid_tool_value: "fix",
  invalid_trace: "fix",
  invalid_trigger_payload: "fix",
  invalid_usage: "fix",
  io_failed: "retry",
  journal_mismatch: "report",
  json_failed: "report",
  lease_held: "retry",
  lease_lost: "reload",
  live_plugin_input: "fix",
  live_turn_extension: "fix",
  mcp_server_down: "retry",
  missing_frame: "report",
  missing_parent_node: "report",
  missing_protocol: "fix",
  missing_session: "fix",
  monitor_start_failed: "fix",
  needs_binding: "fix",
  not_of_tenants: "fix",
  operation_failed: "report",
  plugin_failed: "report",
  plugin_session_create_failed: "report",
  plugin_state_version: "fix",
  plugin_trace_failed: "report",
  protocol_failed: "report",
  provider_mismatch: "fix",
  provider_unavailable: "fix",
  provider_unconfigured: "fix",
  revision_conflict: "reload",
  runtime_closed: "fix",
  script_exhausted: "fix",
  session_busy: "retry",
  session_closed: "reload",
  session_deleted: "fix",
  slot_taken: "fix",
  snapshot_failed: "report",
  stale_scope: "fix",
  state_read_only: "fix",
  store_busy: "retry",
  store_corrupt: "fix",
  store_foreign: "fix",
  store_replaced: "fix",
  task_cancel_failed: "retry",
  task_failed: "report",
  task_interrupted: "retry",
  tool_catalog_failed: "report",
  turn_cancelled: "reload",
  turn_extension_rejected: "fix",
  turn_parked: "retry",
  turn_stopped: "report",
  unexpected_session: "fix",
  unknown_monitor: "fix",
  unknown_operation: "fix",
  unknown_plugin: "fix",
  unknown_session: "fix",
  unknown_subscription: "fix",
  unknown_task: "fix",
  unknown_tool: "fix",
  unknown_tool_source: "fix",
  unknown_trigger: "fix",
  unknown_turn: "fix",
  unsupported_version: "fix",
} as const;

/** A stable name for one way to fail. */
export type ErrorCode = keyof typeof CODES;

/** All codes with their advice, for documentation and tests. */
export const ERROR_CODES: Readonly<Record<ErrorCode, Advice>> = Object.freeze(CODES);

/** What an error may carry beside its message: plain data that names the culprit. */
export interface MarlingErrorOptions {
  readonly cause?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

const MARK = Symbol.for("marling.error");

/** The one error class of marling. The message says what was expected and what was found. */
export class MarlingError extends Error {
  override readonly name: string = "MarlingError";
  readonly code: ErrorCode;
  readonly advice: Advice;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, options: MarlingErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.advice = CODES[code];
    this.details = Object.freeze({ ...options.details });
    Object.defineProperty(this, MARK, { value: true });
  }

  /** Recognises errors of marling across duplicate installs, where `instanceof` fails. */
  static is(value: unknown): value is MarlingError {
    return typeof value === "object" && value !== null && MARK in value;
  }

  toJSON(): { code: ErrorCode; advice: Advice; message: string; details: Readonly<Record<string, unknown>> } {
    return { code: this.code, advice: this.advice, message: this.message, details: this.details };
  }
}

/** The text of a thrown value, whatever was thrown. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  return typeof thrown === "string" ? thrown : String(thrown);
}
