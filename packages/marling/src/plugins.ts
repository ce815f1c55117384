// Plugins that come with marling.

export type { ApprovalRule, ApprovalsOptions } from "./stock/approvals/approvals.ts";
export { approvals } from "./stock/approvals/approvals.ts";
export type { LoopGuardOptions } from "./stock/loop-guard/loop-guard.ts";
export { loopGuard } from "./stock/loop-guard/loop-guard.ts";
export type { ModelFallbackOptions } from "./stock/model-fallback/model-fallback.ts";
export { modelFallback } from "./stock/model-fallback/model-fallback.ts";
export type { PlanModeOptions, PlanModeStatus } from "./stock/plan-mode/plan-mode.ts";
export { planMode } from "./stock/plan-mode/plan-mode.ts";
export type { ProjectInstructionsOptions } from "./stock/project-instructions/project-instructions.ts";
export { projectInstructions } from "./stock/project-instructions/project-instructions.ts";
export type { RecoveryPolicyOptions, RecoveryRule } from "./stock/recovery-policy/recovery-policy.ts";
export { recoveryPolicy } from "./stock/recovery-policy/recovery-policy.ts";
export type { RedactionOptions } from "./stock/redaction/redaction.ts";
export { redaction } from "./stock/redaction/redaction.ts";
export type { TokenEstimate } from "./stock/rolling-history/estimate-tokens.ts";
export type { RollingHistoryOptions, RollingHistoryStatus } from "./stock/rolling-history/rolling-history.ts";
export { rollingHistory } from "./stock/rolling-history/rolling-history.ts";
export type { SessionTitleOptions } from "./stock/session-title/session-title.ts";
export { sessionTitle } from "./stock/session-title/session-title.ts";
export type { Capability, SubagentsOptions } from "./stock/subagents/subagents.ts";
export { subagents } from "./stock/subagents/subagents.ts";
export type { ToolDiscoveryOptions } from "./stock/tool-discovery/tool-discovery.ts";
export { toolDiscovery } from "./stock/tool-discovery/tool-discovery.ts";
export type { ToolOutputBudgetOptions } from "./stock/tool-output-budget/tool-output-budget.ts";
export { toolOutputBudget } from "./stock/tool-output-budget/tool-output-budget.ts";
export type { CronOptions, TickSource } from "./stock/triggers/cron.ts";
export { cron } from "./stock/triggers/cron.ts";
export type { IntervalOptions } from "./stock/triggers/interval.ts";
export { interval } from "./stock/triggers/interval.ts";
export type {
  WebhookOptions,
  WebhookRequest,
  WebhookResponse,
  WebhookSignature,
} from "./stock/triggers/webhook.ts";
export { webhook } from "./stock/triggers/webhook.ts";
export type {
  CurrentPlan,
  PlanStep,
  PlanStepStatus,
  UpdatePlanOptions,
} from "./stock/update-plan/update-plan.ts";
export { updatePlan } from "./stock/update-plan/update-plan.ts";
