// Every phase against every kind of outcome, under the right key. A new phase or outcome does not compile until
// its row is written.

import { describe, expect, test } from "vitest";
import type { EffectOutcome } from "../../src/turn/effect.ts";
import type { ProtocolDriver } from "../../src/turn/protocol.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import type { Phase } from "../../src/turn/state.ts";
import { pendingEffect, resume } from "../../src/turn/step.ts";
import { outcomeOf, text, toolCall } from "./fixtures.ts";
import { type Scenario, scenario } from "./scenario.ts";

type Expected = "unchanged" | Phase["kind"];

const TABLE: { readonly [P in Phase["kind"]]: { readonly [O in EffectOutcome["kind"]]: Expected } } = {
  awaiting_environment: {
    environment: "awaiting_model",
    model_call: "unchanged",
    tool_calls: "unchanged",
    code_cell: "unchanged",
    checkpoint: "unchanged",
  },
  awaiting_model: {
    environment: "unchanged",
    model_call: "awaiting_checkpoint",
    tool_calls: "unchanged",
    code_cell: "unchanged",
    checkpoint: "unchanged",
  },
  awaiting_tools: {
    environment: "unchanged",
    model_call: "unchanged",
    tool_calls: "awaiting_checkpoint",
    code_cell: "unchanged",
    checkpoint: "unchanged",
  },
  awaiting_code: {
    environment: "unchanged",
    model_call: "unchanged",
    tool_calls: "unchanged",
    code_cell: "done",
    checkpoint: "unchanged",
  },
  awaiting_checkpoint: {
    environment: "unchanged",
    model_call: "unchanged",
    tool_calls: "unchanged",
    code_cell: "unchanged",
    checkpoint: "done",
  },
  done: {
    environment: "unchanged",
    model_call: "unchanged",
    tool_calls: "unchanged",
    code_cell: "unchanged",
    checkpoint: "unchanged",
  },
};

/** The standard driver with one word that means code. */
const driver: ProtocolDriver = {
  ...standardDriver(),
  onModelResponse: (view, response) =>
    response.parts.some((part) => part.kind === "text" && part.text === "code")
      ? [{ kind: "start_code", language: "js", code: "1" }]
      : standardDriver().onModelResponse(view, response),
  onCodeResult: (_view, { output }) => [
    { kind: "finish", outcome: { kind: "finished", by: "value", text: output, value: output } },
  ],
};

const REACHED: { readonly [P in Phase["kind"]]: () => Scenario } = {
  awaiting_environment: () => scenario({}, driver),
  awaiting_model: () => scenario({}, driver).environment(),
  awaiting_tools: () => scenario({}, driver).says([toolCall("c1", "add")]),
  awaiting_code: () => scenario({}, driver).says([text("code")]),
  awaiting_checkpoint: () => scenario({}, driver).says([text("hi")]),
  done: () =>
    scenario({}, driver)
      .says([text("hi")])
      .delivers(),
};

for (const [phase, row] of Object.entries(TABLE) as [Phase["kind"], (typeof TABLE)[Phase["kind"]]][]) {
  describe(`a turn in ${phase}`, () => {
    test.each(Object.entries(row) as [EffectOutcome["kind"], Expected][])(
      "[T1] [T3] given %s under the right key becomes %s",
      (kind, expected) => {
        const turn = REACHED[phase]();
        const { state } = turn;
        expect(state.phase.kind).toBe(phase);
        const outcome = outcomeOf(kind, state.phase.kind === "done" ? "0.model_call" : state.phase.key);
        const step = resume(state, outcome, driver);
        if (expected !== "unchanged") {
          expect(step.state.phase.kind).toBe(expected);
          return;
        }
        expect(step.state).toBe(state);
        expect(step.events).toEqual([]);
        expect(step.kind === "effect" ? step.effect : undefined).toEqual(pendingEffect(state));
      },
    );

    test.each(Object.keys(row) as EffectOutcome["kind"][])("[T3] ignores %s under another key", (kind) => {
      const { state } = REACHED[phase]();
      expect(resume(state, outcomeOf(kind, "7.model_call"), driver).state).toBe(state);
    });
  });
}
