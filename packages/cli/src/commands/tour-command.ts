// `marling tour`: what `npm start` shows where there is no terminal.

import { EXIT } from "../exit-code.ts";
import { chooseStyle } from "../style.ts";
import { tour } from "../tour/tour.ts";
import type { Command } from "./command.ts";

export const tourCommand: Command = {
  name: "tour",
  summary: "watch a turn being killed and finished, in a few seconds",
  args: "",
  mostArgs: 0,
  flags: [],
  run: async ({ stdout, env }) => {
    const isAsPromised = await tour(stdout, chooseStyle({ isTerminal: stdout.isTTY === true, env }));
    const next = "Next: `npm start` on a terminal is a chat; README.md says how to embed it.";
    stdout.write(isAsPromised ? `\n${next}\n` : "\nSomething ran twice or not at all; please report it.\n");
    return isAsPromised ? EXIT.finished : EXIT.stopped;
  },
};
