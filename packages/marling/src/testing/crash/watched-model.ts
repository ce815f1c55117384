// The model of the process that is killed. Its answers come from the other one; every piece of them is a boundary.

import { setImmediate as nextTick } from "node:timers/promises";
import type { ModelPort, ModelRequest, ModelSink, ModelStreamPart } from "../../llm/contract.ts";
import type { ModelOutcome } from "../../model/model-response.ts";
import { scriptedModel } from "../scripted-model.ts";
import type { Boundaries } from "./boundaries.ts";
import type { Line } from "./line.ts";

export function watchedModel(line: Line, boundaries: Boundaries): ModelPort {
  return {
    id: "crash_scenario",
    call: async (request, { sink, signal }) => {
      boundaries.pass("before model call");
      const { headers: _secret, ...rest } = request;
      const sent: ModelRequest = { ...rest, headers: {} };
      const step = await line.ask("model_began", { request: sent });
      boundaries.moveWorld();
      const parts: ModelStreamPart[] = [];
      const collect: ModelSink = (part) => void parts.push(part);
      const outcome = await scriptedModel([step]).call(request, { sink: collect, signal });
      for (const part of parts) {
        boundaries.pass("before model bytes");
        if (signal.aborted) return cancelled();
        sink(part);
        await nextTick();
      }
      boundaries.pass("after model bytes");
      if (outcome.kind === "response") await line.ask("model_finished", { request: sent });
      boundaries.moveWorld();
      boundaries.pass("after model call");
      return outcome;
    },
  };
}

function cancelled(): ModelOutcome {
  return {
    kind: "failure",
    failure: { kind: "cancelled", message: "the call was cancelled", retryable: false },
  };
}
