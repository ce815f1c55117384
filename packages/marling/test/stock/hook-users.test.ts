// Which stock plugin uses which hook. The map is written by hand: a hook that is added without a user, or a plugin that
// gains or loses a hook, shows here.

import type { Plugin } from "marling";
import { HOOKS, type HookName, type PluginParts } from "marling/plugin";
import * as entry from "marling/plugins";
import {
  approvals,
  loopGuard,
  modelFallback,
  planMode,
  projectInstructions,
  recoveryPolicy,
  redaction,
  rollingHistory,
  sessionTitle,
  subagents,
  toolDiscovery,
  toolOutputBudget,
  updatePlan,
} from "marling/plugins";
import { expect, test } from "vitest";
import { HOOK_MEMBERS } from "../../src/plugin/plugin-shape.ts";

const STOCK: readonly Plugin[] = [
  approvals(),
  loopGuard({ answerFromRound: 10 }),
  modelFallback({ models: ["other"] }),
  planMode(),
  projectInstructions(),
  recoveryPolicy(),
  redaction(),
  rollingHistory(),
  sessionTitle(),
  subagents(),
  toolDiscovery(),
  toolOutputBudget(),
  updatePlan(),
];

const USERS: { readonly [K in HookName]: readonly string[] } = {
  "prompt.contribute": ["plan_mode", "project_instructions", "tool_discovery", "update_plan"],
  "tool_catalog.contribute": ["plan_mode"],
  "turn.before": ["project_instructions", "tool_discovery"],
  "turn.after": ["loop_guard"],
  "turn.checkpoint": ["loop_guard"],
  "tool_calls.before": ["plan_mode"],
  "tool_calls.after": ["loop_guard", "plan_mode", "redaction", "update_plan"],
  "approval.request": ["approvals", "plan_mode"],
  "input.before": ["redaction"],
  "model.request": ["loop_guard"],
  "output.stream": ["redaction"],
  "output.response": ["redaction"],
  "output.stream_finished": ["redaction"],
  "session.mutate_config": ["redaction"],
  "session.on_event": ["session_title"],
  "context.prepare_turn": ["rolling_history"],
  "context.compact": ["rolling_history"],
  "model.error": ["model_fallback", "rolling_history"],
  "recovery.decide": ["recovery_policy"],
};

/** Hooks that no stock plugin uses. */
const WITHOUT_USER: readonly HookName[] = [];

/** Slots, and parts beside hooks, that no stock plugin uses. */
const PARTS_WITHOUT_USER: readonly string[] = [
  "background",
  "execution",
  "monitors",
  "protocol",
  "restore",
  "revision",
  "snapshot",
  "triggers",
];

function partsOf(plugin: Plugin): PluginParts {
  const context = {
    sessionId: "s",
    parentSessionId: undefined,
    isRoot: true,
    options: plugin.decodeOptions(undefined),
    toolAccess: { tools: [], hiddenTools: [] },
    subagent: undefined,
    extensions: {},
    durable: ({ initial }: { initial(): unknown }) => ({ get: initial, set: () => {}, update: () => {} }),
  };
  return plugin.build(context as never);
}

const PARTS = STOCK.map((plugin) => ({ id: plugin.id, parts: partsOf(plugin) }));

function usersOf(hook: HookName): readonly string[] {
  const [group, member] = HOOK_MEMBERS[hook];
  return PARTS.filter(({ parts }) => {
    const value: unknown = parts[group];
    const handler = member === undefined ? value : (value as Record<string, unknown> | undefined)?.[member];
    return handler !== undefined;
  }).map(({ id }) => id);
}

test.each(Object.keys(HOOKS) as HookName[])(
  "the hook %s has the stock users that are written down",
  (hook) => {
    expect(usersOf(hook)).toEqual(USERS[hook]);
  },
);

test("every hook has a stock user, but those that are listed", () => {
  const unused = (Object.keys(HOOKS) as HookName[]).filter((hook) => usersOf(hook).length === 0);
  expect(unused).toEqual(WITHOUT_USER);
});

test("other parts of plugins without a stock user are listed", () => {
  const used = new Set(PARTS.flatMap(({ parts }) => Object.keys(parts)));
  const beside = [
    "background",
    "execution",
    "monitors",
    "operations",
    "protocol",
    "ready",
    "restore",
    "revision",
    "snapshot",
    "toolResults",
    "tools",
    "triggers",
  ];
  expect(beside.filter((part) => !used.has(part))).toEqual(PARTS_WITHOUT_USER);
});

/** What the entry has beside plugins. */
const NOT_PLUGINS: readonly string[] = ["cron", "interval", "webhook"];

test("every plugin of the entry is looked at, under an id of its own", () => {
  const made = Object.keys(entry).filter((name) => !NOT_PLUGINS.includes(name));
  const snake = made.map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  expect(STOCK.map(({ id }) => id).toSorted()).toEqual(snake.toSorted());
});
