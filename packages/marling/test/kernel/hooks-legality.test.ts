// What each phase makes of each directive: the table, and every cell of it as it shows in a turn.

import { type Directive, type DirectiveKind, directive, toolSuccess } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { type DirectivePhase, LEGALITY } from "../../src/kernel/directive.ts";
import {
  custom,
  outcomeOf,
  type Played,
  play,
  plugin,
  pluginEvents,
  scene,
  transcript,
} from "./hooks-support.ts";

const GRID = `
                    before_turn  before_tool_call  after_tool_call  checkpoint  after_turn
abort_turn          decide       decide            decide           decide      refuse
enqueue_messages    apply        refuse            buffer           apply       apply
create_session      apply        apply             apply            apply       apply
replace_tool_args   refuse       decide            refuse           refuse      refuse
short_circuit_tool  refuse       decide            decide           refuse      refuse
emit_events         buffer       apply             apply            buffer      buffer
emit_trace          apply        apply             apply            apply       apply
`;

test("[K42] the table of phases and directives is the one of the specification", () => {
  const [phases = [], ...rows] = GRID.trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/));
  const expected = Object.fromEntries(
    phases.map((phase, column) => [
      phase,
      Object.fromEntries(rows.map(([kind = "", ...cells]) => [kind, cells[column]])),
    ]),
  );
  expect(LEGALITY).toEqual(expected);
});

const DIRECTIVES: { readonly [K in DirectiveKind]: Directive } = {
  abort_turn: directive.abortTurn({ code: "halt", message: "Halt." }),
  enqueue_messages: directive.enqueueMessages([{ role: "user", content: "note" }]),
  create_session: directive.createSession({ sessionId: "child" }),
  replace_tool_args: directive.replaceToolArgs({ text: "two" }),
  short_circuit_tool: directive.shortCircuitTool(toolSuccess("settled")),
  emit_events: directive.emitEvents([custom("event")]),
  emit_trace: directive.emitTrace({ name: "trace" }),
};

/** What shows of a turn with one call of `echo`, one word for each thing a directive may change. */
interface Shown {
  readonly turn: string;
  readonly call: string;
  readonly ran: string;
  /** The message that the note stands behind. */
  readonly noteBehind: string;
  readonly eventBehind: string;
  readonly child: boolean;
  readonly trace: boolean;
}

const UNTOUCHED: Shown = {
  turn: "Done.",
  call: "echo: one",
  ran: "one",
  noteBehind: "",
  eventBehind: "",
  child: false,
  trace: false,
};
const NOT_BEGUN = { call: "none", ran: "" };
const REFUSED = { turn: "runtime_error directive_not_allowed" };
const CREATED = { child: true };
const TRACED = { trace: true };

/** How each cell differs from a turn without directives. */
const CELLS: { readonly [P in DirectivePhase]: { readonly [K in DirectiveKind]: Partial<Shown> } } = {
  before_turn: {
    abort_turn: { turn: "plugin_abort halt", ...NOT_BEGUN },
    enqueue_messages: { noteBehind: "user: Hi" },
    create_session: CREATED,
    replace_tool_args: { ...REFUSED, ...NOT_BEGUN },
    short_circuit_tool: { ...REFUSED, ...NOT_BEGUN },
    emit_events: { eventBehind: "turn_started" },
    emit_trace: TRACED,
  },
  before_tool_call: {
    abort_turn: { call: "halt", ran: "" },
    enqueue_messages: { call: "directive_not_allowed", ran: "" },
    create_session: CREATED,
    replace_tool_args: { call: "echo: two", ran: "two" },
    short_circuit_tool: { call: "settled", ran: "" },
    emit_events: { eventBehind: "usage" },
    emit_trace: TRACED,
  },
  after_tool_call: {
    abort_turn: { call: "halt" },
    enqueue_messages: { noteBehind: "tool: result echo: one" },
    create_session: CREATED,
    replace_tool_args: { call: "directive_not_allowed" },
    short_circuit_tool: { call: "settled" },
    emit_events: { eventBehind: "tool_started" },
    emit_trace: TRACED,
  },
  checkpoint: {
    abort_turn: { turn: "runtime_error halt" },
    enqueue_messages: { noteBehind: "tool: result echo: one" },
    create_session: CREATED,
    replace_tool_args: REFUSED,
    short_circuit_tool: REFUSED,
    emit_events: { eventBehind: "tool_finished" },
    emit_trace: TRACED,
  },
  after_turn: {
    abort_turn: REFUSED,
    enqueue_messages: { noteBehind: "assistant: Done." },
    create_session: CREATED,
    replace_tool_args: REFUSED,
    short_circuit_tool: REFUSED,
    emit_events: { eventBehind: "committed" },
    emit_trace: TRACED,
  },
};

describe.each(Object.keys(CELLS) as DirectivePhase[])("in %s", (phase) => {
  test.each(Object.keys(DIRECTIVES) as DirectiveKind[])("[K42] %s does what the table says", async (kind) => {
    const { shown } = await turnWith(phase, [DIRECTIVES[kind]]);
    expect(shown).toEqual({ ...UNTOUCHED, ...CELLS[phase][kind] });
  });

  test("[K42] no directive leaves the turn as it is", async () => {
    expect((await turnWith(phase, [])).shown).toEqual(UNTOUCHED);
  });

  const isBuffered = LEGALITY[phase].emit_events === "buffer";
  test(`[K46] events are ${isBuffered ? "told when all directives were applied" : "told at once"}`, async () => {
    const { shown, events } = await turnWith(phase, [
      DIRECTIVES.emit_events,
      directive.createSession({ sessionId: "s" }),
    ]);

    expect(pluginEvents(events)).toEqual(isBuffered ? [] : ["p: event"]);
    expect(isBuffered ? shown.turn : shown.call).toContain("plugin_session_create_failed");
  });
});

async function turnWith(
  phase: DirectivePhase,
  directives: readonly Directive[],
): Promise<Played & { readonly shown: Shown }> {
  let isAsked = false;
  const once = (): readonly Directive[] => {
    const wasAsked = isAsked;
    isAsked = true;
    return wasAsked ? [] : directives;
  };
  const parts = {
    before_turn: { turn: { before: once } },
    before_tool_call: { toolCalls: { before: once } },
    after_tool_call: { toolCalls: { after: once } },
    checkpoint: { turn: { checkpoint: once } },
    after_turn: { turn: { after: once } },
  }[phase];
  const script = [callTool("echo", { text: "one" }), say("Done.")];
  const { session, runtime, traces, ran } = await scene({ script, plugins: [plugin("p", parts)] });
  const played = await play(session);
  const { report, events } = played;
  const { outcome } = report;
  const lines = transcript(session);
  const told = events.findIndex(({ kind }) => kind === "plugin_event");
  const shown: Shown = {
    turn: outcome.kind === "finished" ? outcome.text : `${outcome.reason} ${outcome.code}`,
    call: callOf(played),
    ran: ran.join(),
    noteBehind: lines[lines.indexOf("user: note") - 1] ?? "",
    eventBehind: events[told - 1]?.kind ?? "",
    child: await runtime.sessions.exists("child"),
    trace: traces.some(({ name }) => name === "plugin.p.trace"),
  };
  expect(isAsked).toBe(true);
  return { ...played, shown };
}

function callOf({ report }: Played): string {
  if (report.toolCalls.length === 0) return "none";
  const { value, code } = outcomeOf(report) as { readonly value?: string; readonly code?: string };
  return value ?? code ?? "";
}
