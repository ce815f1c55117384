// Plugins that come with marling.

export type { ApprovalRule, ApprovalsOptions } from "./stock/approvals.ts";
export { approvals } from "./stock/approvals.ts";
export type { Capability, SubagentsOptions } from "./stock/subagents.ts";
export { subagents } from "./stock/subagents.ts";
