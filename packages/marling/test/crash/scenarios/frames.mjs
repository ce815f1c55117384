// A turn that leaves its frame and goes on in another, which is a commit in its middle.

import { switchFrame } from "marling";
import { callTools, defineCrashScenario, say } from "marling/testing";
import { lastText, results, runInputs, tool } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: (request) => {
    if (results(request) === 0 && lastText(request) === "go") return callTools([["leave", {}]]);
    return lastText(request) === "the task" && results(request) === 0
      ? callTools([["work", {}]])
      : say("done in the new frame");
  },
  options: () => ({
    tools: [tool("work"), tool("leave", { answer: () => switchFrame({ key: "second", task: "the task" }) })],
  }),
  run: (runtime) => runInputs(runtime, ["go", "go on"]),
});
