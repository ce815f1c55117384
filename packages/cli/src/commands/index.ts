// Every command, in the order the help shows them.

import { chatCommand } from "./chat-command.ts";
import type { Command } from "./command.ts";
import { runCommand } from "./run-command.ts";
import {
  deleteCommand,
  forkCommand,
  recoverCommand,
  sessionsCommand,
  showCommand,
} from "./session-commands.ts";
import { tourCommand } from "./tour-command.ts";
import { traceCommand } from "./trace-command.ts";
import { trustCommand } from "./trust-command.ts";

export const COMMANDS: readonly Command[] = [
  chatCommand,
  runCommand,
  sessionsCommand,
  showCommand,
  recoverCommand,
  forkCommand,
  deleteCommand,
  traceCommand,
  trustCommand,
  tourCommand,
];
